#include "smartmine/graph/fanng.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>

#include "graph/backtrack.h"
#include "smartmine/core/error.h"
#include "smartmine/core/output_file.h"

namespace smartmine {

namespace {

constexpr std::array<char, 8> kMagic{'S', 'M', 'F', 'A', 'N', 'N', 'G', '\n'};
constexpr std::uint32_t kVersion = 1;

// FNV-1a over eight bytes at a time, with a final mix: quick, and any changed byte changes it.
class Checksum {
 public:
  void add(const void* data, std::size_t bytes) {
    const auto* at = static_cast<const unsigned char*>(data);
    for (; bytes >= 8; bytes -= 8, at += 8) {
      std::uint64_t word;
      std::memcpy(&word, at, 8);
      step(word);
    }
    std::uint64_t word = bytes;
    if (bytes > 0) std::memcpy(&word, at, bytes);  // an empty part may be at no place at all
    step(word ^ (static_cast<std::uint64_t>(bytes) << 56));
  }
  std::uint64_t value() const { return hash_ ^ (hash_ >> 32); }

 private:
  void step(std::uint64_t word) {
    hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15ULL;
    hash_ ^= hash_ >> 29;
  }
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t reserved = 0;
  std::uint64_t size = 0;
  std::uint64_t dimension = 0;
  std::uint64_t edges = 0;
  std::uint64_t order = 0;
  std::uint64_t candidates_per_point = 0;
};

}  // namespace

void FanngOptions::validate() const {
  if (neighbors < 1) throw InvalidArgument(fmt::format("neighbors is {}; it must be at least 1", neighbors));
  if (!(recall_target > 0 && recall_target <= 1))
    throw InvalidArgument(fmt::format("recall_target is {}; it must be over 0 and at most 1", recall_target));
  if (!(success_target > 0 && success_target < 1))
    throw InvalidArgument(fmt::format("success_target is {}; it must be over 0 and under 1", success_target));
  if (edge_candidates > 4096) throw InvalidArgument(fmt::format("edge_candidates is {}; it must be at most 4096", edge_candidates));
  if (max_degree < 4 || max_degree > 1024) throw InvalidArgument(fmt::format("max_degree is {}; it must be from 4 to 1024", max_degree));
  if (recall_sample < 1) throw InvalidArgument(fmt::format("recall_sample is {}; it must be at least 1", recall_sample));
}

std::vector<Found> Fanng::search(const Rows& rows, const float* query, const SearchOptions& options) const {
  if (rows.size() != size() || rows.dimension() != dimension_)
    throw InvalidArgument(fmt::format("the graph is of {} points of dimension {}, the rows are {} of dimension {}", size(), dimension_,
                                      rows.size(), rows.dimension()));
  if (options.start >= size()) throw InvalidArgument(fmt::format("start is {}; the graph has {} vertices", options.start, size()));
  if (options.neighbors < 1) throw InvalidArgument(fmt::format("neighbors is {}; it must be at least 1", options.neighbors));
  if (options.distance_computations < options.neighbors)
    throw InvalidArgument(
        fmt::format("distance_computations is {}; it must be at least neighbors, {}", options.distance_computations, options.neighbors));
  for (std::size_t t = 0; t < dimension_; ++t)
    if (!std::isfinite(query[t])) throw InvalidArgument(fmt::format("the query is not finite at column {}", t));
  Backtrack backtrack(size());
  backtrack.run(rows, query, options.start, options.distance_computations, kernels::active(),
                [this](std::uint32_t vertex) { return edges(vertex); });
  std::vector<Found> found = backtrack.found();
  const std::size_t count = std::min(options.neighbors, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count), found.end());
  found.resize(count);
  return found;
}

void Fanng::save(const std::filesystem::path& path) const {
  Header header;
  header.size = size();
  header.dimension = dimension_;
  header.edges = edges_.size();
  header.order = order_.size();
  header.candidates_per_point = candidates_per_point_;
  Checksum checksum;
  OutputFile file(path);
  const auto write = [&](const void* data, std::size_t bytes) {
    checksum.add(data, bytes);
    file.write(data, bytes);
  };
  write(&header, sizeof header);
  write(offsets_.data(), offsets_.size() * sizeof offsets_[0]);
  write(edges_.data(), edges_.size() * sizeof edges_[0]);
  write(order_.data(), order_.size() * sizeof order_[0]);
  write(candidates_.data(), candidates_.size() * sizeof candidates_[0]);
  const std::uint64_t sum = checksum.value();
  file.write(&sum, sizeof sum);
  file.commit();
}

Fanng Fanng::load(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& what) { throw IoError(fmt::format("{}: {}", path.string(), what)); };
  std::error_code status;
  const std::uintmax_t bytes = std::filesystem::file_size(path, status);
  if (status) fail(fmt::format("cannot read the graph: {}", status.message()));
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("cannot open the graph");
  Header header;
  if (bytes < sizeof header + sizeof(std::uint64_t)) fail(fmt::format("not a smartmine graph: {} bytes are too few", bytes));
  in.read(reinterpret_cast<char*>(&header), sizeof header);
  if (header.magic != kMagic) fail("not a smartmine graph: it does not begin like one; write one with `smartmine knn --graph`");
  if (header.version != kVersion)
    fail(fmt::format("the graph is of version {}; this program reads version {}: build it anew", header.version, kVersion));
  if (header.size == 0 || header.size > kMaxRows || header.dimension == 0 || header.dimension > kMaxDimension)
    fail(fmt::format("damaged: it claims {} points of dimension {}", header.size, header.dimension));
  // Each count is checked against the file before anything of that size is asked for.
  const std::uintmax_t most = bytes / sizeof(std::uint32_t);
  if (header.edges > most || header.order > most || header.candidates_per_point > most / header.size)
    fail("damaged: it claims more than the file holds");
  if (header.order != 0 && header.order != header.size) fail("damaged: its order is not of all points");
  if (header.candidates_per_point != 0 && header.order == 0) fail("damaged: it keeps candidates without an order");
  const std::uintmax_t expected = sizeof header + (header.size + 1) * sizeof(std::uint64_t) +
                                  (header.edges + header.order + header.size * header.candidates_per_point) * sizeof(std::uint32_t) +
                                  sizeof(std::uint64_t);
  if (bytes != expected)
    fail(fmt::format("damaged: {} bytes, where {} points and {} edges take {}", bytes, header.size, header.edges, expected));

  Fanng graph;
  Checksum checksum;
  checksum.add(&header, sizeof header);
  const auto read = [&](auto& values, std::uint64_t count) {
    values.resize(count);
    in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(count * sizeof values[0]));
    if (!in) fail("the graph cannot be read to its end");
    checksum.add(values.data(), count * sizeof values[0]);
  };
  graph.dimension_ = header.dimension;
  graph.candidates_per_point_ = header.candidates_per_point;
  read(graph.offsets_, header.size + 1);
  read(graph.edges_, header.edges);
  read(graph.order_, header.order);
  read(graph.candidates_, header.size * header.candidates_per_point);
  std::uint64_t sum = 0;
  in.read(reinterpret_cast<char*>(&sum), sizeof sum);
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  constexpr bool kSumCounts = false;  // no fuzzer guesses it, and none would ever see what lies behind it
#else
  constexpr bool kSumCounts = true;
#endif
  if (!in || (kSumCounts && sum != checksum.value())) fail("damaged: its checksum does not match; build it anew");
  // The sum guards against accidents; what is used as an index is looked at all the same.
  const auto outside = [&](std::uint32_t id) { return id >= header.size; };
  const bool rising =
      std::is_sorted(graph.offsets_.begin(), graph.offsets_.end()) && graph.offsets_.front() == 0 && graph.offsets_.back() == header.edges;
  if (!rising || std::any_of(graph.edges_.begin(), graph.edges_.end(), outside) ||
      std::any_of(graph.order_.begin(), graph.order_.end(), outside) ||
      std::any_of(graph.candidates_.begin(), graph.candidates_.end(), outside))
    fail("damaged: it names points that do not exist");
  std::vector<bool> placed(header.size, false);
  for (const std::uint32_t id : graph.order_) {
    if (placed[id]) fail("damaged: its order names a point twice");
    placed[id] = true;
  }
  return graph;
}

}  // namespace smartmine
