#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "smartmine/core/rows.h"
#include "smartmine/graph/neighbors.h"
#include "smartmine/mining/labels.h"

namespace smartmine {

/// Options of batches made of classes that lie near each other.
struct BatchBuilderOptions {
  std::size_t classes = 24;          ///< Of a batch; at most those there are. At least 2.
  std::size_t images_per_class = 4;  ///< At least 2.
  double near_share = 1;          ///< Of a batch's classes behind the first, those chosen by the lists; the others are drawn. From 0 to 1.
  std::size_t rounds = 1;         ///< How often every point comes round. At least 1.
  std::size_t negatives = 16;     ///< Nearest points of other classes that a point is asked for. At least 1.
  double duplicate_distance = 0;  ///< Points nearer (squared) than this, or at 0, are copies. At least 0.
  std::uint64_t seed = 1;
  unsigned threads = 0;  ///< 0: all cores. Rounds are made side by side; never changes the result.
  /// Throws InvalidArgument naming the field, its value and the allowed range.
  void validate() const;
};

/// What batches came to, all rounds together.
struct BatchStats {
  std::size_t batches = 0;
  std::size_t groups = 0;                  ///< Images of one class that go together.
  std::size_t near_groups = 0;             ///< Of these, chosen by the lists.
  std::size_t random_groups = 0;           ///< Drawn, because they were to be or nothing near was left.
  std::size_t repeated = 0;                ///< Times that points come beyond once a round, to fill groups and batches.
  std::size_t copies_skipped = 0;          ///< Points with a copy in another class, which say nothing of who is near.
  std::size_t copies_left_out = 0;         ///< Points that were left out of a round, for a copy of the same class came.
  std::size_t alone = 0;                   ///< Points that never come, for there is no other image of their class ...
  std::size_t only_copies = 0;             ///< ... or for all others of it are their copies, and so no positives.
  std::size_t lists_without_negative = 0;  ///< Lists that name no point of another class, and so say nothing of who is near.
  std::size_t classes_by_centre = 0;       ///< Classes most of whose lists are such: their centres were compared too.
  std::string note = {};                   ///< A sentence on it if there are such classes.
  double seconds = 0;

  /// Share of the groups behind the first of each batch that the lists chose.
  double near_share() const { return groups <= batches ? 0 : static_cast<double>(near_groups) / static_cast<double>(groups - batches); }
};

/// Batches, one after the other, as indices of points; within a batch, group after group.
struct ClassBatches {
  std::vector<std::uint32_t> items;
  std::size_t batch_items = 0;  ///< Of every batch.
  BatchStats stats;

  std::size_t batches() const { return batch_items == 0 ? 0 : items.size() / batch_items; }
  std::span<const std::uint32_t> batch(std::size_t number) const { return std::span(items).subspan(number * batch_items, batch_items); }
};

/// The miner's sibling: puts classes that the lists show to be confused into one batch, so that most of its pairs are hard. Two classes are
/// near if many points of one have points of the other among their first `negatives` neighbours of other classes, and many of the other are
/// had: a point with a wrong label, or far from its class, moves nothing. A class's points are divided at random into groups; a batch
/// begins with a group and takes in, again and again, one of the class nearest to those it has; less of classes of which less is left.
/// Every point comes once a round, but what does not fill a group waits for the next round or takes in some of it; only a class's very last
/// group, and a round's last batch, are filled with what comes anyway. A batch has two classes or more, and one group of a class, or as
/// many as its share asks for if it is so large; groups of others come again beside one larger than all of these. Of copies of a point in
/// its class one comes a round; points alone in their class, or with only copies, never come; where fewer than two classes are left, copies
/// are like others. Where most lists of a class hold no other one, centres (means of `rows`) are compared too, if there are rows. A round's
/// batches are in random order. The same seed gives the same batches. With a `near_share` of 0 lists are not looked at.
/// Throws InvalidArgument for bad options, lists of other points, or labels that `require_classes_for_batches` refuses.
ClassBatches build_batches(const NeighborLists& lists, const LabelIndex& labels, const BatchBuilderOptions& options,
                           const Rows* rows = nullptr);

/// Throws InvalidArgument unless two classes have two points: no batch could have a positive and a negative.
void require_classes_for_batches(const LabelIndex& labels);

/// Two classes and how many of the batches that were looked at hold both.
struct ClassPair {
  std::uint32_t first = 0, second = 0;  ///< As LabelIndex numbers them, first < second.
  std::size_t batches = 0;
};

/// What a look at some batches shows: how hard their pairs are, and which classes come together.
struct BatchSurvey {
  std::size_t batches = 0;       ///< Looked at.
  std::size_t points = 0;        ///< Of these, whose distances were looked at. 0: what follows about distances says nothing.
  double error = 0;              ///< Share of points whose nearest other point of the batch is of another class.
  double positive_distance = 0;  ///< Mean squared distance of a point to the nearest other point of its class in the batch ...
  double negative_distance = 0;  ///< ... and to the nearest of another class.
  std::vector<ClassPair> pairs;  ///< Those most often together, most often first; equal ones by number.
  double seconds = 0;
};

/// At most so many distances, and pairs of classes, does a survey look at.
inline constexpr std::size_t kMostSurveyed = 4'000'000;

/// Looks at `batches` of them, spread evenly, and names the `pairs` of classes most often together. Distances are those of `rows`; null:
/// none are looked at. Of large batches only some points are compared with all others, and only some classes, those of the lowest numbers,
/// counted. Throws InvalidArgument if rows and labels are of other points.
BatchSurvey survey_batches(const ClassBatches& made, const LabelIndex& labels, const Rows* rows, std::size_t batches = 32,
                           std::size_t pairs = 6);

}  // namespace smartmine
