#include "graph/cell_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"

namespace smartmine {

using kernels::kPanelWidth;

namespace {

constexpr std::size_t kSeedPoints =
    2048;  // about as many points, in the nearest cells, are looked at first, to have a threshold for the rest

// Whether a row lies so far out that it would drag the centre of its cell away from all others there.
bool lies_far(const float* row, const Frame& frame) {
  constexpr float kFar = 4 * 127;  // a byte ends at 127 steps
  float most = 0;
  for (std::size_t t = 0; t < frame.centre.size(); ++t) most = std::max(most, std::abs(row[t] - frame.centre[t]));
  return most * frame.scale > kFar;
}

}  // namespace

CellSearch::CellSearch(const Rows& ordered, const PackedPoints& points, std::span<const std::uint32_t> cell_begins,
                       const kernels::Kernels& kernels, unsigned threads)
    : points_(points),
      dimension_(ordered.dimension()),
      begins_(cell_begins),
      kernels_(kernels),
      panel_kernels_(points.kernels()),
      panel_bytes_(panel_kernels_.panel_bytes(dimension_)),
      row_bytes_(points.row_bytes()),
      panel_begins_(cells() + 1, 0),
      centre_panel_begins_(cells() + 1, 0),
      packed_centroids_(cells() * row_bytes_),
      centroid_panels_(panels_of(cells()) * panel_bytes_),
      centroid_norms_(cells()) {
  for (std::size_t c = 0; c < cells(); ++c) {
    const std::size_t blocks = panels_of(begins_[c + 1] - begins_[c]);
    panel_begins_[c + 1] = panel_begins_[c] + blocks;
    centre_panel_begins_[c + 1] = centre_panel_begins_[c] + panels_of(blocks);
  }
  constexpr std::size_t kChunkPanels = kernels::kMaxChosen / kPanelWidth;
  for (std::size_t c = 0; c < cells();) {
    std::size_t last = c + 1;
    while (last < cells() && panel_begins_[last + 1] - panel_begins_[c] <= kChunkPanels) ++last;
    require(panel_begins_[last] - panel_begins_[c] <= kChunkPanels, "a cell is too large to be searched");
    chunks_.push_back({c, last});
    c = last;
  }
  panels_ = Buffer<std::uint8_t>(panel_begins_.back() * panel_bytes_);
  centre_panels_ = Buffer<std::uint8_t>(centre_panel_begins_.back() * panel_bytes_);
  const std::size_t dimension = dimension_;
  std::vector<float> centroids(cells() * dimension);
  parallel_for(cells(), 4, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    std::vector<float> centres;
    std::vector<char> far;
    const auto pack = [&](const float* rows, std::size_t first, std::size_t count, std::uint8_t* panels) {
      pack_panels(panel_kernels_, points_.frame(), rows, first, count, panels);
    };
    for (std::size_t c = begin; c < end; ++c) {
      const std::size_t first = begins_[c], count = begins_[c + 1] - first, blocks = panels_of(count);
      kernels::Reservoir norm{};
      float* centroid = centroids.data() + c * dimension;
      centres.assign(blocks * dimension, 0.0F);
      // Where only some lie far out, the centre is that of the others.
      far.resize(count);
      for (std::size_t p = 0; p < count; ++p) far[p] = lies_far(ordered[first + p], points_.frame()) ? 1 : 0;
      const auto others = [&far](std::size_t from, std::size_t to) {
        return static_cast<std::size_t>(
            std::count(far.begin() + static_cast<std::ptrdiff_t>(from), far.begin() + static_cast<std::ptrdiff_t>(to), 0));
      };
      const std::size_t usual = others(0, count);
      for (std::size_t block = 0; block < blocks; ++block) {
        const std::size_t from = block * kPanelWidth, to = std::min(from + kPanelWidth, count);
        float* centre = centres.data() + block * dimension;
        const std::size_t usual_here = others(from, to);
        for (std::size_t p = from; p < to; ++p)
          for (std::size_t t = 0; t < dimension && (far[p] == 0 || usual_here == 0); ++t) centre[t] += ordered[first + p][t];
        const bool counts = usual_here > 0 || usual == 0;
        for (std::size_t t = 0; t < dimension; ++t) {
          if (counts) centroid[t] += centre[t] / static_cast<float>(usual > 0 ? usual : count);
          centre[t] /= static_cast<float>(usual_here > 0 ? usual_here : to - from);
        }
      }
      panel_kernels_.pack_query(points_.frame().packing(), centroid, packed_centroids_.data() + c * row_bytes_, &norm);
      centroid_norms_[c] = norm.norm;
      pack(ordered.data(), first, count, panels_.data() + panel_begins_[c] * panel_bytes_);
      pack(centres.data(), 0, blocks, centre_panels_.data() + centre_panel_begins_[c] * panel_bytes_);
    }
  });
  pack_panels(panel_kernels_, points_.frame(), centroids.data(), 0, cells(), centroid_panels_.data());
}

// Compares the queries of each cell of the chunk with all points of the cells nearest to theirs, and notes which.
void CellSearch::look_at_nearest(const Chunk& chunk, std::size_t keep, std::size_t capacity, Scratch& s) const {
  const std::size_t dimension = dimension_, first_panel = panel_begins_[chunk.first];
  s.order.resize(cells());
  s.nearness.resize(panels_of(cells()) * kPanelWidth);
  s.seen.clear();
  std::size_t next = 0;  // the first query of the cell
  for (std::size_t c = chunk.first; c < chunk.last; ++c) {
    const std::size_t begin = next;
    while (next < s.queries.size() && s.queries[next] < begins_[c + 1]) ++next;
    if (next == begin) continue;
    std::iota(s.order.begin(), s.order.end(), 0U);
    panel_kernels_.scores(packed_centroids_.data() + c * row_bytes_, centroid_panels_.data(), panels_of(cells()), dimension,
                          s.nearness.data());
    for (std::size_t other = 0; other < cells(); ++other) s.nearness[other] = centroid_norms_[c] - 2 * s.nearness[other];
    s.computed += cells();
    s.nearness[c] = std::numeric_limits<float>::lowest();  // itself first, whatever coincides with it
    if (begin == 0) s.centre_distances = s.nearness;  // of the first cell with a query
    const auto nearer = [&](std::uint32_t a, std::uint32_t b) {
      return s.nearness[a] != s.nearness[b] ? s.nearness[a] < s.nearness[b] : a < b;
    };
    const std::size_t candidates = std::min<std::size_t>(cells(), 64);
    std::partial_sort(s.order.begin(), s.order.begin() + static_cast<std::ptrdiff_t>(candidates), s.order.end(), nearer);
    std::size_t seen = 0;
    for (std::size_t i = 0; i < candidates && seen < std::max(kSeedPoints, 2 * keep); ++i) {
      const std::uint32_t other = s.order[i];
      const std::size_t points = begins_[other + 1] - begins_[other];
      for (std::size_t from = begin; from < next;) {  // neighbouring queries at once
        std::size_t to = from + 1;
        while (to < next && s.lanes[to] == s.lanes[to - 1] + 1) ++to;
        panel_kernels_.scan({s.rows.data() + s.lanes[from] * row_bytes_, to - from, panel(panel_begins_[other]), panels_of(points),
                             begins_[other], dimension, s.reservoirs.data() + s.lanes[from], keep, capacity});
        from = to;
      }
      s.computed += (next - begin) * points;
      seen += points;
      s.seen.push_back({other, static_cast<std::uint32_t>(panel_begins_[c] - first_panel),
                        static_cast<std::uint32_t>(panel_begins_[c + 1] - first_panel)});
    }
  }
}

void CellSearch::search(const Chunk& chunk, std::size_t keep, std::size_t near, float reach, Scratch& s,
                        std::span<const std::uint32_t> only) const {
  const std::size_t dimension = dimension_, first_panel = panel_begins_[chunk.first];
  const std::size_t panels = panel_begins_[chunk.last] - first_panel;
  const std::size_t capacity =
      keep + kernels::kReservoirSlack + std::max<std::size_t>(32, keep / 3);  // small: an old threshold lets too many in
  s.queries.assign(only.begin(), only.end());
  if (only.empty()) {
    s.queries.resize(begins_[chunk.last] - begins_[chunk.first]);
    std::iota(s.queries.begin(), s.queries.end(), begins_[chunk.first]);
  }
  s.lanes.resize(s.queries.size());
  s.reservoirs.resize(panels * kPanelWidth);
  s.scores.resize(panels * kPanelWidth * capacity);
  s.slots.resize(panels * kPanelWidth * capacity);
  s.rows.resize(panels * kPanelWidth * row_bytes_);
  std::size_t cell = chunk.first;
  for (std::size_t i = 0; i < s.queries.size(); ++i) {
    while (s.queries[i] >= begins_[cell + 1]) ++cell;
    const std::size_t lane = (panel_begins_[cell] - first_panel) * kPanelWidth + (s.queries[i] - begins_[cell]);
    s.lanes[i] = static_cast<std::uint16_t>(lane);
    s.reservoirs[lane] = {panel_kernels_.lowest_score,
                          0,
                          s.scores.data() + lane * capacity,
                          s.slots.data() + lane * capacity,
                          points_.norm(s.queries[i]),
                          0,
                          0,
                          false,
                          0};
    std::copy_n(points_.row(s.queries[i]), row_bytes_, s.rows.data() + lane * row_bytes_);
  }
  look_at_nearest(chunk, keep, capacity, s);
  for (const std::uint16_t lane : s.lanes) kernels_.finish(&s.reservoirs[lane], keep, 8);
  if (reach <= 0) return;

  // The other cells that some query reaches, those nearest to the chunk's first.
  s.take_bars.resize(panels * kPanelWidth);
  s.centre_bars.resize(panels * kPanelWidth);
  panel_kernels_.set_bars(s.reservoirs.data(), s.lanes.data(), s.lanes.size(), keep, near, reach, s.take_bars.data(), s.centre_bars.data());
  s.bars.assign(panels * kPanelWidth, -1.0F);
  for (const std::uint16_t lane : s.lanes) s.bars[lane] = reach * (s.reservoirs[lane].norm - 2 * s.reservoirs[lane].near);
  s.row_pointers.resize(cells());
  for (std::size_t c = 0; c < cells(); ++c) s.row_pointers[c] = packed_centroids_.data() + c * row_bytes_;
  s.masks.resize(cells() * panels);
  panel_kernels_.near_lanes(s.row_pointers.data(), centroid_norms_.data(), cells(), panel(first_panel), panels, dimension, s.bars.data(),
                            s.masks.data());
  s.computed += cells() * s.queries.size();
  s.order.clear();
  for (const Scratch::Seen& seen : s.seen)
    std::fill(s.masks.begin() + static_cast<std::ptrdiff_t>(seen.cell * panels + seen.first),
              s.masks.begin() + static_cast<std::ptrdiff_t>(seen.cell * panels + seen.last), std::uint16_t{0});
  for (std::size_t c = 0; c < cells(); ++c) {
    unsigned any = 0;
    for (std::size_t p = 0; p < panels; ++p) any |= s.masks[c * panels + p];
    if (any != 0) s.order.push_back(static_cast<std::uint32_t>(c));
  }
  std::sort(s.order.begin(), s.order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return s.centre_distances[a] != s.centre_distances[b] ? s.centre_distances[a] < s.centre_distances[b] : a < b;
  });
  for (const std::uint32_t other : s.order) {
    s.chosen.clear();
    for (std::size_t p = 0; p < panels; ++p)
      for (unsigned left = s.masks[other * panels + p]; left != 0; left &= left - 1)
        s.chosen.push_back(static_cast<std::uint16_t>(p * kPanelWidth + static_cast<std::size_t>(__builtin_ctz(left))));
    const std::size_t blocks = panel_begins_[other + 1] - panel_begins_[other];
    for (std::size_t block = 0; block < blocks; block += kPanelWidth)
      s.computed += panel_kernels_.scan_blocks({s.rows.data(), s.chosen.data(), s.chosen.size(),
                                                centre_panels_.data() + (centre_panel_begins_[other] + block / kPanelWidth) * panel_bytes_,
                                                panel(panel_begins_[other] + block), std::min(kPanelWidth, blocks - block),
                                                begins_[other] + static_cast<std::uint32_t>(block * kPanelWidth), dimension,
                                                s.reservoirs.data(), keep, capacity, near, reach, s.take_bars.data(), s.centre_bars.data(),
                                                reinterpret_cast<const float*>(panel(panel_begins_[other] + block))});
  }
}

}  // namespace smartmine
