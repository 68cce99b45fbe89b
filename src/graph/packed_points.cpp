#include "graph/packed_points.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "smartmine/core/parallel.h"

namespace smartmine {

using kernels::kPanelWidth;

PackedPoints::PackedPoints(const Rows& rows, const kernels::Kernels& kernels, unsigned threads)
    : PackedPoints(rows, panel_kernels(kernels, rows.dimension()), threads) {}

PackedPoints::PackedPoints(const Rows& rows, const kernels::PanelKernels& panels, unsigned threads)
    : frame_(sampled_frame(rows, threads)),
      kernels_(panels),
      row_bytes_(kernels_.query_bytes(rows.dimension())),
      panel_bytes_(kernels_.panel_bytes(rows.dimension())),
      rows_(rows.size() * row_bytes_),
      norms_(rows.size()),
      errors_(rows.size()) {
  parallel_for(rows.size(), 4096, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    kernels::Reservoir norm{};
    for (std::size_t p = begin; p < end; ++p) {
      errors_[p] = kernels_.pack_query(frame_.packing(), rows[p], rows_.data() + p * row_bytes_, &norm);
      norms_[p] = norm.norm;
    }
  });
}

float PackedPoints::blur() const {
  constexpr float kSteps = 2;      // of a byte, a coordinate
  constexpr float kRounded = 256;  // times what a float rounds off the longest
  if (row_bytes_ < dimension() * sizeof(float)) return kSteps * kSteps * static_cast<float>(dimension());
  return kRounded * std::numeric_limits<float>::epsilon() * *std::max_element(norms_.begin(), norms_.end());
}

std::size_t PackedPoints::gather(std::span<const std::uint32_t> candidates, Scratch& s) const {
  const std::size_t count = candidates.size(), panels = panels_of(count);
  s.panels.resize(panels * panel_bytes_);
  for (std::size_t p = 0; p < panels; ++p) {
    for (std::size_t i = (p + 1) * kPanelWidth; i < std::min((p + 2) * kPanelWidth, count); ++i) __builtin_prefetch(row(candidates[i]));
    kernels_.gather_panel(rows_.data(), candidates.data() + p * kPanelWidth, std::min(kPanelWidth, count - p * kPanelWidth), dimension(),
                          s.panels.data() + p * panel_bytes_);
  }
  return panels;
}

void PackedPoints::scores(std::size_t point, std::span<const std::uint32_t> candidates, float* out, Scratch& s) const {
  const std::size_t panels = gather(candidates, s);
  kernels_.scores(row(point), s.panels.data(), panels, dimension(), out);
  s.computed += panels * kPanelWidth;
}

void PackedPoints::distances(std::size_t point, std::span<const std::uint32_t> candidates, float* out, Scratch& s) const {
  s.bars.resize(panels_of(candidates.size()) * kPanelWidth);
  scores(point, candidates, s.bars.data(), s);
  for (std::size_t i = 0; i < candidates.size(); ++i) out[i] = norms_[point] - 2 * s.bars[i];
}

std::size_t PackedPoints::prune(std::span<const std::uint32_t> candidates, std::span<const float> distances, std::size_t most,
                                std::uint32_t* chosen, Scratch& s) const {
  constexpr std::size_t kBatch =
      4;  // so many next candidates are compared with all later ones at once, though some of them may turn out occluded
  const std::size_t count = candidates.size(), panels = gather(candidates, s);
  s.bars.assign(panels * kPanelWidth, -1.0F);
  std::copy(distances.begin(), distances.end(), s.bars.begin());
  s.masks.assign((1 + kBatch) * panels, 0);
  std::uint16_t* occluded = s.masks.data();
  std::uint16_t* masks = occluded + panels;
  const auto is_in = [](const std::uint16_t* mask, std::size_t i) { return (mask[i / kPanelWidth] >> (i % kPanelWidth) & 1) != 0; };
  std::size_t kept = 0, next = 0;
  while (kept < most) {
    std::size_t batch[kBatch];
    const void* rows[kBatch];
    float norms[kBatch];
    std::size_t size = 0;
    for (; next < count && size < kBatch; ++next) {
      if (is_in(occluded, next)) continue;
      rows[size] = row(candidates[next]);
      norms[size] = norms_[candidates[next]];
      batch[size++] = next;
    }
    if (size == 0) break;
    const std::size_t from = batch[0] / kPanelWidth, width = panels - from;
    kernels_.near_lanes(rows, norms, size, s.panels.data() + from * panel_bytes_, width, dimension(), s.bars.data() + from * kPanelWidth,
                        masks);
    s.computed += size * width * kPanelWidth;
    for (std::size_t b = 0; b < size && kept < most; ++b) {
      if (is_in(occluded, batch[b])) continue;
      chosen[kept++] = candidates[batch[b]];
      for (std::size_t p = 0; p < width; ++p) occluded[from + p] = static_cast<std::uint16_t>(occluded[from + p] | masks[b * width + p]);
    }
  }
  return kept;
}

void PackedPoints::may_be_nearer(std::span<const std::uint32_t> candidates, std::span<const float> squared, Scratch& s) const {
  const std::size_t count = candidates.size(), panels = gather(candidates, s);
  s.masks.resize(count * panels);
  s.rows.resize(count);
  s.norms.resize(count);
  float worst = 0;
  for (std::size_t i = 0; i < count; ++i) {
    s.rows[i] = row(candidates[i]);
    s.norms[i] = norms_[candidates[i]];
    worst = std::max(worst, errors_[candidates[i]]);
  }
  // The distance of two packed rows errs by what packing moved both of them by, and by rounding.
  s.bars.assign(panels * kPanelWidth, -1.0F);
  for (std::size_t i = 0; i < count; ++i) {
    const float reach = std::sqrt(squared[i]) * frame_.scale + worst + errors_[candidates[i]];
    s.bars[i] = reach * reach * 1.0001F + kernels_.score_rounding + 1e-5F * std::abs(s.norms[i]);
  }
  kernels_.near_lanes(s.rows.data(), s.norms.data(), count, s.panels.data(), panels, dimension(), s.bars.data(), s.masks.data());
  s.computed += count * panels * kPanelWidth;
}

}  // namespace smartmine
