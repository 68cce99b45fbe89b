#include "graph/packed_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "smartmine/core/parallel.h"

namespace smartmine {

namespace {

// Queries scanned together: their packed forms stay in the nearest cache.
constexpr std::size_t kQueryBlock = 64;

}  // namespace

Frame global_frame(const Rows& rows, unsigned threads) {
  constexpr std::size_t kLook = 16384;  // rows looked at, spread evenly: the frame need not be exact
  const std::size_t size = rows.size(), dimension = rows.dimension();
  const std::size_t count = std::min(size, kLook);
  Frame frame;
  std::vector<double> sums(dimension, 0.0);
  for (std::size_t s = 0; s < count; ++s) {
    const float* row = rows[s * size / count];
    for (std::size_t t = 0; t < dimension; ++t) sums[t] += row[t];
  }
  frame.centre.resize(dimension);
  for (std::size_t t = 0; t < dimension; ++t) frame.centre[t] = static_cast<float>(sums[t] / static_cast<double>(count));
  std::vector<float> reach(count);
  parallel_for(count, 256, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    for (std::size_t s = begin; s < end; ++s) {
      const float* row = rows[s * size / count];
      float most = 0;
      for (std::size_t t = 0; t < dimension; ++t) most = std::max(most, std::abs(row[t] - frame.centre[t]));
      reach[s] = most;
    }
  });
  // One row in a hundred may have a coordinate clipped: finer steps for the rest are worth more.
  const auto place = reach.begin() + static_cast<std::ptrdiff_t>(count - 1 - count / 100);
  std::nth_element(reach.begin(), place, reach.end());
  frame.scale = *place > 0 ? 127.0F / *place : 1.0F;
  return frame;
}

const kernels::PanelKernels& panel_kernels(const kernels::Kernels& kernels, std::size_t dimension) {
  return kernels.bytes != nullptr && dimension <= kernels::kMaxByteDimension ? *kernels.bytes : kernels.floats;
}

PackedRows::PackedRows(const Rows& rows, const Frame& frame, const kernels::Kernels& kernels, unsigned threads)
    : size_(rows.size()),
      frame_(frame),
      table_(&kernels),
      kernels_(&panel_kernels(kernels, rows.dimension())),
      panel_bytes_(kernels_->panel_bytes(rows.dimension())),
      panels_(panel_count() * panel_bytes_) {
  std::vector<float> errors(panel_count());
  parallel_for(panel_count(), 64, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    for (std::size_t panel = begin; panel < end; ++panel) {
      std::uint32_t ids[kernels::kPanelWidth];
      const std::size_t first = panel * kernels::kPanelWidth;
      const std::size_t count = std::min(kernels::kPanelWidth, size_ - first);
      std::iota(ids, ids + count, static_cast<std::uint32_t>(first));
      errors[panel] = kernels_->pack_panel(frame_.packing(), rows.data(), ids, count, panels_.data() + panel * panel_bytes_);
    }
  });
  error_ = *std::max_element(errors.begin(), errors.end());
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
        for (std::size_t i = 0; i < count; ++i) {
          reservoirs[i] = {kernels.lowest_score, 0, scores.data() + i * kCapacity, slots.data() + i * kCapacity, 0, 0, 0, false};
          kernels.pack_query(packed.frame().packing(), rows[ids[begin + i]], queries.data() + i * query_bytes, &reservoirs[i]);
        }
        kernels.scan({queries.data(), count, packed.panel(0), packed.panel_count(), 0, rows.dimension(), reservoirs.data(), 1, kCapacity});
        for (std::size_t i = 0; i < count; ++i) {
          packed.table().finish(&reservoirs[i], 1);
          nearest[begin + i] = reservoirs[i].slots[0];
        }
      },
      progress, stage);
}

}  // namespace smartmine
