#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "graph/made_rows.h"
#include "graph/together.h"
#include "smartmine/core/error.h"
#include "smartmine/graph/exact_knn.h"
#include "smartmine/graph/neighbor_index.h"

namespace smartmine {
namespace {

using test::clustered_unit_rows;
using test::equal_lists;
using test::MadeRows;
using test::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A device that cannot: too little memory, or rows it does not take.
DeviceSearch failing_device() {
  return [](const Rows&, RowRange, std::size_t, const ListMaker&, const Progress&) -> NeighborResult {
    throw Error("the GPU has too little free memory: 9 MiB more were needed");
  };
}

TEST(DeviceFailures, LeaveTheListsToTheCpuUnlessTheDeviceWasAskedFor) {
  const MadeRows made = clustered_unit_rows(500, 8, 10);
  const NeighborCall call{.seed = {}, .device = failing_device()};
  const NeighborLists truth = ExactKnn({.neighbors = 5}).neighbors(made.rows()).lists;
  for (const IndexKind kind : {IndexKind::kAutomatic, IndexKind::kExact}) {
    NeighborIndex index({.kind = kind, .neighbors = 5, .threads = 1});
    const NeighborResult found = index.neighbors(made.rows(), call);
    EXPECT_TRUE(equal_lists(found.lists, truth));
    EXPECT_EQ(found.stats.index, "exact");
    EXPECT_THAT(found.stats.note, AllOf(HasSubstr("9 MiB more"), HasSubstr("the CPU")));
  }
  NeighborIndex asked({.kind = IndexKind::kDevice, .neighbors = 5});
  EXPECT_THAT(message_of<Error>([&] { asked.neighbors(made.rows(), call); }), HasSubstr("9 MiB more"));
}

TEST(DeviceFailures, AreNoCancellationAndNoBrokenPromise) {
  const MadeRows made = clustered_unit_rows(500, 8, 10);
  NeighborIndex index({.neighbors = 5});
  const auto neighbors_where = [&](const std::function<void()>& fails) {
    index.neighbors(made.rows(),
                    {.seed = {}, .device = [&](const Rows&, RowRange, std::size_t, const ListMaker&, const Progress&) -> NeighborResult {
                       fails();
                       return {};
                     }});
  };
  EXPECT_THROW(neighbors_where([] { throw Cancelled(); }), Cancelled);
  EXPECT_THROW(neighbors_where([] { throw InternalError("a promise was broken"); }), InternalError);
}

// One alone must not search on: the others would wait for its lists.
TEST(DeviceFailures, OfOneMemberLeaveTheListsToTheCpuInAWholeTeam) {
  const MadeRows wide = clustered_unit_rows(1500, 700, 20), narrow = clustered_unit_rows(1500, 7, 20);
  for (const MadeRows* made : {&wide, &narrow}) {
    ASSERT_EQ(sharing_pays(made->rows(), 1), made == &wide);
    const NeighborLists truth = ExactKnn({.neighbors = 1}).neighbors(made->rows()).lists;
    test::Together together(3);
    const auto results = together.run([&](const Team* team) {
      const DeviceSearch works = [](const Rows&, RowRange wanted, std::size_t neighbors, const ListMaker&, const Progress&) {
        return NeighborResult{NeighborLists(wanted.count, neighbors), {}};
      };
      const DeviceSearch search = team->member == 1 ? failing_device() : works;
      NeighborIndex index({.kind = IndexKind::kExact, .neighbors = 1, .threads = 1});
      return index.neighbors(made->rows(), {.seed = {}, .device = search, .team = team, .lists = {}});
    });
    for (const auto& result : results) {
      EXPECT_TRUE(equal_lists(result->lists, truth));
      EXPECT_EQ(result->stats.index, "exact");
      EXPECT_THAT(result->stats.note, HasSubstr("the CPU"));
    }
  }
}

}  // namespace
}  // namespace smartmine
