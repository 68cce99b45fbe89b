#include "report/gallery.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "smartmine/core/parallel.h"
#include "smartmine/core/random.h"
#include "smartmine/data/data_uri.h"

namespace smartmine {
namespace {

constexpr std::size_t kWorstQueries = 24;
constexpr std::size_t kWorstOfAClass = 2;  // so that they are not all of one class
constexpr std::size_t kRandomQueries = 24;
constexpr std::size_t kClassQueries = 100;  // classes that get a query of their own
constexpr std::size_t kHubs = 12;
constexpr std::size_t kConfusions = 5;  // of a class

double rounded(double value) { return std::round(value * 1e4) / 1e4; }

Json picture_of(const EvaluatedSplit& split, std::size_t row) {
  const auto file = split.image(row);
  return {{"name", split.names.empty() ? fmt::format("image {}", row) : split.names[row]},
          {"class", split.class_names[split.classes[row]]},
          {"image", file.empty() ? Json() : Json(jpeg_data_uri(file))}};
}

std::vector<std::size_t> class_sizes(const EvaluatedSplit& split) {
  std::vector<std::size_t> sizes(split.class_names.size());
  for (const std::uint32_t label : split.classes) ++sizes[label];
  return sizes;
}

// A query and how bad it is.
struct Query {
  std::uint32_t row = 0;
  std::size_t correct = 0;
  std::size_t possible = 0;
  float nearest_wrong = std::numeric_limits<float>::infinity();
};

/// The worst first. Rows alone in their class can find nothing and are left out.
std::vector<Query> ordered_queries(const EvaluatedSplit& split, const NeighborLists& lists) {
  const std::vector<std::size_t> sizes = class_sizes(split);
  const std::size_t results = std::min(kResults, lists.neighbors());
  std::vector<Query> queries;
  for (std::uint32_t row = 0; row < lists.size(); ++row) {
    Query query{.row = row, .possible = std::min(results, sizes[split.classes[row]] - 1)};
    if (query.possible == 0) continue;
    for (std::size_t k = 0; k < results; ++k) {
      if (split.classes[lists.ids(row)[k]] == split.classes[row])
        ++query.correct;
      else
        query.nearest_wrong = std::min(query.nearest_wrong, lists.distances(row)[k]);
    }
    queries.push_back(query);
  }
  std::sort(queries.begin(), queries.end(), [](const Query& a, const Query& b) {
    const std::size_t left = a.correct * b.possible;  // shares of what is possible, without dividing
    const std::size_t right = b.correct * a.possible;
    if (left != right) return left < right;
    if (a.nearest_wrong != b.nearest_wrong) return a.nearest_wrong < b.nearest_wrong;
    return a.row < b.row;
  });
  return queries;
}

/// So many of the values, drawn without repetition.
std::vector<std::uint32_t> drawn(std::vector<std::uint32_t> values, std::size_t count, Random random) {
  count = std::min(count, values.size());
  for (std::size_t i = 0; i < count; ++i) std::swap(values[i], values[i + random.below(values.size() - i)]);
  values.resize(count);
  return values;
}

double squared_distance(const Rows& rows, std::size_t a, std::size_t b) {
  double sum = 0;
  for (std::size_t i = 0; i < rows.dimension(); ++i) {
    const double difference = static_cast<double>(rows[a][i]) - rows[b][i];
    sum += difference * difference;
  }
  return sum;
}

struct Match {
  std::uint32_t row = 0;
  double distance = 0;
  std::size_t rank = 0;  // from 1
};

/// The nearest other image of a query's class, and its place among all others.
Match nearest_match(const EvaluatedSplit& split, const NeighborLists& lists, std::uint32_t query) {
  const std::size_t known = std::min(kResults, lists.neighbors());
  for (std::size_t k = 0; k < known; ++k)
    if (const std::uint32_t other = lists.ids(query)[k]; split.classes[other] == split.classes[query])
      return {other, lists.distances(query)[k], k + 1};
  const Rows& rows = split.embeddings.rows();
  std::vector<double> distances(rows.size());
  Match match{.distance = std::numeric_limits<double>::infinity()};
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    distances[row] = squared_distance(rows, query, row);
    if (row != query && split.classes[row] == split.classes[query] && distances[row] < match.distance)
      match = {.row = row, .distance = distances[row]};
  }
  for (std::uint32_t row = 0; row < rows.size(); ++row)
    if (row != query && (distances[row] < match.distance || (distances[row] == match.distance && row < match.row))) ++match.rank;
  match.rank = std::max(match.rank, known) + 1;  // the lists know it is not among them, whatever rounding says
  return match;
}

Json query_json(const EvaluatedSplit& split, const NeighborLists& lists, const Query& query, const std::vector<std::string>& sets,
                const Match& match) {
  Json json = picture_of(split, query.row);
  json["row"] = query.row;
  json["sets"] = sets;
  json["correct"] = query.correct;
  json["possible"] = query.possible;
  json["match"] = picture_of(split, match.row);
  json["match"]["distance"] = rounded(match.distance);
  json["match"]["rank"] = match.rank;
  json["results"] = Json::array();
  for (std::size_t k = 0; k < std::min(kResults, lists.neighbors()); ++k) {
    const std::uint32_t other = lists.ids(query.row)[k];
    Json result = picture_of(split, other);
    result["distance"] = rounded(lists.distances(query.row)[k]);
    result["right"] = split.classes[other] == split.classes[query.row];
    json["results"].push_back(std::move(result));
  }
  return json;
}

/// Images that stand wrongly in many queries' lists, the worst first, each with the queries it stands nearest to.
Json hubs_of(const EvaluatedSplit& split, const NeighborLists& lists) {
  struct Use {
    float distance;
    std::uint32_t query;
    std::size_t rank;
  };
  std::vector<std::vector<Use>> wrong(lists.size());
  std::vector<std::size_t> right(lists.size());
  for (std::uint32_t row = 0; row < lists.size(); ++row)
    for (std::size_t k = 0; k < std::min(kResults, lists.neighbors()); ++k) {
      const std::uint32_t other = lists.ids(row)[k];
      if (split.classes[other] == split.classes[row])
        ++right[other];
      else
        wrong[other].push_back({lists.distances(row)[k], row, k + 1});
    }
  std::vector<std::uint32_t> order(lists.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return wrong[a].size() > wrong[b].size(); });
  Json hubs = Json::array();
  for (const std::uint32_t row : order) {
    std::vector<Use>& uses = wrong[row];
    if (hubs.size() == kHubs || uses.size() < 2) break;
    std::stable_sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.distance < b.distance; });
    Json hub = picture_of(split, row);
    hub["wrong"] = uses.size();
    hub["right"] = right[row];
    hub["queries"] = Json::array();
    for (std::size_t i = 0; i < std::min(kResults, uses.size()); ++i) {
      Json query = picture_of(split, uses[i].query);
      query["distance"] = rounded(uses[i].distance);
      query["rank"] = uses[i].rank;
      hub["queries"].push_back(std::move(query));
    }
    hubs.push_back(std::move(hub));
  }
  return hubs;
}

}  // namespace

GalleryRows choose_queries(const EvaluatedSplit& split, const NeighborLists& lists, std::uint64_t seed) {
  const std::vector<Query> queries = ordered_queries(split, lists);
  GalleryRows chosen;
  std::vector<std::size_t> of_class(split.class_names.size());
  std::size_t worst = 0;
  for (const std::size_t most : {kWorstOfAClass, queries.size()})
    for (const Query& query : queries) {
      if (worst == kWorstQueries) break;
      std::size_t& count = of_class[split.classes[query.row]];
      if (chosen.contains(query.row) || count >= most) continue;
      ++count;
      ++worst;
      chosen[query.row].push_back("worst");
    }
  // By row from here on, so that nothing of it depends on what the network learned.
  std::vector<std::vector<std::uint32_t>> members(split.class_names.size());
  std::vector<std::uint32_t> able;
  const std::vector<std::size_t> sizes = class_sizes(split);
  for (std::uint32_t row = 0; row < lists.size(); ++row) {
    if (sizes[split.classes[row]] < 2) continue;
    able.push_back(row);
    members[split.classes[row]].push_back(row);
  }
  for (const std::uint32_t row : drawn(able, kRandomQueries, Random(seed, 0x67616c72))) chosen[row].push_back("random");
  std::vector<std::uint32_t> classes;
  for (std::uint32_t label = 0; label < members.size(); ++label)
    if (!members[label].empty()) classes.push_back(label);
  for (const std::uint32_t label : drawn(classes, kClassQueries, Random(seed, 0x67616c63)))
    chosen[members[label][Random(seed, 0x67616c71, label).below(members[label].size())]].push_back("class");
  return chosen;
}

bool same_images(const EvaluatedSplit& a, const EvaluatedSplit& b) {
  return a.names == b.names && a.classes == b.classes && a.class_names == b.class_names;
}

Json gallery_of(const EvaluatedSplit& split, const NeighborLists& lists, const GalleryRows& rows, unsigned threads) {
  std::vector<Query> queries = ordered_queries(split, lists);
  if (queries.empty()) return {};
  std::erase_if(queries, [&](const Query& query) { return !rows.contains(query.row); });
  std::vector<Match> matches(queries.size());
  parallel_for(queries.size(), 1, threads, [&](std::size_t begin, std::size_t end, unsigned) {
    for (std::size_t i = begin; i < end; ++i) matches[i] = nearest_match(split, lists, queries[i].row);
  });
  Json shown = Json::array();
  for (std::size_t i = 0; i < queries.size(); ++i)
    shown.push_back(query_json(split, lists, queries[i], rows.at(queries[i].row), matches[i]));
  return {{"epoch", split.epoch}, {"images", lists.size()}, {"queries", std::move(shown)}, {"hubs", hubs_of(split, lists)}};
}

Json classes_of(const EvaluatedSplit& split, const NeighborLists& lists) {
  std::vector<std::size_t> hits(split.class_names.size());
  std::vector<std::map<std::uint32_t, std::size_t>> confused(split.class_names.size());
  for (std::size_t row = 0; row < lists.size(); ++row) {
    const std::uint32_t label = split.classes[row];
    const std::uint32_t found = split.classes[lists.ids(row)[0]];
    if (found == label)
      ++hits[label];
    else
      ++confused[label][found];
  }
  Json most = Json::array();
  for (const auto& counts : confused) {
    std::vector<std::pair<std::uint32_t, std::size_t>> order(counts.begin(), counts.end());
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    order.resize(std::min(order.size(), kConfusions));
    most.push_back(order);
  }
  return {
      {"epoch", split.epoch}, {"names", split.class_names}, {"images", class_sizes(split)}, {"hits", hits}, {"confused", std::move(most)}};
}

}  // namespace smartmine
