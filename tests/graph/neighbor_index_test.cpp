#include "smartmine/graph/neighbor_index.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/made_files.h"
#include "graph/made_rows.h"
#include "graph/together.h"
#include "smartmine/graph/exact_knn.h"

namespace smartmine {
namespace {

using smartmine::testing::TemporaryFolder;
using test::clustered_unit_rows;
using test::drifted;
using test::equal_edges;
using test::equal_lists;
using test::MadeRows;
using test::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Exact lists that say they come from a device, counting how often they were asked for.
DeviceSearch pretended_device(int& calls) {
  return [&calls](const Rows& rows, RowRange wanted, std::size_t neighbors, const ListMaker& lists, const Progress& progress) {
    ++calls;
    const NeighborResult all = ExactKnn({.neighbors = neighbors, .threads = 1}).neighbors(rows, progress);
    NeighborResult found{make_lists(lists, wanted.count, neighbors), {}};
    for (std::size_t i = 0; i < wanted.count; ++i) {
      std::ranges::copy(all.lists.ids(wanted.first + i), found.lists.ids(i).begin());
      std::ranges::copy(all.lists.distances(wanted.first + i), found.lists.distances(i).begin());
    }
    found.stats.index = "exact-device";
    found.stats.distance_computations = wanted.count * rows.size();
    found.stats.rows_certified = wanted.count;
    return found;
  };
}

TEST(NeighborIndex, GivesTheListsOfExactSearch) {
  const MadeRows made = clustered_unit_rows(700, 16, 10);
  NeighborIndex index({.kind = IndexKind::kExact, .neighbors = 12, .recall_target = 0.9, .threads = 1});
  const NeighborResult found = index.neighbors(made.rows());
  EXPECT_TRUE(equal_lists(found.lists, ExactKnn({.neighbors = 12}).neighbors(made.rows()).lists));
  EXPECT_EQ(found.stats.index, "exact");
  EXPECT_EQ(found.stats.recall_target, 0.9);
  EXPECT_EQ(index.graph(), nullptr);
}

// Lists in memory that the maker keeps, as a file's would be.
struct KeptLists {
  std::shared_ptr<std::uint32_t[]> ids;
  std::shared_ptr<float[]> distances;
  int made = 0;
  ListMaker maker() {
    return [this](std::size_t size, std::size_t neighbors) {
      ++made;
      ids = std::make_shared<std::uint32_t[]>(size * neighbors);
      distances = std::make_shared<float[]>(size * neighbors);
      return NeighborLists(size, neighbors, ids, distances);
    };
  }
};

TEST(NeighborIndex, FindsListsInMemoryFromElsewhere) {
  const MadeRows made = clustered_unit_rows(5000, 16, 40), moved = drifted(made, 0.1);
  int calls = 0;
  const DeviceSearch device = pretended_device(calls);
  for (const IndexKind kind : {IndexKind::kExact, IndexKind::kFanng, IndexKind::kDevice}) {
    NeighborIndex plain({.kind = kind, .neighbors = 10, .start = Start::kPrevious, .keep_graph = true, .threads = 1}), kept = plain;
    const DeviceSearch given = kind == IndexKind::kDevice ? device : DeviceSearch();
    for (const MadeRows* epoch : {&made, &moved}) {
      KeptLists memory;
      const NeighborResult found = kept.neighbors(epoch->rows(), {.device = given, .lists = memory.maker()});
      EXPECT_GE(memory.made, 1);  // again where a search begins anew
      EXPECT_EQ(found.lists.all_ids().data(), memory.ids.get());
      EXPECT_EQ(found.lists.all_distances().data(), memory.distances.get());
      EXPECT_TRUE(equal_lists(found.lists, plain.neighbors(epoch->rows(), {.device = given}).lists));
    }
  }
}

TEST(NeighborIndex, GivesTheListsAndTheGraphOfEveryStart) {
  const MadeRows made = clustered_unit_rows(1200, 16, 20);
  for (const Start start : {Start::kPartition, Start::kRandom}) {
    NeighborIndex index(
        {.kind = IndexKind::kFanng, .neighbors = 10, .for_search = true, .start = start, .keep_graph = true, .seed = 5, .threads = 1});
    const NeighborResult found = index.neighbors(made.rows());
    const FanngResult built = build_fanng(made.rows(), {.neighbors = 10, .start = start, .seed = 5, .threads = 1, .refreshable = true});
    EXPECT_TRUE(equal_lists(found.lists, built.lists));
    ASSERT_NE(index.graph(), nullptr);
    EXPECT_TRUE(equal_edges(*index.graph(), built.graph));
    EXPECT_EQ(found.stats.distance_computations, built.stats.distance_computations);
  }
}

TEST(NeighborIndex, StartsFromTheGraphOfTheCallBefore) {
  const MadeRows made = clustered_unit_rows(5000, 16, 40), moved = drifted(made, 0.1);
  NeighborIndex index(
      {.kind = IndexKind::kFanng, .neighbors = 10, .for_search = true, .start = Start::kPrevious, .keep_graph = true, .threads = 1});
  index.neighbors(made.rows(), {.seed = 11, .device = {}});
  const NeighborResult found = index.neighbors(moved.rows(), {.seed = 12, .device = {}});
  FanngOptions options{.neighbors = 10, .seed = 11, .threads = 1, .refreshable = true};
  const FanngResult first = build_fanng(made.rows(), options);  // from a partition, as there is nothing before it
  options.start = Start::kPrevious;
  options.seed = 12;
  const FanngResult second = build_fanng(moved.rows(), options, &first.graph);
  EXPECT_TRUE(equal_lists(found.lists, second.lists));
  EXPECT_TRUE(equal_edges(*index.graph(), second.graph));
  options.seed = 13;
  EXPECT_FALSE(equal_edges(*index.graph(), build_fanng(moved.rows(), options, &first.graph).graph)) << "the seed has no part in it";
}

TEST(NeighborIndex, GoesOnFromAGraphThatWasSaved) {
  const TemporaryFolder folder;
  const MadeRows made = clustered_unit_rows(5000, 16, 40), moved = drifted(made, 0.1);
  const NeighborIndexOptions options{
      .kind = IndexKind::kFanng, .neighbors = 10, .for_search = true, .start = Start::kPrevious, .keep_graph = true, .threads = 1};
  NeighborIndex index(options), other(options);
  index.neighbors(made.rows());
  index.save(folder / "kept.graph");
  other.load(folder / "kept.graph");
  EXPECT_TRUE(equal_lists(index.neighbors(moved.rows()).lists, other.neighbors(moved.rows()).lists));
  EXPECT_TRUE(equal_edges(*index.graph(), *other.graph()));
}

TEST(NeighborIndex, KeepsTheGraphItHasWhenACallFails) {
  const TemporaryFolder folder;
  const MadeRows made = clustered_unit_rows(500, 8, 10), fewer = clustered_unit_rows(400, 8, 10);
  NeighborIndex index(
      {.kind = IndexKind::kFanng, .neighbors = 5, .for_search = true, .start = Start::kPrevious, .keep_graph = true, .threads = 1});
  index.neighbors(made.rows());
  const Fanng kept = *index.graph();
  EXPECT_THAT(message_of<InvalidArgument>([&] { index.neighbors(fewer.rows()); }), AllOf(HasSubstr("500"), HasSubstr("400")));
  EXPECT_THROW(index.neighbors(made.rows(), [](const ProgressEvent&) { return false; }), Cancelled);
  EXPECT_THROW(index.load(folder / "none.graph"), IoError);
  EXPECT_TRUE(equal_edges(*index.graph(), kept));
  index.forget();
  EXPECT_NO_THROW(index.neighbors(fewer.rows()));
  EXPECT_EQ(index.graph()->size(), 400U);
}

TEST(NeighborIndex, KeepsNoGraphUnlessAsked) {
  const TemporaryFolder folder;
  const MadeRows made = clustered_unit_rows(500, 8, 10);
  NeighborIndex index({.kind = IndexKind::kFanng, .neighbors = 5, .threads = 1});
  index.neighbors(made.rows());
  EXPECT_EQ(index.graph(), nullptr);
  EXPECT_THAT(message_of<InvalidArgument>([&] { index.save(folder / "a.graph"); }), HasSubstr("keep_graph"));
}

TEST(NeighborIndex, AsksTheDeviceWhereOneIsGivenAndTheGraphIsNotAskedFor) {
  const MadeRows made = clustered_unit_rows(500, 8, 10);
  int calls = 0;
  const NeighborCall call{.seed = {}, .device = pretended_device(calls)};
  for (const IndexKind kind : {IndexKind::kAutomatic, IndexKind::kExact, IndexKind::kDevice}) {
    NeighborIndex index({.kind = kind, .neighbors = 5, .threads = 1});
    EXPECT_EQ(index.neighbors(made.rows(), call).stats.index, "exact-device");
  }
  EXPECT_EQ(calls, 3);
  NeighborIndex graph({.kind = IndexKind::kFanng, .neighbors = 5, .threads = 1});
  EXPECT_EQ(graph.neighbors(made.rows(), call).stats.index, "fanng");
  EXPECT_EQ(calls, 3);
}

TEST(NeighborIndex, SearchesForQueriesExactlyAndNotThroughAGraph) {
  const MadeRows made = clustered_unit_rows(300, 8, 10), queries = clustered_unit_rows(20, 8, 10, 0.4, 5);
  const auto search = [&](IndexKind kind) {
    return NeighborIndex({.kind = kind, .neighbors = 7, .threads = 1}).search(made.rows(), queries.rows());
  };
  const NeighborResult truth = ExactKnn({.neighbors = 7, .threads = 1}).search(made.rows(), queries.rows());
  EXPECT_TRUE(equal_lists(search(IndexKind::kExact).lists, truth.lists));
  EXPECT_TRUE(equal_lists(search(IndexKind::kAutomatic).lists, truth.lists));
  EXPECT_THAT(message_of<InvalidArgument>([&] { search(IndexKind::kFanng); }), HasSubstr("kind is fanng"));
}

TEST(NeighborIndex, RefusesADeviceThatIsNotThere) {
  const MadeRows made = clustered_unit_rows(500, 8, 10);
  NeighborIndex index({.kind = IndexKind::kDevice, .neighbors = 5});
  EXPECT_THAT(message_of<InvalidArgument>([&] { index.neighbors(made.rows()); }), AllOf(HasSubstr("kind is device"), HasSubstr("exact")));
}

TEST(NeighborIndex, NamesABadOption) {
  EXPECT_THAT(message_of<InvalidArgument>([] { NeighborIndex({.neighbors = 0}); }), HasSubstr("neighbors is 0"));
  EXPECT_THAT(message_of<InvalidArgument>([] { NeighborIndex({.recall_target = 1.5}); }), HasSubstr("recall_target is 1.5"));
  EXPECT_THAT(message_of<InvalidArgument>([] { NeighborIndex({.max_degree = 3}); }), HasSubstr("max_degree is 3"));
  const MadeRows made = clustered_unit_rows(50, 4, 3);
  for (const IndexKind kind : {IndexKind::kAutomatic, IndexKind::kExact, IndexKind::kFanng})
    EXPECT_THAT(message_of<InvalidArgument>([&] { NeighborIndex({.kind = kind, .neighbors = 50}).neighbors(made.rows()); }),
                HasSubstr("neighbors is 50"));
}

TEST(NeighborIndex, TakesTheGraphForRowsInClassesAndAllPairsForAsManyOfNoise) {
  const MadeRows noise = test::clouds_of_rows(22'000, 64, 1, 1), classes = clustered_unit_rows(22'000, 64, 800, 0.3);
  EXPECT_TRUE(hard_to_search(noise.rows(), 5));
  EXPECT_FALSE(hard_to_search(classes.rows(), 5));
  NeighborIndex index({.neighbors = 5});
  EXPECT_EQ(index.neighbors(classes.rows()).stats.index, "fanng");
  const NeighborResult found = index.neighbors(noise.rows());
  EXPECT_EQ(found.stats.index, "exact");
  EXPECT_TRUE(equal_lists(found.lists, ExactKnn({.neighbors = 5}).neighbors(noise.rows()).lists));
  NeighborIndex graph({.kind = IndexKind::kFanng, .neighbors = 5});
  EXPECT_EQ(graph.neighbors(noise.rows()).stats.index, "fanng") << "it was asked for";
}

TEST(HardToSearch, TellsNoiseFromClassesInManyDimensions) {
  for (const std::size_t dimension : {128U, 512U}) {
    SCOPED_TRACE(dimension);
    const MadeRows noise = test::clouds_of_rows(9'000, dimension, 1, 1), classes = clustered_unit_rows(9'000, dimension, 60, 0.6);
    EXPECT_TRUE(hard_to_search(noise.rows(), 100));
    EXPECT_FALSE(hard_to_search(classes.rows(), 100));
    EXPECT_FALSE(hard_to_search(classes.rows(), 10));
  }
}

TEST(HardToSearch, TellsNoiseFromClassesInFewerDimensions) {
  const MadeRows noise = test::clouds_of_rows(12'000, 32, 1, 1), narrow = clustered_unit_rows(12'000, 32, 400, 0.6),
                 classes = clustered_unit_rows(12'000, 32, 60, 0.4);
  EXPECT_TRUE(hard_to_search(noise.rows(), 10));
  EXPECT_FALSE(hard_to_search(narrow.rows(), 10));
  EXPECT_TRUE(hard_to_search(narrow.rows(), 100));
  EXPECT_FALSE(hard_to_search(classes.rows(), 100));
}

TEST(HardToSearch, IsNoneOfEqualRowsAndAListOfAllOthersIs) {
  const MadeRows equal = test::clouds_of_rows(100, 8, 1, 0), noise = test::clouds_of_rows(100, 8, 1, 1);
  EXPECT_FALSE(hard_to_search(equal.rows(), 5));
  EXPECT_TRUE(hard_to_search(noise.rows(), 99));
}

TEST(NeighborIndex, GivesTheSameListsWithEdgesAndWithout) {
  // Other rows each time, so that every build ends in one from a partition: a refresh takes other ways with edges and without.
  const MadeRows made = clustered_unit_rows(6000, 24, 60), other = clustered_unit_rows(6000, 24, 60, 0.4, 2);
  NeighborIndexOptions options{
      .kind = IndexKind::kFanng, .neighbors = 10, .edge_candidates = 10, .start = Start::kPrevious, .keep_graph = true, .threads = 1};
  NeighborIndex lists(options);
  options.for_search = true;
  NeighborIndex both(options);
  for (const MadeRows* rows : {&made, &other, &made}) {
    const NeighborResult alone = lists.neighbors(rows->rows()), with = both.neighbors(rows->rows());
    EXPECT_TRUE(equal_lists(alone.lists, with.lists));
    EXPECT_EQ(alone.stats.recall, with.stats.recall);
    EXPECT_LT(alone.stats.distance_computations, with.stats.distance_computations);
    EXPECT_FALSE(lists.graph()->has_edges());
    EXPECT_TRUE(both.graph()->has_edges());
  }
}

TEST(NeighborIndex, MakesEdgesAndASuccessRateOnlyIfTheGraphIsToBeSearched) {
  const MadeRows made = clustered_unit_rows(6000, 24, 60);
  NeighborIndexOptions options{.kind = IndexKind::kFanng, .neighbors = 10, .threads = 1};
  const NeighborStats lists = NeighborIndex(options).neighbors(made.rows()).stats;
  EXPECT_FALSE(lists.certified);
  EXPECT_EQ(lists.success_pairs, 0U);
  EXPECT_EQ(lists.mean_degree, 0);
  EXPECT_TRUE(lists.recall_reached);
  options.for_search = true;
  const NeighborStats searched = NeighborIndex(options).neighbors(made.rows()).stats;
  EXPECT_TRUE(searched.certified);
  EXPECT_TRUE(searched.success_reached);
  EXPECT_GT(searched.success_pairs, 0U);
  EXPECT_GT(searched.distance_computations, lists.distance_computations);
  options.for_search = false;
  options.certify = true;
  EXPECT_TRUE(NeighborIndex(options).neighbors(made.rows()).stats.certified);
}

TEST(NeighborIndex, MakesEdgesFromAGraphThatHasNone) {
  const MadeRows made = clustered_unit_rows(6000, 24, 60);
  const TemporaryFolder folder;
  NeighborIndexOptions options{.kind = IndexKind::kFanng, .neighbors = 10, .start = Start::kPrevious, .keep_graph = true, .threads = 1};
  NeighborIndex lists(options);
  lists.neighbors(made.rows());
  lists.save(folder / "lists.graph");
  options.for_search = true;
  NeighborIndex searched(options);
  searched.load(folder / "lists.graph");
  ASSERT_FALSE(searched.graph()->has_edges());
  const NeighborStats stats = searched.neighbors(made.rows()).stats;
  EXPECT_GT(stats.success_pairs, 0U);
  EXPECT_GE(stats.mean_degree, 5);
  EXPECT_TRUE(searched.graph()->has_edges());
}

TEST(ChooseIndex, TakesExactSearchForFewRowsAndTheGraphForMany) {
  const auto chosen = [](IndexKind asked, std::size_t size, std::size_t neighbors, bool device) {
    return choose_index(asked, {.size = size, .dimension = 64, .neighbors = neighbors, .device = device, .matrices = false, .hard = false});
  };
  EXPECT_EQ(chosen(IndexKind::kAutomatic, 2, 1, false), IndexKind::kExact);
  EXPECT_EQ(chosen(IndexKind::kAutomatic, 1000, 100, false), IndexKind::kExact);
  EXPECT_EQ(chosen(IndexKind::kAutomatic, 12'000, 10, false), IndexKind::kExact);
  EXPECT_EQ(chosen(IndexKind::kAutomatic, 15'000, 100, false), IndexKind::kExact);
  enum class Of { kClasses, kNarrow, kNoise };
  const auto goes_to_the_graph_at = [](Of rows, std::size_t dimension, std::size_t neighbors, std::size_t size) {
    SCOPED_TRACE(fmt::format("kind {}, dimension {}, lists of {}", static_cast<int>(rows), dimension, neighbors));
    IndexTask task{.size = size - size / 50, .dimension = dimension, .neighbors = neighbors};
    task.hard = rows == Of::kNoise;
    task.narrow = rows == Of::kNarrow;
    EXPECT_EQ(choose_index(IndexKind::kAutomatic, task), IndexKind::kExact);
    task.size = size + size / 50;
    EXPECT_EQ(choose_index(IndexKind::kAutomatic, task), IndexKind::kFanng);
  };
  goes_to_the_graph_at(Of::kClasses, 64, 10, 12'500);
  goes_to_the_graph_at(Of::kClasses, 64, 100, 16'500);
  goes_to_the_graph_at(Of::kClasses, 512, 100, 11'500);
  goes_to_the_graph_at(Of::kClasses, 2048, 100, 11'500);  // none were measured: as the widest
  goes_to_the_graph_at(Of::kNarrow, 64, 10, 10'000);
  goes_to_the_graph_at(Of::kNarrow, 512, 100, 5'600);
  goes_to_the_graph_at(Of::kNoise, 64, 10, 31'000);
  goes_to_the_graph_at(Of::kNoise, 64, 100, 28'000);
  goes_to_the_graph_at(Of::kNoise, 256, 49, 11'700);  // between lists of 10 and of 100, by ratio
  goes_to_the_graph_at(Of::kNoise, 360, 10, 12'500);  // and between dimensions
  goes_to_the_graph_at(Of::kNoise, 3, 100, 36'000);
  const auto chosen_by_matrices = [](std::size_t size, std::size_t neighbors, bool hard) {
    return choose_index(IndexKind::kAutomatic,
                        {.size = size, .dimension = 64, .neighbors = neighbors, .device = false, .matrices = true, .hard = hard});
  };
  EXPECT_EQ(chosen_by_matrices(15'000, 10, false), IndexKind::kExact);
  EXPECT_EQ(chosen_by_matrices(17'000, 10, false), IndexKind::kFanng);
  EXPECT_EQ(chosen_by_matrices(17'000, 100, false), IndexKind::kFanng);
  EXPECT_EQ(chosen_by_matrices(200'000, 10, true), IndexKind::kExact);
  EXPECT_EQ(chosen_by_matrices(99'000, 100, true), IndexKind::kExact);
  EXPECT_EQ(chosen_by_matrices(100'000, 100, true), IndexKind::kFanng);
  EXPECT_EQ(chosen(IndexKind::kAutomatic, 1'000'000, 100, false), IndexKind::kFanng);
  EXPECT_EQ(chosen(IndexKind::kAutomatic, 1'000'000, 100, true), IndexKind::kDevice);
  EXPECT_EQ(chosen(IndexKind::kAutomatic, 10'000'001, 100, true), IndexKind::kFanng);
  // Beyond 512 dimensions a GPU measures pair after pair.
  const auto chosen_of = [](std::size_t size, std::size_t dimension) {
    return choose_index(IndexKind::kAutomatic, {.size = size, .dimension = dimension, .neighbors = 100, .device = true});
  };
  EXPECT_EQ(chosen_of(10'000'000, 512), IndexKind::kDevice);
  EXPECT_EQ(chosen_of(1'000'000, 1024), IndexKind::kFanng);
  EXPECT_EQ(chosen_of(195'000, 1024), IndexKind::kDevice);
  EXPECT_EQ(chosen_of(196'000, 1024), IndexKind::kFanng);
  EXPECT_EQ(chosen_of(24'000, 8192), IndexKind::kDevice);
  EXPECT_EQ(chosen_of(25'000, 8192), IndexKind::kFanng);
  EXPECT_EQ(chosen_of(2'000, 8192), IndexKind::kDevice);
  EXPECT_EQ(chosen(IndexKind::kAutomatic, 1'500'000, 100'000, true), IndexKind::kDevice);
  EXPECT_EQ(chosen(IndexKind::kExact, 1'500'000, 100, true), IndexKind::kDevice);
  EXPECT_EQ(chosen(IndexKind::kExact, 1'500'000, 100, false), IndexKind::kExact);
  EXPECT_EQ(chosen(IndexKind::kFanng, 2, 1, true), IndexKind::kFanng);
}

TEST(NeighborIndexes, ListsOfSomeRowsAreThoseOfAll) {
  std::vector<float> values;
  for (int i = 0; i < 60; ++i) values.push_back(static_cast<float>(i / 3));  // every point three times
  const Rows rows(values.data(), 60, 1);
  const NeighborLists all = ExactKnn({.neighbors = 7, .threads = 1}).neighbors(rows).lists;
  const std::vector<std::uint32_t> some = {59, 0, 31};
  const NeighborLists lists = lists_of_some(rows, some, 7, 1).lists;
  for (std::size_t i = 0; i < some.size(); ++i) {
    EXPECT_THAT(lists.distances(i), ::testing::ElementsAreArray(all.distances(some[i])));
    EXPECT_THAT(lists.ids(i), ::testing::Not(::testing::Contains(some[i])));
  }
}

TEST(NeighborIndexes, ShareTheRowsAmongTheDevicesOfATeamWhereThatPays) {
  const MadeRows wide = clustered_unit_rows(1500, 700, 20), narrow = clustered_unit_rows(1500, 7, 20);
  ASSERT_TRUE(sharing_pays(wide.rows(), 1));
  ASSERT_FALSE(sharing_pays(wide.rows(), 10));
  ASSERT_FALSE(sharing_pays(narrow.rows(), 1));
  for (const MadeRows* made : {&wide, &narrow}) {
    const NeighborLists truth = ExactKnn({.neighbors = 1}).neighbors(made->rows()).lists;
    std::vector<std::size_t> wanted(3);
    test::Together together(3);
    const auto results = together.run([&](const Team* team) {
      int calls = 0;
      const DeviceSearch all = pretended_device(calls);
      const DeviceSearch search = [&](const Rows& rows, RowRange some, std::size_t neighbors, const ListMaker& lists,
                                      const Progress& progress) {
        wanted[team->member] += some.count;
        return all(rows, some, neighbors, lists, progress);
      };
      NeighborIndex index({.kind = IndexKind::kDevice, .neighbors = 1, .threads = 1});
      return index.neighbors(made->rows(), {.seed = {}, .device = search, .team = team, .lists = {}});
    });
    EXPECT_THAT(wanted, ::testing::Each(made == &wide ? 500U : 1500U));
    for (const auto& result : results) {
      EXPECT_TRUE(equal_lists(result->lists, truth));
      EXPECT_EQ(result->stats.distance_computations, 1500U * 1500U);
      EXPECT_EQ(result->stats.rows_certified, 1500U);
      EXPECT_EQ(result->stats.index, "exact-device");
      EXPECT_EQ(result->stats.recall, 1);
    }
  }
}

// What a broken device may give: it would take a look at the distances alone for true lists.
TEST(NeighborIndexes, SeeThroughListsOfADeviceThatNameOtherRows) {
  MadeRows made = clustered_unit_rows(600, 8, 20);
  for (float& value : made.values) value *= 1e-3F;  // squared distances of 1e-6
  const auto recall_of = [&](const std::function<void(NeighborLists&)>& breaks) {
    NeighborIndex index({.kind = IndexKind::kDevice, .neighbors = 8, .threads = 1});
    const DeviceSearch search = [&](const Rows& all, RowRange, std::size_t neighbors, const ListMaker&, const Progress&) {
      NeighborResult found = ExactKnn({.neighbors = neighbors, .threads = 1}).neighbors(all);
      breaks(found.lists);
      return found;
    };
    return index.neighbors(made.rows(), {.seed = {}, .device = search}).stats.recall;
  };
  const auto each = [](const auto& change) {
    return [change](NeighborLists& lists) {
      for (std::uint32_t i = 0; i < lists.size(); ++i) change(i, lists.ids(i), lists.distances(i));
    };
  };
  EXPECT_EQ(recall_of([](NeighborLists&) {}), 1);
  EXPECT_EQ(recall_of(each([](std::uint32_t, auto ids, auto) { std::ranges::fill(ids, ids[0]); })), 1.0 / 8) << "one row again and again";
  EXPECT_EQ(recall_of(each([](std::uint32_t i, auto ids, auto) { ids[0] = i; })), 7.0 / 8) << "the row itself";
  EXPECT_LT(recall_of(each([](std::uint32_t i, auto ids, auto) {
              for (std::uint32_t j = 0; j < ids.size(); ++j) ids[j] = (i + 97 * (j + 1)) % 600;
            })),
            0.2)
      << "any rows";
  EXPECT_LT(recall_of(each([](std::uint32_t i, auto ids, auto distances) {
              for (std::uint32_t j = 0; j < ids.size(); ++j) ids[j] = (i + 97 * (j + 1)) % 600;
              std::ranges::fill(distances, 0.0F);
            })),
            0.2)
      << "any rows, said to be near";
  EXPECT_EQ(recall_of(each([](std::uint32_t, auto, auto distances) { std::ranges::fill(distances, 1e-9F); })), 0) << "wrong distances";
  EXPECT_EQ(recall_of(each([](std::uint32_t, auto ids, auto) { std::ranges::fill(ids, 600U); })), 0) << "no rows";
}

TEST(NeighborIndexes, MeasureTheRecallOfADevice) {
  std::vector<float> values(300);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i);
  const Rows rows(values.data(), values.size(), 1);
  const auto recall_of = [&](bool honest) {
    NeighborIndex index({.kind = IndexKind::kDevice, .neighbors = 4, .threads = 1});
    const DeviceSearch search = [&](const Rows& all, RowRange, std::size_t neighbors, const ListMaker&, const Progress&) {
      NeighborResult found = ExactKnn({.neighbors = neighbors, .threads = 1}).neighbors(all);
      if (!honest)
        for (float& distance : found.lists.all_distances()) distance += 1e9F;  // as of points far away
      return found;
    };
    return index.neighbors(rows, {.seed = {}, .device = search}).stats;
  };
  EXPECT_EQ(recall_of(true).recall, 1);
  EXPECT_EQ(recall_of(true).recall_sample, 100U);
  EXPECT_EQ(recall_of(false).recall, 0);
  EXPECT_FALSE(recall_of(false).recall_reached);
}

}  // namespace
}  // namespace smartmine
