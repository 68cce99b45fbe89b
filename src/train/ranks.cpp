#include "smartmine/train/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "train/ranks_link.h"

namespace smartmine {
namespace {

const char* variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr || *text == '\0' ? nullptr : text;
}

int whole_variable(const char* name, int low, int high) {
  const char* const text = variable(name);
  if (text == nullptr)
    throw InvalidArgument(fmt::format("{} is not set; ranks are started with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT", name));
  int value = 0;
  const std::string_view whole(text);
  const auto [end, error] = std::from_chars(whole.data(), whole.data() + whole.size(), value);
  if (error != std::errc() || end != whole.data() + whole.size() || value < low || value > high)
    throw InvalidArgument(fmt::format("{} is '{}'; it must be from {} to {}", name, whole, low, high));
  return value;
}

/// The first line in which two texts differ, as they have it.
std::pair<std::string_view, std::string_view> first_difference(std::string_view a, std::string_view b) {
  const auto next_line = [](std::string_view& text) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
  };
  while (!a.empty() || !b.empty()) {
    const std::string_view of_a = next_line(a), of_b = next_line(b);
    if (of_a != of_b) return {of_a, of_b};
  }
  return {};
}

std::string quoted(std::string_view line) { return line.empty() ? "nothing" : fmt::format("'{}'", line); }

}  // namespace

void RankWorld::validate() const {
  constexpr int kMostRanks = 4096;
  constexpr double kMostSeconds = 86400;
  if (size < 1 || size > kMostRanks) throw InvalidArgument(fmt::format("size is {}; it must be from 1 to {}", size, kMostRanks));
  if (rank < 0 || rank >= size) throw InvalidArgument(fmt::format("rank is {}; of {} ranks it must be from 0 to {}", rank, size, size - 1));
  if (address.empty()) throw InvalidArgument("address is ''; it must be the name or number of the host that ranks meet at");
  if (port == 0) throw InvalidArgument("port is 0; it must be from 1 to 65535");
  if (!(timeout_seconds >= 1 && timeout_seconds <= kMostSeconds))
    throw InvalidArgument(fmt::format("timeout_seconds is {}; it must be from 1 to {}", timeout_seconds, kMostSeconds));
}

std::optional<RankWorld> world_of_environment() {
  if (variable("RANK") == nullptr && variable("WORLD_SIZE") == nullptr) return std::nullopt;
  constexpr int kMostRanks = 4096, kMostPort = 65535;
  RankWorld world;
  world.size = whole_variable("WORLD_SIZE", 1, kMostRanks);
  world.rank = whole_variable("RANK", 0, world.size - 1);
  if (world.size == 1) return std::nullopt;
  if (variable("LOCAL_RANK") != nullptr) world.local_rank = whole_variable("LOCAL_RANK", 0, kMostRanks);
  if (variable("MASTER_ADDR") == nullptr)
    throw InvalidArgument("MASTER_ADDR is not set; it must be the name or number of the host of rank 0");
  world.address = variable("MASTER_ADDR");
  world.port = static_cast<std::uint16_t>(whole_variable("MASTER_PORT", 1, kMostPort));
  const auto says_true = [](const char* name) {
    const char* const text = variable(name);
    return text != nullptr && std::string_view(text) == "True";
  };
  // An agent's store lasts from one attempt to the next. Its count of restarts does not tell them apart: each host's agent counts its own.
  world.store_lasts = says_true("TORCHELASTIC_USE_AGENT_STORE");
  world.store_elsewhere = world.store_lasts || says_true(kStartersStore);
  return world;
}

RankShare share_of(std::size_t count, int rank, int size) {
  const auto r = static_cast<std::size_t>(rank), n = static_cast<std::size_t>(size);
  return {count * r / n, count * (r + 1) / n};
}

RankShare share_of_blocks(std::size_t count, std::size_t block, int rank, int size) {
  const RankShare blocks = share_of((count + block - 1) / block, rank, size);
  return {std::min(count, blocks.begin * block), std::min(count, blocks.end * block)};
}

Ranks::Ranks(const RankWorld& world, std::unique_ptr<Link> link) : world_(world), link_(std::move(link)) {}
Ranks::~Ranks() = default;

std::shared_ptr<Ranks> Ranks::join(const RankWorld& world) {
  world.validate();
  std::shared_ptr<Ranks> ranks(new Ranks(world, std::make_unique<Link>(world)));
  ranks->local_size_ = ranks->link_->local_size();
  ranks->local_rank_ = ranks->link_->local_rank();
  return ranks;
}

void Ranks::send(const void* data, std::size_t bytes, int to) { link_->send(data, bytes, to); }
void Ranks::receive(void* data, std::size_t bytes, int from) { link_->receive(data, bytes, from); }
void Ranks::fail(const std::string& why) noexcept { link_->fail(fmt::format("rank {} ended: {}", rank(), why)); }

// Down a tree: who has it hands it on to the rank one bit away, the farthest first.
void Ranks::broadcast(void* data, std::size_t bytes) {
  int step = 1;
  while (step < size()) step *= 2;
  for (; step >= 1; step /= 2) {
    if (rank() % (2 * step) == 0) {
      if (rank() + step < size()) send(data, bytes, rank() + step);
    } else if (rank() % (2 * step) == step) {
      receive(data, bytes, rank() - step);
    }
  }
}

std::string Ranks::broadcast(const std::string& text) {
  std::uint64_t length = text.size();
  broadcast(&length, sizeof length);
  std::string result = is_first() ? text : std::string(length, '\0');
  if (length > 0) broadcast(result.data(), length);
  return result;
}

void Ranks::gather(void* all, std::span<const std::size_t> begins) {
  require(begins.size() == static_cast<std::size_t>(size()) + 1, "parts of a gather are as many as ranks");
  auto* const bytes = static_cast<std::byte*>(all);
  std::vector<std::byte> asked(static_cast<std::size_t>(size()));
  const auto me = static_cast<std::size_t>(rank());
  asked[me] = static_cast<std::byte>(asked_to_stop_ ? 1 : 0);
  std::vector<Link::Piece> parts;
  for (std::size_t r = 0; r < asked.size(); ++r) parts.push_back({bytes + begins[r], begins[r + 1] - begins[r], &asked[r]});
  link_->exchange(parts);
  if (std::any_of(asked.begin(), asked.end(), [](std::byte each) { return each != std::byte{0}; })) throw Cancelled();
}

Team team_of(Ranks& ranks) {
  return {.member = static_cast<std::size_t>(ranks.rank()),
          .size = static_cast<std::size_t>(ranks.size()),
          .gather = [&ranks](void* all, std::size_t row_bytes, std::span<const std::size_t> begins) {
            std::vector<std::size_t> bytes;
            for (const std::size_t begin : begins) bytes.push_back(begin * row_bytes);
            ranks.gather(all, bytes);
          }};
}

void Ranks::gather_rows(void* all, std::size_t row_bytes, std::span<const RankShare> shares) {
  std::vector<std::size_t> begins;
  for (const RankShare& share : shares) begins.push_back(share.begin * row_bytes);
  begins.push_back(shares.back().end * row_bytes);
  gather(all, begins);
}

std::vector<std::string> Ranks::gather(const std::string& text) {
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(size()));
  lengths[static_cast<std::size_t>(rank())] = text.size();
  std::vector<std::size_t> begins(lengths.size() + 1);
  for (std::size_t r = 0; r < begins.size(); ++r) begins[r] = r * sizeof(std::uint64_t);
  gather(lengths.data(), begins);
  for (std::size_t r = 0; r < lengths.size(); ++r) begins[r + 1] = begins[r] + lengths[r];
  std::string all(begins.back(), '\0');
  std::memcpy(all.data() + begins[static_cast<std::size_t>(rank())], text.data(), text.size());
  gather(all.data(), begins);
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < lengths.size(); ++r) texts.push_back(all.substr(begins[r], lengths[r]));
  return texts;
}

void Ranks::expect_same(const std::string& what, const std::string& text) {
  const std::vector<std::string> texts = gather(text);
  for (std::size_t r = 1; r < texts.size(); ++r) {
    if (texts[r] == texts[0]) continue;
    const auto [first, other] = first_difference(texts[0], texts[r]);
    throw RankFailure(fmt::format("rank {} has other {} than rank 0: {} where that has {}", r, what, quoted(other), quoted(first)));
  }
}

Progress Ranks::watched(const Progress& progress) {
  return [this, progress](const ProgressEvent& event) {
    link_->note_work();
    if (progress && !progress(event)) asked_to_stop_ = true;
    return true;
  };
}

}  // namespace smartmine
