#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "graph/kernels/kernels.h"
#include "graph/made_rows.h"

namespace smartmine {
namespace {

using kernels::Kernels;
using kernels::kPanelWidth;
using kernels::kReservoirSlack;
using kernels::PanelKernels;
using kernels::Reservoir;
using test::MadeRows;

// One way of holding panels at one level.
struct Way {
  const Kernels* level;
  const PanelKernels* panels;
  std::string name() const { return std::string(level->name) + (panels == level->bytes ? "_bytes" : "_floats"); }
  friend void PrintTo(const Way& way, std::ostream* out) { *out << way.name(); }
};

std::vector<Way> ways() {
  const Kernels* tables[16];
  std::vector<Way> all;
  for (std::size_t i = 0, count = kernels::available(tables, 16); i < count; ++i) {
    all.push_back({tables[i], &tables[i]->floats});
    if (tables[i]->bytes != nullptr) all.push_back({tables[i], tables[i]->bytes});
  }
  return all;
}

// Rows packed into panels and as queries, with a frame that holds all of them (or clips some).
struct Packed {
  const PanelKernels& kernels;
  const MadeRows& rows;
  std::vector<float> centre;
  kernels::Packing packing{};
  std::vector<std::uint8_t> panels;
  std::vector<std::uint8_t> queries;
  std::vector<float> norms;
  std::vector<float> query_errors;
  std::vector<float> panel_errors;

  Packed(const PanelKernels& k, const MadeRows& r, float finer = 1) : kernels(k), rows(r), centre(r.dimension) {
    for (std::size_t t = 0; t < r.dimension; ++t) {
      double sum = 0;
      for (std::size_t i = 0; i < r.size(); ++i) sum += r[i][t];
      centre[t] = static_cast<float>(sum / static_cast<double>(r.size()));
    }
    float most = 0;
    for (std::size_t i = 0; i < r.size(); ++i)
      for (std::size_t t = 0; t < r.dimension; ++t) most = std::max(most, std::abs(r[i][t] - centre[t]));
    packing = {centre.data(), most > 0 ? finer * 127.0F / most : 1.0F, r.dimension};
    const std::size_t panel_bytes = k.panel_bytes(r.dimension), query_bytes = k.query_bytes(r.dimension);
    panels.resize(panel_count() * panel_bytes);
    queries.resize(r.size() * query_bytes);
    for (std::size_t p = 0; p < panel_count(); ++p) {
      std::vector<std::uint32_t> ids(std::min(kPanelWidth, r.size() - p * kPanelWidth));
      std::iota(ids.begin(), ids.end(), static_cast<std::uint32_t>(p * kPanelWidth));
      panel_errors.push_back(k.pack_panel(packing, r.values.data(), ids.data(), ids.size(), panels.data() + p * panel_bytes));
    }
    for (std::size_t i = 0; i < r.size(); ++i) {
      Reservoir norm{};
      query_errors.push_back(k.pack_query(packing, r[i], queries.data() + i * query_bytes, &norm));
      norms.push_back(norm.norm);
    }
  }
  std::size_t panel_count() const { return (rows.size() + kPanelWidth - 1) / kPanelWidth; }
  const std::uint8_t* panel(std::size_t p) const { return panels.data() + p * kernels.panel_bytes(rows.dimension); }
  std::vector<const void*> query_pointers() const {
    std::vector<const void*> all;
    for (std::size_t i = 0; i < rows.size(); ++i) all.push_back(query(i));
    return all;
  }
  const std::uint8_t* query(std::size_t i) const { return queries.data() + i * kernels.query_bytes(rows.dimension); }
  /// The true squared distance, in packed units.
  double distance(std::size_t a, std::size_t b) const {
    const double scale = packing.scale;
    return test::plain_distance(rows[a], rows[b], rows.dimension) * scale * scale;
  }
  /// What rounding in float may add to a squared distance between these rows.
  double rounding() const {
    double longest = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double scale = packing.scale;
      longest = std::max(longest, test::plain_distance(rows[i], centre.data(), rows.dimension) * scale * scale);
    }
    return kernels.score_rounding + 4 * static_cast<double>(rows.dimension + 8) * 1.2e-7 * longest;
  }
};

// Reservoirs that own their entries.
struct Reservoirs {
  std::size_t capacity;
  std::vector<float> scores;
  std::vector<std::uint32_t> slots;
  std::vector<Reservoir> all;

  Reservoirs(const Packed& packed, std::size_t count, std::size_t room, float slack = 0, float slack_squared = 0)
      : capacity(room), scores(count * room), slots(count * room) {
    for (std::size_t i = 0; i < count; ++i)
      all.push_back({packed.kernels.lowest_score, 0, scores.data() + i * room, slots.data() + i * room, packed.norms[i], slack,
                     slack_squared, false, 0});
  }
  std::map<std::uint32_t, float> entries(std::size_t i) const {
    std::map<std::uint32_t, float> found;
    for (std::uint32_t e = 0; e < all[i].count; ++e) found[all[i].slots[e]] = all[i].scores[e];
    return found;
  }
};

// Every score of every row as a query, found by a scan that keeps everything.
std::vector<std::vector<float>> all_scores(const Packed& packed) {
  const std::size_t size = packed.rows.size();
  Reservoirs reservoirs(packed, size, size + kReservoirSlack + kPanelWidth);
  packed.kernels.scan({packed.queries.data(), size, packed.panels.data(), packed.panel_count(), 0, packed.rows.dimension,
                       reservoirs.all.data(), size, reservoirs.capacity});
  std::vector<std::vector<float>> scores(size, std::vector<float>(size, std::numeric_limits<float>::quiet_NaN()));
  for (std::size_t i = 0; i < size; ++i) {
    EXPECT_EQ(reservoirs.all[i].count, size) << "a lane without a row scored, or a row did not";
    for (const auto& [slot, score] : reservoirs.entries(i))
      if (slot < size) scores[i][slot] = score;
  }
  return scores;
}

// Slots of the best scores, best first, equal ones by slot.
std::vector<std::uint32_t> best_slots(const std::vector<float>& scores, std::size_t keep) {
  std::vector<std::uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return scores[a] > scores[b]; });
  order.resize(std::min(keep, order.size()));
  return order;
}

class Panels : public testing::TestWithParam<Way> {
 protected:
  const Kernels& level() const { return *GetParam().level; }
  const PanelKernels& kernels() const { return *GetParam().panels; }
  bool bytes() const { return GetParam().panels == GetParam().level->bytes; }

  // Whether every score gives the true distance up to what packing both rows moved them by.
  void check_scores(const MadeRows& rows, float finer) {
    const Packed packed(kernels(), rows, finer);
    const auto scores = all_scores(packed);
    const double rounding = packed.rounding();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j < rows.size(); ++j) {
        const double claimed = static_cast<double>(packed.norms[i]) - 2 * static_cast<double>(scores[i][j]);
        const double moved =
            1.0001 * (static_cast<double>(packed.query_errors[i]) + static_cast<double>(packed.panel_errors[j / kPanelWidth]));
        const double truth = std::sqrt(packed.distance(i, j));
        const double most = (truth + moved) * (truth + moved) + rounding;
        const double least = std::max(0.0, truth - moved) * std::max(0.0, truth - moved) - rounding;
        ASSERT_LE(claimed, most) << i << " to " << j;
        ASSERT_GE(claimed, least) << i << " to " << j;
      }
    }
    if (!bytes()) {
      EXPECT_EQ(*std::max_element(packed.query_errors.begin(), packed.query_errors.end()), 0.0F);
      return;
    }
    // Half a step a coordinate is the most that rounding to bytes can do; clipping does more and says so.
    const double half_steps = 0.5001 * std::sqrt(static_cast<double>(rows.dimension));
    const auto worst = static_cast<double>(*std::max_element(packed.query_errors.begin(), packed.query_errors.end()));
    if (finer <= 1) {
      EXPECT_LE(worst, half_steps);
    } else {
      EXPECT_GT(worst, 10.0);
    }
    for (std::size_t p = 0; p < packed.panel_count(); ++p) {
      float most = 0;
      for (std::size_t i = p * kPanelWidth; i < std::min((p + 1) * kPanelWidth, rows.size()); ++i)
        most = std::max(most, packed.query_errors[i]);
      EXPECT_FLOAT_EQ(packed.panel_errors[p], most);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Every, Panels, testing::ValuesIn(ways()), [](const auto& way) { return way.param.name(); });

TEST_P(Panels, ScoreEveryPairWithinWhatPackingPromises) {
  for (const std::size_t dimension : {1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 64, 70, 128, 300, 1000}) {
    SCOPED_TRACE(dimension);
    ASSERT_NO_FATAL_FAILURE(check_scores(test::clouds_of_rows(71, dimension, 5, 0.3, dimension), 1));
  }
}

TEST_P(Panels, SayHowFarClippingMovesARow) {
  for (const std::size_t dimension : {3, 64}) ASSERT_NO_FATAL_FAILURE(check_scores(test::clouds_of_rows(50, dimension, 5, 0.3), 3));
}

TEST_P(Panels, ScoreRowsFarFromTheOriginAsWellAsNearIt) {
  MadeRows rows = test::clouds_of_rows(50, 20, 5, 0.3);
  for (float& value : rows.values) value += 1000;
  ASSERT_NO_FATAL_FAILURE(check_scores(rows, 1));
}

TEST_P(Panels, NeverScoreALaneWithoutARow) {
  for (std::size_t size = 1; size <= 2 * kPanelWidth + 1; ++size) {
    const MadeRows rows = test::clouds_of_rows(size, 9, 3, 0.5, size);
    all_scores(Packed(kernels(), rows));
  }
}

TEST_P(Panels, KeepTheBestOfAScanEarlierOnesAmongEquals) {
  for (const bool grid : {false, true}) {
    MadeRows rows = test::clouds_of_rows(500, 6, 10, 0.4);
    if (grid)
      for (float& value : rows.values) value = std::round(value);
    const Packed packed(kernels(), rows);
    const auto scores = all_scores(packed);
    for (const std::size_t keep : {1, 2, 7, 16, 40, 100, 499, 500, 600}) {
      for (const std::size_t queries : {1, 2, 3, 5, 6, 8, 9, 17, 53}) {
        SCOPED_TRACE(testing::Message() << keep << " kept of " << queries << " queries");
        Reservoirs reservoirs(packed, queries, keep + kReservoirSlack);
        kernels().scan({packed.queries.data(), queries, packed.panels.data(), packed.panel_count(), 0, rows.dimension,
                        reservoirs.all.data(), keep, reservoirs.capacity});
        for (std::size_t i = 0; i < queries; ++i) {
          level().finish(&reservoirs.all[i], keep, 0);
          const auto found = reservoirs.entries(i);
          const std::vector<std::uint32_t> best = best_slots(scores[i], keep);
          ASSERT_EQ(found.size(), best.size());
          for (const std::uint32_t slot : best) {
            ASSERT_TRUE(found.contains(slot)) << "query " << i << " lost slot " << slot;
            ASSERT_EQ(found.at(slot), scores[i][slot]);
          }
        }
      }
    }
  }
}

TEST_P(Panels, CountSlotsFromTheFirstOneGiven) {
  const MadeRows rows = test::clouds_of_rows(40, 6, 3, 0.4);
  const Packed packed(kernels(), rows);
  Reservoirs reservoirs(packed, 1, 40 + kReservoirSlack);
  kernels().scan({packed.queries.data(), 1, packed.panel(1), packed.panel_count() - 1, 1016, rows.dimension, reservoirs.all.data(), 40,
                  reservoirs.capacity});
  const auto found = reservoirs.entries(0);
  EXPECT_EQ(found.size(), 24U);
  EXPECT_EQ(found.begin()->first, 1016U);
  EXPECT_EQ(found.rbegin()->first, 1039U);
}

TEST_P(Panels, KeepWhateverLiesWithinTheSlackOfTheLastOneKeptOrSayThatTheyCouldNot) {
  const MadeRows rows = test::clouds_of_rows(600, 8, 30, 0.2);
  const Packed packed(kernels(), rows);
  const auto scores = all_scores(packed);
  constexpr std::size_t kKeep = 20;
  constexpr std::size_t kQueries = 40;
  for (const float slack : {0.5F, 5.0F, 20.0F, 100.0F}) {
    for (const std::size_t capacity : {kKeep + kReservoirSlack, std::size_t{200}, std::size_t{700}}) {
      Reservoirs reservoirs(packed, kQueries, capacity, slack, 3.0F);
      kernels().scan({packed.queries.data(), kQueries, packed.panels.data(), packed.panel_count(), 0, rows.dimension, reservoirs.all.data(),
                      kKeep, capacity});
      for (std::size_t i = 0; i < kQueries; ++i) {
        if (reservoirs.all[i].overflowed) {
          EXPECT_LT(capacity, 700U) << "there was room for all";
          continue;
        }
        const auto found = reservoirs.entries(i);
        const auto claimed = [&](std::uint32_t slot) { return packed.norms[i] - 2 * scores[i][slot]; };
        const float last = std::sqrt(std::max(0.0F, claimed(best_slots(scores[i], kKeep).back()))) + slack;
        for (std::uint32_t slot = 0; slot < rows.size(); ++slot)
          ASSERT_TRUE(found.contains(slot) || claimed(slot) >= (last * last + 3.0F) * 0.9999F) << "query " << i << " lost slot " << slot;
      }
    }
  }
}

TEST_P(Panels, SayThatMoreEqualsThanFitLieWithinTheSlack) {
  const MadeRows rows{3, std::vector<float>(600, 0.25F)};
  const Packed packed(kernels(), rows);
  for (const std::size_t capacity : {std::size_t{10} + kReservoirSlack, std::size_t{500}}) {
    Reservoirs reservoirs(packed, 1, capacity, 1.0F, 1.0F);
    kernels().scan({packed.queries.data(), 1, packed.panels.data(), packed.panel_count(), 0, 3, reservoirs.all.data(), 10, capacity});
    EXPECT_EQ(reservoirs.all[0].overflowed, capacity < 200);
    if (capacity > 200) {
      EXPECT_EQ(reservoirs.all[0].count, 200U);
    }
    level().finish(&reservoirs.all[0], 10, 0);
    ASSERT_EQ(reservoirs.all[0].count, 10U);
    for (std::uint32_t e = 0; e < 10; ++e) EXPECT_EQ(reservoirs.all[0].slots[e], e);
  }
}

TEST_P(Panels, GatheredFromPackedRowsScoreLikePackedOnes) {
  for (const std::size_t dimension : {1, 4, 7, 16, 63, 64, 65, 130, 300}) {
    const MadeRows rows = test::clouds_of_rows(60, dimension, 4, 0.4);
    const Packed packed(kernels(), rows);
    const auto scores = all_scores(packed);
    for (const std::size_t count : {1, 2, 9, 15, 16}) {
      SCOPED_TRACE(testing::Message() << count << " rows of dimension " << dimension);
      std::vector<std::uint32_t> ids(count);
      for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<std::uint32_t>((i * 37 + 11) % 60);
      std::vector<std::uint8_t> panel(kernels().panel_bytes(dimension));
      kernels().gather_panel(packed.queries.data(), ids.data(), count, dimension, panel.data());
      Reservoirs reservoirs(packed, rows.size(), 16 + kReservoirSlack);
      kernels().scan({packed.queries.data(), rows.size(), panel.data(), 1, 0, dimension, reservoirs.all.data(), 16, reservoirs.capacity});
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto found = reservoirs.entries(i);
        ASSERT_EQ(found.size(), count) << "a lane without a row scored for query " << i;
        for (std::size_t lane = 0; lane < count; ++lane)
          ASSERT_NEAR(found.at(static_cast<std::uint32_t>(lane)), scores[i][ids[lane]], packed.rounding());
      }
    }
  }
}

TEST_P(Panels, GiveTheScoresOfOneRowAsAScanFindsThem) {
  for (const std::size_t dimension : {1, 6, 64, 131}) {
    for (const std::size_t size : {1, 16, 17, 70}) {
      const MadeRows rows = test::clouds_of_rows(size, dimension, 4, 0.4);
      const Packed packed(kernels(), rows);
      const auto scores = all_scores(packed);
      for (std::size_t i = 0; i < size; ++i) {
        std::vector<float> found(packed.panel_count() * kPanelWidth);
        kernels().scores(packed.query(i), packed.panels.data(), packed.panel_count(), dimension, found.data());
        for (std::size_t j = 0; j < size; ++j) ASSERT_EQ(found[j], scores[i][j]) << i << " to " << j;
      }
    }
  }
}

TEST_P(Panels, NameTheLanesUnderTheirBars) {
  for (const std::size_t dimension : {1, 5, 64, 150}) {
    const MadeRows rows = test::clouds_of_rows(87, dimension, 6, 0.4);
    const Packed packed(kernels(), rows);
    const auto scores = all_scores(packed);
    std::vector<float> bars(packed.panel_count() * kPanelWidth, 1e9F);  // lanes without a row are under no bar
    for (std::size_t j = 0; j < rows.size(); ++j) bars[j] = static_cast<float>(packed.distance(j, (j * 31 + 3) % rows.size()));
    for (const std::size_t count : {1, 3, 8, 20}) {
      std::vector<std::uint16_t> masks(count * packed.panel_count(), 0xabcd);
      kernels().near_lanes(packed.query_pointers().data(), packed.norms.data(), count, packed.panels.data(), packed.panel_count(),
                           dimension, bars.data(), masks.data());
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t j = 0; j < bars.size(); ++j) {
          const bool named = (masks[i * packed.panel_count() + j / kPanelWidth] >> (j % kPanelWidth) & 1) != 0;
          if (j >= rows.size()) {
            ASSERT_FALSE(named) << "lane " << j << " holds no row";
            continue;
          }
          const double claimed = static_cast<double>(packed.norms[i]) - 2 * static_cast<double>(scores[i][j]);
          if (std::abs(claimed - static_cast<double>(bars[j])) <= 1e-5 * claimed + packed.rounding()) continue;
          ASSERT_EQ(named, claimed < static_cast<double>(bars[j])) << "row " << i << ", lane " << j;
        }
      }
    }
  }
}

TEST_P(Panels, GatheredNameNoLaneWithoutARow) {
  for (const std::size_t dimension : {2, 64, 300}) {
    const MadeRows rows = test::clouds_of_rows(60, dimension, 4, 0.4);
    const Packed packed(kernels(), rows);
    for (std::uint32_t first = 0; first < 60; ++first) {
      std::vector<std::uint8_t> panel(kernels().panel_bytes(dimension));
      kernels().gather_panel(packed.queries.data(), &first, 1, dimension, panel.data());
      const std::vector<float> bars(kPanelWidth, -1.0F);
      std::vector<std::uint16_t> masks(rows.size());
      kernels().near_lanes(packed.query_pointers().data(), packed.norms.data(), rows.size(), panel.data(), 1, dimension, bars.data(),
                           masks.data());
      for (std::size_t i = 0; i < rows.size(); ++i)
        ASSERT_EQ(masks[i], 0) << "row " << i << " against " << first << ", dimension " << dimension;
    }
  }
}

// Blocks of sixteen rows with a centre each, scanned by some queries that have seen the first blocks already.
class BlockScans {
 public:
  static constexpr std::size_t kSeen = 6;     // panels that were scanned before
  static constexpr std::size_t kBlocks = 13;  // panels with centres
  static constexpr std::size_t kKeep = 30;

  BlockScans(const Kernels& level, const PanelKernels& kernels, const MadeRows& rows, std::size_t capacity)
      : rows_(rows), packed_(kernels, rows), scores_(all_scores(packed_)), reservoirs_(packed_, rows.size(), capacity) {
    kernels.scan(
        {packed_.queries.data(), rows.size(), packed_.panels.data(), kSeen, 0, rows.dimension, reservoirs_.all.data(), kKeep, capacity});
    for (Reservoir& r : reservoirs_.all) level.finish(&r, kKeep, 0);
    for (std::size_t i = 0; i < rows.size(); i += 2) chosen_.push_back(static_cast<std::uint16_t>(i));
    MadeRows centres{rows.dimension, std::vector<float>(kBlocks * rows.dimension, 0.0F)};
    std::vector<std::uint32_t> ids(kBlocks);
    for (std::uint32_t b = 0; b < kBlocks; ++b) {
      ids[b] = b;
      for (std::size_t i = 0; i < kPanelWidth; ++i)
        for (std::size_t t = 0; t < rows.dimension; ++t)
          centres.values[b * rows.dimension + t] += rows[(kSeen + b) * kPanelWidth + i][t] / static_cast<float>(kPanelWidth);
    }
    centres_.resize(kernels.panel_bytes(rows.dimension));
    kernels.pack_panel(packed_.packing, centres.values.data(), ids.data(), kBlocks, centres_.data());
    // The scores of the centres, by a scan of their own.
    Reservoirs seen(packed_, rows.size(), kPanelWidth + kReservoirSlack);
    kernels.scan({packed_.queries.data(), rows.size(), centres_.data(), 1, 0, rows.dimension, seen.all.data(), kPanelWidth, seen.capacity});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      centre_distances_.emplace_back(kBlocks);
      for (const auto& [slot, score] : seen.entries(i)) centre_distances_[i][slot] = packed_.norms[i] - 2 * score;
    }
  }

  std::size_t run(std::size_t near, float reach) {
    std::vector<std::uint32_t> bars(rows_.size()), centre_bars(rows_.size());
    const PanelKernels& kernels = packed_.kernels;
    kernels.set_bars(reservoirs_.all.data(), chosen_.data(), chosen_.size(), kKeep, near, reach, bars.data(), centre_bars.data());
    return kernels.scan_blocks({packed_.queries.data(), chosen_.data(), chosen_.size(), centres_.data(), packed_.panel(kSeen), kBlocks,
                                kSeen * kPanelWidth, rows_.dimension, reservoirs_.all.data(), kKeep, reservoirs_.capacity, near, reach,
                                bars.data(), centre_bars.data(), reinterpret_cast<const float*>(packed_.panel(0))});
  }

  const MadeRows& rows_;
  Packed packed_;
  std::vector<std::vector<float>> scores_;
  Reservoirs reservoirs_;
  std::vector<std::uint16_t> chosen_;
  std::vector<std::uint8_t> centres_;
  std::vector<std::vector<float>> centre_distances_;
};

MadeRows rows_in_blocks() {
  // Sixteen of each cloud stand together, so that blocks have meaningful centres.
  MadeRows rows = test::clouds_of_rows((BlockScans::kSeen + BlockScans::kBlocks) * kPanelWidth, 24, 1, 0.3);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Random centre(5, 5, i / kPanelWidth % 7);
    for (std::size_t t = 0; t < rows.dimension; ++t) rows.values[i * rows.dimension + t] += static_cast<float>(centre.normal());
  }
  return rows;
}

TEST_P(Panels, ScanningBlocksWithinAnyReachKeepsTheBestOfAll) {
  const MadeRows rows = rows_in_blocks();
  for (const std::size_t capacity : {BlockScans::kKeep + kReservoirSlack, std::size_t{600}}) {
    BlockScans scans(level(), kernels(), rows, capacity);
    const std::size_t computed = scans.run(10, 1e6F);
    EXPECT_EQ(computed, scans.chosen_.size() * BlockScans::kBlocks * (kPanelWidth + 1));
    for (const std::uint16_t i : scans.chosen_) {
      level().finish(&scans.reservoirs_.all[i], BlockScans::kKeep, 0);
      const auto found = scans.reservoirs_.entries(i);
      ASSERT_EQ(found.size(), BlockScans::kKeep);
      for (const std::uint32_t slot : best_slots(scans.scores_[i], BlockScans::kKeep))
        ASSERT_TRUE(found.contains(slot)) << i << " lost " << slot;
    }
    for (std::size_t i = 1; i < rows.size(); i += 2)  // not chosen: as before
      for (const auto& entry : scans.reservoirs_.entries(i)) ASSERT_LT(entry.first, BlockScans::kSeen * kPanelWidth);
  }
}

float packed_distance(const BlockScans& scans, std::size_t query, float score) { return scans.packed_.norms[query] - 2 * score; }

TEST_P(Panels, ScanningBlocksLooksIntoThoseWhoseCentreIsWithinReach) {
  const MadeRows rows = rows_in_blocks();
  for (const std::size_t near : {5, 20, 30}) {
    for (const float reach : {0.05F, 0.4F, 1.0F, 2.5F}) {
      SCOPED_TRACE(testing::Message() << "near " << near << ", reach " << reach);
      // So much room that no reservoir shrinks: the bars stay what they were.
      BlockScans scans(level(), kernels(), rows, 600);
      std::vector<std::map<std::uint32_t, float>> before;
      std::vector<float> limits;  // only what is nearer is let in
      for (std::size_t i = 0; i < rows.size(); ++i) {
        before.push_back(scans.reservoirs_.entries(i));
        limits.push_back(packed_distance(scans, i, scans.reservoirs_.all[i].threshold));
      }
      const std::size_t computed = scans.run(near, reach);
      std::size_t least = scans.chosen_.size() * BlockScans::kBlocks, most = least;
      for (const std::uint16_t i : scans.chosen_) {
        std::vector<float> kept;
        for (const auto& entry : before[i]) kept.push_back(packed_distance(scans, i, entry.second));
        std::sort(kept.begin(), kept.end());
        const auto found = scans.reservoirs_.entries(i);
        const float worst = kept.back();
        for (std::size_t b = 0; b < BlockScans::kBlocks; ++b) {
          const float centre = scans.centre_distances_[i][b];
          // The candidate the reach is measured by is the near-th, or one of the few after it.
          const bool surely = centre < 0.999F * reach * kept[std::min(near, kept.size()) - 1] - 4;
          const float beyond = near + 5 <= kept.size() ? kept[near + 4] : limits[i];
          const bool perhaps = centre < 1.001F * reach * beyond + 4;
          least += surely ? kPanelWidth : 0;
          most += perhaps ? kPanelWidth : 0;
          for (std::size_t lane = 0; lane < kPanelWidth; ++lane) {
            const auto slot = static_cast<std::uint32_t>((BlockScans::kSeen + b) * kPanelWidth + lane);
            const float distance = packed_distance(scans, i, scans.scores_[i][slot]);
            if (found.contains(slot)) {
              ASSERT_TRUE(perhaps) << "query " << i << " looked into block " << b;
              ASSERT_LE(distance, limits[i]);
            } else if (surely) {
              ASSERT_GE(distance, worst * 0.999F) << "query " << i << " missed block " << b;
            }
          }
        }
      }
      EXPECT_GE(computed, least);
      EXPECT_LE(computed, most);
    }
  }
}

}  // namespace
}  // namespace smartmine
