#include "train/rank_work.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <vector>

#include "smartmine/core/mapped_file.h"
#include "smartmine/core/parallel.h"
#include "smartmine/graph/list_instructions.h"
#include "smartmine/run/backbone_traits.h"
#include "train/recorder.h"

namespace smartmine {
namespace {

class Digest {
 public:
  void add(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const unsigned char*>(data);
    std::uint64_t word = 0;
    for (; bytes >= sizeof word; bytes -= sizeof word, from += sizeof word) {
      std::memcpy(&word, from, sizeof word);
      mix(word);
    }
    word = 0;
    std::memcpy(&word, from, bytes);
    mix(word + bytes);
  }
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  void mix(std::uint64_t word) {
    value_ = (value_ ^ word) * 0x9e3779b97f4a7c15ULL;
    value_ ^= value_ >> 29;
  }
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

void share_tensors(Ranks& ranks, const NamedTensors& tensors) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    torch::Tensor target = tensor.detach();
    torch::Tensor host = target.cpu().contiguous();
    ranks.broadcast(host.data_ptr(), static_cast<std::size_t>(host.nbytes()));
    if (!ranks.is_first()) target.copy_(host);
  }
}

/// A file that is only in memory, for readers that take a path.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes) : file_(memfd_create("smartmine", MFD_CLOEXEC)) {
    for (std::size_t done = 0; file_ >= 0 && done < bytes.size();) {
      const ssize_t written = ::write(file_, bytes.data() + done, bytes.size() - done);
      if (written <= 0) throw IoError("no memory for the graph that rank 0 sent");
      done += static_cast<std::size_t>(written);
    }
    if (file_ < 0) throw IoError("no file in memory can be made for the graph that rank 0 sent");
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::filesystem::path path() const { return fmt::format("/proc/self/fd/{}", file_); }

 private:
  int file_;
};

/// A file of rank 0's; an empty path, or one of nothing, is an empty text.
std::string share_file(Ranks& ranks, const std::filesystem::path& path) {
  std::string bytes;
  std::error_code none;
  if (ranks.is_first() && !path.empty() && std::filesystem::exists(path, none)) {
    const MappedFile file(path);
    bytes.assign(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  }
  return ranks.broadcast(bytes);
}

std::string ids_of(const Dataset& images) {
  std::string ids;
  for (std::size_t i = 0; i < images.size(); ++i) ids += fmt::format("{} of class {}\n", images.id(i), images.label(i));
  return ids;
}

/// Compares digests first: the text goes over the network only where it differs.
void expect_same_long_text(Ranks& ranks, const std::string& what, const std::string& text) {
  Digest digest;
  digest.add(text.data(), text.size());
  const std::vector<std::string> digests = ranks.gather(digest.text());
  if (std::all_of(digests.begin(), digests.end(), [&](const std::string& each) { return each == digests[0]; })) return;
  ranks.expect_same(what, text);
}

std::string line_of_file(const char* what, const std::string& path) {
  const MappedFile file(path);
  Digest digest;
  digest.add(file.bytes().data(), file.bytes().size());
  return fmt::format("{} of {} bytes, digest {}\n", what, file.bytes().size(), digest.text());
}

}  // namespace

RunConfig with_share_of_cores(RunConfig config, const Ranks* ranks) {
  if (ranks == nullptr || config.compute.threads > 0) return config;
  const auto cores = static_cast<std::int64_t>(resolve_threads(0));
  // The network's follow from the shards, see network.cpp, so that its bits are the same with any number of ranks.
  if (!config.compute.network_threads)
    config.compute.network_threads = std::max<std::int64_t>(1, cores / config.compute.shards.value_or(1));
  config.compute.threads = std::max<std::int64_t>(1, cores / ranks->local_size());
  return config;
}

unsigned threads_of_host(const Epoch& epoch) {
  const auto own = static_cast<unsigned>(epoch.config.compute.threads);
  return epoch.ranks == nullptr ? own : own * static_cast<unsigned>(epoch.ranks->local_size());
}

void expect_same_means(Ranks& ranks, const torch::Device& device, const NetworkOptions& model) {
  ranks.expect_same("means of computing",
                    fmt::format("device {}\nlists by {}; SMARTMINE_KERNEL sets that\n{}{}", device.is_cuda() ? "cuda" : "cpu",
                                list_instructions(), model.weights.empty() ? "" : line_of_file("weights", model.weights),
                                is_backbone_file(model.backbone) ? line_of_file("backbone", model.backbone) : ""));
}

void expect_same_images(Ranks& ranks, const Dataset& images) { expect_same_long_text(ranks, "images", ids_of(images)); }

void expect_same_sizes(Ranks& ranks, const Dataset& images) {
  std::string sizes;
  std::error_code none;  // a file that has gone meanwhile is told when it is read
  for (std::size_t i = 0; i < images.size(); ++i)
    if (const std::filesystem::path path = images.path(i); !path.empty())
      sizes += fmt::format("{} of {} bytes\n", images.id(i), std::filesystem::file_size(path, none));
  expect_same_long_text(ranks, "images", sizes);
}

CheckShare share_of_checks(Ranks& ranks, std::size_t images) {
  const RankShare own = share_of(images, ranks.rank(), ranks.size());
  return {.begin = own.begin, .end = own.end, .merge = [&ranks](std::vector<std::string>& reasons) {
            std::string found;
            for (std::size_t i = 0; i < reasons.size(); ++i)
              if (!reasons[i].empty()) found += fmt::format("{} {}\n", i, reasons[i]);
            const std::vector<std::string> all = ranks.gather(found);
            reasons.assign(reasons.size(), "");
            for (std::size_t r = 0; r < all.size(); ++r) {
              std::istringstream lines(all[r]);
              std::size_t item = 0;
              for (std::string reason; lines >> item && std::getline(lines, reason);)
                if (reasons.at(item).empty()) reasons[item] = fmt::format("on rank {}:{}", r, reason);
            }
          }};
}

void expect_same_plan(Ranks& ranks, const Epoch& epoch, const EpochPlan& plan, const KappaPolicy* kappa) {
  Digest digest;
  digest.add(plan.items.data(), plan.items.size() * sizeof plan.items[0]);
  digest.add(plan.triplets.data(), plan.triplets.size() * sizeof(Triplet));
  ranks.expect_same(fmt::format("triplets or batches of epoch {}", epoch.number), fmt::format("digest {}", digest.text()));
  if (kappa != nullptr) ranks.expect_same(fmt::format("kappas in epoch {}", epoch.number), kappa->save());
}

void expect_same_weights(Ranks& ranks, const Epoch& epoch) {
  Digest digest;
  for (const auto& [name, tensor] : epoch.network.model->state()) {
    const torch::Tensor host = tensor.detach().cpu().contiguous();
    digest.add(host.data_ptr(), static_cast<std::size_t>(host.nbytes()));
  }
  ranks.expect_same(fmt::format("weights after epoch {}", epoch.number), fmt::format("digest {}", digest.text()));
}

void share_state(Ranks& ranks, const std::filesystem::path& checkpoint, const Network& network, const LabelIndex& labels,
                 Persistent& kept) {
  share_tensors(ranks, network.model->state());
  share_tensors(ranks, kept.optimizer->state());
  const auto of_checkpoint = [&](const char* name) { return share_file(ranks, checkpoint.empty() ? checkpoint : checkpoint / name); };
  const std::string graph = of_checkpoint(kGraphFile), memory = of_checkpoint(kMemoryFile);
  if (!ranks.is_first() && !graph.empty()) kept.index.load(MemoryFile(graph).path());
  const TrainState saved = parse_state(ranks.broadcast(ranks.is_first() ? to_json(full_state(kept)) : std::string()));
  std::string items;
  if (kept.under_way)
    items.assign(reinterpret_cast<const char*>(kept.under_way->plan.items.data()),
                 kept.under_way->plan.items.size() * sizeof(std::uint32_t));
  items = ranks.broadcast(items);
  if (ranks.is_first()) return;
  if (kept.kappa) kept.kappa->load(saved.kappa);
  if (saved.in_epoch) {
    EpochPlan plan;
    plan.items.resize(items.size() / sizeof(std::uint32_t));
    std::memcpy(plan.items.data(), items.data(), items.size());
    plan.batch_items = saved.batch_items;
    plan.observe_kappa = saved.observe_kappa;
    kept.under_way = EpochUnderWay{.plan = std::move(plan), .record = parse_record(saved.record), .next_step = saved.next_step};
    if (!memory.empty()) kept.under_way->memory.emplace(MemoryFile(memory).path(), labels, network.device);
  }
  kept.state = saved;
}

EpochRecord shared_record(Ranks& ranks, const EpochRecord& record) {
  const std::string line = ranks.broadcast(ranks.is_first() ? to_json_line(record) : std::string());
  return ranks.is_first() ? record : parse_record(line);
}

NeighborResult find_shared_lists(Ranks& ranks, NeighborIndex& index, const Rows& rows, const NeighborCall& call, const Progress& progress) {
  const Team team = team_of(ranks);
  NeighborCall shared = call;
  shared.team = &team;
  return index.neighbors(rows, shared, progress);
}

}  // namespace smartmine
