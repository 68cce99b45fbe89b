#include "graph/packed_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "smartmine/core/parallel.h"

namespace smartmine {

namespace {

// Queries scanned together: their packed forms stay in the nearest cache.
constexpr std::size_t kQueryBlock = 64;

// What brings coordinates up to `most` to 127 steps; its square must be a float too.
float scale_for(float most) {
  if (!(most > 0)) return 1.0F;
  return std::clamp(127.0F / std::max(most, 1e-36F), 1e-18F, 1e18F);
}

bool is_in(std::span<const std::uint32_t> ids, std::size_t id) { return !ids.empty() && std::binary_search(ids.begin(), ids.end(), id); }

// The mean of `count` rows spread evenly over all, but for some left out, and the largest coordinate of each of them about it.
Frame frame_of(const Rows& rows, std::size_t count, std::vector<float>& reach, unsigned threads,
               std::span<const std::uint32_t> left_out = {}) {
  const std::size_t size = rows.size(), dimension = rows.dimension();
  constexpr std::size_t kPiece = 1024;
  std::vector<std::vector<double>> sums((count + kPiece - 1) / kPiece);
  parallel_for(count, kPiece, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    std::vector<double>& sum = sums[begin / kPiece];
    sum.assign(dimension, 0.0);
    for (std::size_t s = begin; s < end; ++s) {
      if (is_in(left_out, s * size / count)) continue;
      const float* row = rows[s * size / count];
      for (std::size_t t = 0; t < dimension; ++t) sum[t] += row[t];
    }
  });
  Frame frame;
  frame.centre.resize(dimension);
  for (std::size_t t = 0; t < dimension; ++t) {
    double total = 0;
    for (const std::vector<double>& sum : sums) total += sum[t];
    frame.centre[t] = static_cast<float>(total / static_cast<double>(count - left_out.size()));
  }
  reach.resize(count);
  parallel_for(count, kPiece, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    for (std::size_t s = begin; s < end; ++s) {
      const float* row = rows[s * size / count];
      float most = 0;
      for (std::size_t t = 0; t < dimension; ++t) most = std::max(most, std::abs(row[t] - frame.centre[t]));
      reach[s] = most;
    }
  });
  return frame;
}

}  // namespace

Frame sampled_frame(const Rows& rows, unsigned threads) {
  std::vector<float> reach;
  Frame frame = frame_of(rows, std::min<std::size_t>(rows.size(), 16384), reach, threads);
  // One row in a hundred may have a coordinate clipped: finer steps for the rest are worth more.
  const auto place = reach.begin() + static_cast<std::ptrdiff_t>(reach.size() - 1 - reach.size() / 100);
  std::nth_element(reach.begin(), place, reach.end());
  frame.scale = scale_for(*place);
  return frame;
}

Frame whole_frame(const Rows& rows, unsigned threads) {
  std::vector<float> reach;
  Frame frame = frame_of(rows, rows.size(), reach, threads);
  const float most = *std::max_element(reach.begin(), reach.end());
  frame.scale = scale_for(most);
  return frame;
}

Frame usual_frame(const Rows& rows, unsigned threads, std::vector<std::uint32_t>& far) {
  constexpr std::size_t kMostFar = 128, kShare = 64;  // at most so many, and one row in so many
  constexpr float kFar = 2;
  constexpr int kRounds = 3;  // the farthest drag the mean along, and hide the next
  const std::size_t most = std::min(kMostFar, rows.size() / kShare);
  far.clear();
  std::vector<float> reach, sorted;
  Frame frame;
  for (int round = 0; round < kRounds; ++round) {
    frame = frame_of(rows, rows.size(), reach, threads, far);
    sorted = reach;
    const auto place = sorted.end() - 1 - static_cast<std::ptrdiff_t>(most);
    std::nth_element(sorted.begin(), place, sorted.end());
    std::vector<std::uint32_t> farther;
    for (std::size_t i = 0; i < reach.size(); ++i)
      if (reach[i] > kFar * *place) farther.push_back(static_cast<std::uint32_t>(i));
    const bool settled = farther == far || !(*place > 0);  // most rows may be equal
    if (settled) break;
    far = std::move(farther);
  }
  float largest = 0;
  for (std::size_t i = 0; i < reach.size(); ++i)
    if (!is_in(far, i)) largest = std::max(largest, reach[i]);
  frame.scale = scale_for(largest);
  return frame;
}

void Frame::turn(const float* row, float* out) const {
  for (std::size_t t = 0; t < centre.size(); ++t) out[t] = row[t] - centre[t];
  rotation->turn(out);
}

Frame turned_frame(const Rows& rows, Frame whole, unsigned threads, std::span<const std::uint32_t> far) {
  constexpr std::size_t kPiece = 1024;
  Frame turned = whole;
  turned.rotation.emplace(rows.dimension());
  std::vector<float> most((rows.size() + kPiece - 1) / kPiece, 0.0F);
  parallel_for(rows.size(), kPiece, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    std::vector<float> row(rows.dimension());
    for (std::size_t i = begin; i < end; ++i) {
      if (is_in(far, i)) continue;
      turned.turn(rows[i], row.data());
      for (const float value : row) most[begin / kPiece] = std::max(most[begin / kPiece], std::abs(value));
    }
  });
  turned.scale = scale_for(*std::max_element(most.begin(), most.end()));
  return turned.scale > whole.scale ? turned : whole;
}

const kernels::PanelKernels& panel_kernels(const kernels::Kernels& kernels, std::size_t dimension) {
  // Few coordinates in 255 steps each tell too few points apart, and gain little.
  constexpr std::size_t kFewCoordinates = 16;
  return kernels.bytes != nullptr && dimension >= kFewCoordinates && dimension <= kernels::kMaxByteDimension ? *kernels.bytes
                                                                                                             : kernels.floats;
}

float pack_panels(const kernels::PanelKernels& kernels, const Frame& frame, const float* rows, std::size_t first, std::size_t count,
                  std::uint8_t* panels, std::span<const std::uint32_t> ids) {
  const std::size_t bytes = kernels.panel_bytes(frame.centre.size());
  std::uint32_t following[kernels::kPanelWidth];
  float error = 0;
  for (std::size_t p = 0; p < panels_of(count); ++p) {
    const std::size_t lanes = std::min(kernels::kPanelWidth, count - p * kernels::kPanelWidth);
    const std::size_t from = first + p * kernels::kPanelWidth;
    std::iota(following, following + lanes, static_cast<std::uint32_t>(from));
    const std::uint32_t* mine = ids.empty() ? following : ids.data() + from;
    error = std::max(error, kernels.pack_panel(frame.packing(), rows, mine, lanes, panels + p * bytes));
  }
  return error;
}

namespace {

// All numbers under `size` but those left out; none where none are.
std::vector<std::uint32_t> others(std::size_t size, std::span<const std::uint32_t> left_out) {
  if (left_out.empty()) return {};
  std::vector<std::uint32_t> all(size), rest(size - left_out.size());
  std::iota(all.begin(), all.end(), 0U);
  std::set_difference(all.begin(), all.end(), left_out.begin(), left_out.end(), rest.begin());
  return rest;
}

}  // namespace

float PackedRows::longest_row(const Rows& rows, unsigned threads) const {
  constexpr std::size_t kPiece = 4096;
  std::vector<float> longest((size_ + kPiece - 1) / kPiece, 0.0F);
  parallel_for(size_, kPiece, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    for (std::size_t i = begin; i < end; ++i)
      longest[begin / kPiece] = std::max(longest[begin / kPiece], table_->squared_distance(rows[row(static_cast<std::uint32_t>(i))],
                                                                                           frame_.centre.data(), rows.dimension()));
  });
  return *std::max_element(longest.begin(), longest.end()) * frame_.scale * frame_.scale;
}

PackedRows::PackedRows(const Rows& rows, const Frame& frame, const kernels::Kernels& kernels, unsigned threads)
    : PackedRows(rows, frame, kernels, panel_kernels(kernels, rows.dimension()), threads) {}

PackedRows::PackedRows(const Rows& rows, const Frame& frame, const kernels::Kernels& kernels, const kernels::PanelKernels& panels,
                       unsigned threads, std::span<const std::uint32_t> left_out)
    : ids_(others(rows.size(), left_out)),
      size_(rows.size() - left_out.size()),
      frame_(frame),
      table_(&kernels),
      kernels_(&panels),
      panel_bytes_(kernels_->panel_bytes(rows.dimension())),
      panels_(panel_count() * panel_bytes_) {
  constexpr std::size_t kPiece = 64 * kernels::kPanelWidth;
  std::vector<float> errors((size_ + kPiece - 1) / kPiece);
  parallel_for(size_, kPiece, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    std::uint8_t* out = panels_.data() + begin / kernels::kPanelWidth * panel_bytes_;
    if (!frame_.rotation) {
      errors[begin / kPiece] = pack_panels(*kernels_, frame_, rows.data(), begin, end - begin, out, ids_);
      return;
    }
    Buffer<float> turned((end - begin) * rows.dimension());
    for (std::size_t i = begin; i < end; ++i)
      frame_.turn(rows[row(static_cast<std::uint32_t>(i))], turned.data() + (i - begin) * rows.dimension());
    errors[begin / kPiece] = pack_panels(*kernels_, frame_, turned.data(), 0, end - begin, out);
  });
  error_ = *std::max_element(errors.begin(), errors.end());
  longest_ = longest_row(rows, threads);
  if (frame_.rotation) error_ += frame_.rotation->rounding() * std::sqrt(longest_);
}

float PackedRows::pack_query(const float* row, void* query, kernels::Reservoir* reservoir, float* scratch) const {
  if (!frame_.rotation) return kernels_->pack_query(frame_.packing(), row, query, reservoir);
  frame_.turn(row, scratch);
  const float length = std::sqrt(table_->dot(scratch, scratch, frame_.centre.size()));
  return kernels_->pack_query(frame_.packing(), scratch, query, reservoir) + 2 * frame_.rotation->rounding() * length * frame_.scale;
}

float PackedRows::rounding(float query_norm) const {
  // A sum of d products errs by at most d * eps of the sum of their sizes, which is at most (|q| + |c|)^2. Squares of plain differences
  // that are too small for a float are lost, each at most the smallest float there is.
  const auto terms = static_cast<float>(frame_.centre.size() + 8);
  const float reach = std::sqrt(std::abs(query_norm)) + std::sqrt(longest_);
  return 4 * terms *
         (std::numeric_limits<float>::epsilon() * reach * reach + std::numeric_limits<float>::denorm_min() * frame_.scale * frame_.scale);
}

void assign_nearest(const Rows& rows, std::span<const std::uint32_t> ids, const PackedRows& packed, std::span<std::uint32_t> nearest,
                    unsigned threads, const Progress& progress, std::string_view stage) {
  constexpr std::size_t kCapacity = 1 + kernels::kReservoirSlack + kernels::kPanelWidth;
  const kernels::PanelKernels& kernels = packed.kernels();
  const std::size_t query_bytes = kernels.query_bytes(rows.dimension());
  parallel_for(
      ids.size(), kQueryBlock, threads,
      [&](std::size_t begin, std::size_t end, unsigned) {
        const std::size_t count = end - begin;
        std::vector<std::uint8_t> queries(count * query_bytes);
        std::vector<float> scores(count * kCapacity);
        std::vector<std::uint32_t> slots(count * kCapacity);
        std::vector<kernels::Reservoir> reservoirs(count);
        std::vector<float> scratch(rows.dimension());
        for (std::size_t i = 0; i < count; ++i) {
          reservoirs[i] = {kernels.lowest_score, 0, scores.data() + i * kCapacity, slots.data() + i * kCapacity, 0, 0, 0, false, 0};
          packed.pack_query(rows[ids[begin + i]], queries.data() + i * query_bytes, &reservoirs[i], scratch.data());
        }
        kernels.scan({queries.data(), count, packed.panel(0), packed.panel_count(), 0, rows.dimension(), reservoirs.data(), 1, kCapacity});
        for (std::size_t i = 0; i < count; ++i) {
          packed.table().finish(&reservoirs[i], 1, 0);
          nearest[begin + i] = reservoirs[i].slots[0];
        }
      },
      progress, stage);
}

}  // namespace smartmine
