#include "smartmine/report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "report/made_run.h"
#include "smartmine/core/error.h"
#include "smartmine/core/vector_files.h"
#include "smartmine/graph/exact_knn.h"

namespace smartmine {
namespace {

using test::Json;
using test::MadeRun;
using test::make_run;
using test::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;

class Page : public ::testing::Test {
 protected:
  Page() {
    static std::atomic<int> number{0};
    root_ = std::filesystem::temp_directory_path() / ("smartmine-page-" + std::to_string(getpid()) + "-" + std::to_string(number++));
    std::filesystem::create_directories(root_);
  }
  ~Page() override { std::filesystem::remove_all(root_); }

  Json data(const std::vector<std::string>& runs, const PageOptions& options = quick()) {
    std::vector<std::filesystem::path> paths;
    for (const std::string& run : runs) paths.push_back(root_ / run);
    const PageData made = page_data(paths, options);
    problems_ = made.problems;
    text_ = made.json;
    return Json::parse(made.json);
  }
  static PageOptions quick() { return {.generator = "test", .tsne = {.iterations = 50, .early = 20, .threads = 1}}; }

  std::filesystem::path root_;
  std::vector<std::string> problems_;
  std::string text_;
};

/// Every field the page's documentation promises for the parts a run has.
void expect_whole_run(const Json& run, std::size_t points) {
  const Json& map = run.at("map");
  ASSERT_FALSE(map.is_null());
  EXPECT_EQ(map.at("points"), points);
  for (const char* name : {"x", "y", "label", "neighbors", "names"}) EXPECT_EQ(map.at(name).size(), points) << name;
  double widest = 0;
  for (const char* name : {"x", "y"})
    for (const Json& value : map.at(name)) {
      EXPECT_LE(std::abs(value.get<double>()), 1);
      widest = std::max(widest, std::abs(value.get<double>()));
    }
  EXPECT_EQ(widest, 1);
  for (const Json& label : map.at("label")) EXPECT_LT(label.get<std::size_t>(), map.at("classes").size());
  for (const Json& list : map.at("neighbors"))
    for (const Json& id : list) EXPECT_LT(id.get<std::size_t>(), points);
  EXPECT_EQ(map.at("thumbnails").at("sheets").size(), (points + 4095) / 4096);
  EXPECT_EQ(run.at("triplets").at("anchors").size(), 6U);
  EXPECT_FALSE(run.at("gallery").at("queries").empty());
}

TEST_F(Page, OfAFinishedRunHasEverything) {
  make_run(root_ / "run");
  const Json json = data({"run"});
  EXPECT_THAT(problems_, IsEmpty());
  EXPECT_EQ(json.at("format"), 1);
  EXPECT_EQ(json.at("generator"), "test");
  EXPECT_TRUE(json.at("refresh_seconds").is_null());
  const Json& run = json.at("runs").at(0);
  expect_whole_run(run, 30);
  EXPECT_EQ(run.at("name"), "run");
  EXPECT_EQ(run.at("dataset"), "cub200");
  EXPECT_EQ(run.at("finished"), true);
  EXPECT_EQ(run.at("epochs_planned"), 4);
  EXPECT_EQ(run.at("target_error"), 0.6);
  EXPECT_EQ(run.at("epochs").size(), 5U);
  EXPECT_EQ(run.at("epochs").at(1), test::made_epoch({}, 1));  // as it is in the log
  EXPECT_EQ(run.at("settings").at("weights"), "a \"b\".pt");
  EXPECT_EQ(run.at("settings").at("skip-bad-images"), false);
  EXPECT_EQ(run.at("settings").at("save-epochs"), Json({2, 4}));
  EXPECT_EQ(run.at("paper").at("row_of_system"), 7);
  EXPECT_EQ(run.at("paper").at("rows").size(), 8U);
  EXPECT_EQ(run.at("paper").at("rows").at(7).at("recall@1"), 0.4978);
  EXPECT_EQ(run.at("map").at("classes").at(0), "class 0");
  EXPECT_EQ(run.at("map").at("evaluated_on"), "test");
  const Json& anchor = run.at("triplets").at("anchors").at(2);
  ASSERT_EQ(anchor.at("epochs").size(), 2U);
  EXPECT_EQ(anchor.at("epochs").at(1).at("epoch"), 4);
  EXPECT_EQ(anchor.at("epochs").at(1).at("kappa"), 2.5);
  EXPECT_EQ(anchor.at("epochs").at(1).at("mined").at(0).at("positive").at("distance"), 0.5);
  EXPECT_THAT(json.at("pictures").at(anchor.at("image").get<std::size_t>()).get<std::string>(), HasSubstr("data:image/jpeg;base64,/9j/"));
  EXPECT_THAT(run.at("started").get<std::string>(), testing::MatchesRegex("20[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+Z"));
  EXPECT_GE(run.at("updated").get<std::string>(), run.at("started").get<std::string>());
  EXPECT_TRUE(run.at("choice").is_null());
}

TEST_F(Page, ShowsTheWorstQueriesFirstWithTheirTrueNeighbors) {
  make_run(root_ / "run");
  const Json json = data({"run"});
  const Json& queries = json.at("runs").at(0).at("gallery").at("queries");
  double before = 0;
  for (const Json& query : queries) {
    std::size_t right = 0;
    double distance = 0;
    ASSERT_EQ(query.at("results").size(), 8U);
    for (const Json& result : query.at("results")) {
      EXPECT_EQ(result.at("right").get<bool>(), result.at("class") == query.at("class"));
      EXPECT_GE(result.at("distance").get<double>(), distance);
      EXPECT_NE(result.at("name"), query.at("name"));
      distance = result.at("distance").get<double>();
      right += result.at("right").get<bool>() ? 1 : 0;
    }
    EXPECT_EQ(query.at("correct"), right);
    EXPECT_EQ(query.at("possible"), 5);  // six images of a class
    EXPECT_GE(static_cast<double>(right), before);
    before = static_cast<double>(right);
  }
  std::map<std::string, std::size_t> sets;
  for (const Json& query : queries)
    for (const Json& set : query.at("sets")) ++sets[set.get<std::string>()];
  EXPECT_EQ(sets, (std::map<std::string, std::size_t>{{"class", 5}, {"random", 24}, {"worst", 24}}));
  // The map's neighbours are the same.
  const Json& map = json.at("runs").at(0).at("map");
  for (const Json& query : queries) {
    const auto at = std::find(map.at("names").begin(), map.at("names").end(), query.at("name")) - map.at("names").begin();
    const auto first = map.at("neighbors").at(static_cast<std::size_t>(at)).at(0).get<std::size_t>();
    EXPECT_EQ(map.at("names").at(first), query.at("results").at(0).at("name"));
  }
}

TEST_F(Page, NamesTheNearestTrueMatchOfAQueryAndItsRank) {
  make_run(root_ / "run", {.classes = 60, .images_of_class = 2, .dimension = 2});
  const Json run = data({"run"}).at("runs").at(0);
  const auto rows = read_embeddings(root_ / "run/embeddings/epoch-0004.npy");
  const auto labels = read_labels(root_ / "run/embeddings/labels.npy");
  std::size_t beyond = 0;
  for (const Json& query : run.at("gallery").at("queries")) {
    const auto row = query.at("row").get<std::size_t>();
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t other = 0; other < labels.size(); ++other) {
      double distance = 0;
      for (std::size_t i = 0; i < rows.rows().dimension(); ++i)
        distance += std::pow(static_cast<double>(rows.rows()[row][i]) - rows.rows()[other][i], 2);
      if (other != row) order.emplace_back(distance, other);
    }
    std::sort(order.begin(), order.end());
    const auto match = std::find_if(order.begin(), order.end(), [&](const auto& each) { return labels[each.second] == labels[row]; });
    EXPECT_EQ(query.at("match").at("rank").get<long>(), match - order.begin() + 1);
    EXPECT_EQ(query.at("match").at("name"), run.at("map").at("names").at(match->second));
    EXPECT_NEAR(query.at("match").at("distance").get<double>(), match->first, 1e-3);
    beyond += query.at("match").at("rank") > 8 ? 1 : 0;
  }
  EXPECT_GT(beyond, 0U);  // beyond the results that are shown
}

TEST_F(Page, CountsHubsHitsAndConfusionsOverAllImages) {
  make_run(root_ / "run", {.classes = 6, .images_of_class = 7});
  const Json run = data({"run"}).at("runs").at(0);
  const Json& map = run.at("map");
  std::map<std::string, std::size_t> wrong;  // how often an image stands in the list of another class
  std::vector<std::size_t> hits(6);
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> confused;
  for (std::size_t i = 0; i < 42; ++i) {
    const auto label = map.at("label").at(i).get<std::size_t>();
    for (const Json& other : map.at("neighbors").at(i))
      if (map.at("label").at(other.get<std::size_t>()) != label) ++wrong[map.at("names").at(other.get<std::size_t>()).get<std::string>()];
    const auto found = map.at("label").at(map.at("neighbors").at(i).at(0).get<std::size_t>()).get<std::size_t>();
    if (found == label)
      ++hits[label];
    else
      ++confused[{label, found}];
  }
  const Json& hubs = run.at("gallery").at("hubs");
  ASSERT_EQ(hubs.size(), 12U);
  std::size_t before = 1000;
  for (const Json& hub : hubs) {
    EXPECT_EQ(hub.at("wrong").get<std::size_t>(), wrong[hub.at("name").get<std::string>()]);
    EXPECT_LE(hub.at("wrong").get<std::size_t>(), before);
    before = hub.at("wrong").get<std::size_t>();
    EXPECT_EQ(hub.at("queries").size(), std::min<std::size_t>(8, before));
    for (const Json& query : hub.at("queries")) EXPECT_NE(query.at("class"), hub.at("class"));
  }
  const Json& classes = run.at("classes");
  EXPECT_EQ(classes.at("hits"), Json(hits));
  EXPECT_EQ(classes.at("images"), Json(std::vector<int>(6, 7)));
  EXPECT_EQ(classes.at("names"), map.at("classes"));
  std::size_t told = 0;
  for (std::size_t label = 0; label < 6; ++label)
    for (const Json& pair : classes.at("confused").at(label)) {
      EXPECT_EQ(pair.at(1).get<std::size_t>(), (confused[{label, pair.at(0).get<std::size_t>()}]));
      ++told;
    }
  EXPECT_EQ(told, confused.size());
}

TEST_F(Page, SharesQueriesAndPicturesBetweenRunsOfTheSameImages) {
  make_run(root_ / "a", {.classes = 12, .images_of_class = 8});
  make_run(root_ / "b", {.classes = 12, .images_of_class = 8});
  make_run(root_ / "other", {.classes = 11, .images_of_class = 8});
  const std::size_t alone = data({"a"}).at("pictures").size();
  const Json json = data({"a", "b", "other"});
  const auto rows = [&](std::size_t run) {
    std::set<std::size_t> found;
    for (const Json& query : json.at("runs").at(run).at("gallery").at("queries")) found.insert(query.at("row").get<std::size_t>());
    return found;
  };
  EXPECT_EQ(rows(0), rows(1));
  EXPECT_NE(rows(0), rows(2));
  EXPECT_LE(data({"a", "b"}).at("pictures").size(), alone + 1);  // b's embeddings and pictures are those of a
  EXPECT_EQ(json.at("runs").at(0).at("map").at("thumbnails"), json.at("runs").at(1).at("map").at("thumbnails"));
}

TEST_F(Page, PassesOnWhatWasChosenAndNamesItsDamage) {
  make_run(root_ / "run");
  const Json choice{{"summary", "the third of nine"}, {"trials", Json::array({Json{{"name", "a"}, {"recall@1", 0.5}}})}};
  write_file(root_ / "run/choice.json", choice.dump());
  EXPECT_EQ(data({"run"}).at("runs").at(0).at("choice"), choice);
  EXPECT_THAT(problems_, IsEmpty());
  write_file(root_ / "run/choice.json", "[1, 2");
  EXPECT_TRUE(data({"run"}).at("runs").at(0).at("choice").is_null());
  EXPECT_THAT(problems_, ElementsAre(HasSubstr("choice.json: damaged: not a JSON object; left out")));
}

TEST_F(Page, SaysOfWhichWeightsTheKeptEmbeddingsAre) {
  make_run(root_ / "run");
  const auto kept = [&](const char* part) { return data({"run"}).at("runs").at(0).at(part).at("kept"); };
  for (const char* part : {"map", "classes", "gallery"}) EXPECT_TRUE(kept(part).is_null()) << part;
  const std::filesystem::path folder = root_ / "run/embeddings";
  std::filesystem::copy_file(folder / "epoch-0004.npy", folder / "kept.npy");
  for (const char* part : {"map", "classes", "gallery"}) EXPECT_EQ(kept(part), "the weights that were kept") << part;
  const std::string words = "epoch 4, 75 % of the way from the start";
  write_file(root_ / "run/choice.json", Json{{"kept", {{"epoch", 4}, {"reason", words}}}}.dump());
  for (const char* part : {"map", "classes", "gallery"}) EXPECT_EQ(kept(part), words) << part;
  EXPECT_EQ(data({"run"}).at("runs").at(0).at("map").at("evaluated_on"), "test");
}

TEST_F(Page, OfARunMadeLongerSaysWhatIsKeptOnlyAsLongAsItIs) {
  make_run(root_ / "run");  // four epochs
  write_file(root_ / "run/choice.json", Json{{"summary", "words"}, {"kept", {{"epoch", 2}, {"reason", "epoch 2"}}}}.dump());
  EXPECT_EQ(data({"run"}).at("runs").at(0).at("choice"), (Json{{"summary", "words"}})) << "these weights are gone";
  const std::filesystem::path folder = root_ / "run/embeddings";
  std::filesystem::copy_file(folder / "epoch-0004.npy", folder / "kept.npy");
  write_file(root_ / "run/kept.safetensors", "weights of epoch 2");
  const Json run = data({"run"}).at("runs").at(0);
  EXPECT_EQ(run.at("choice").at("kept").at("epoch"), 2);
  for (const char* part : {"map", "classes", "gallery"}) {
    EXPECT_EQ(run.at(part).at("kept"), "epoch 2") << part;
    EXPECT_EQ(run.at(part).at("epoch"), 2) << part;
  }
  EXPECT_THAT(problems_, IsEmpty());
}

TEST_F(Page, DrawsARunThatIsStillGoingAsFarAsItIs) {
  make_run(root_ / "run", {.epochs_done = 2});
  PageOptions options = quick();
  options.refresh_seconds = 10;
  const Json json = data({"run"}, options);
  EXPECT_THAT(problems_, IsEmpty());
  EXPECT_EQ(json.at("refresh_seconds"), 10);
  EXPECT_EQ(json.at("runs").at(0).at("finished"), false);
  EXPECT_EQ(json.at("runs").at(0).at("epochs").size(), 3U);
  // Triplets of epoch 4 are those of a training that was cut and will be done again.
  EXPECT_EQ(json.at("runs").at(0).at("triplets").at("anchors").at(0).at("epochs").size(), 1U);
  std::filesystem::remove(root_ / "run/log.jsonl");
  const Json begun = data({"run"});
  EXPECT_THAT(problems_, IsEmpty());
  EXPECT_TRUE(begun.at("runs").at(0).at("epochs").empty());
  EXPECT_TRUE(begun.at("runs").at(0).at("map").is_null());
}

TEST_F(Page, NamesDamagedLinesAndLeavesThemOut) {
  make_run(root_ / "run");
  const std::string log = test::file_text(root_ / "run/log.jsonl");
  std::vector<std::string> lines;
  std::istringstream stream(log);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  lines[1] = lines[1].substr(0, 40);
  lines[2] = R"({"epoch": 2, "metrics": {"recall@1": "much"}})";
  std::string damaged;
  for (const std::string& line : lines) damaged += line + "\n";
  write_file(root_ / "run/log.jsonl", damaged + lines[3] + "\n[1, 2]\n\xff\xfe\n");
  write_file(root_ / "run/config.toml", test::file_text(root_ / "run/config.toml") + "what is this\nkappa = \n");
  const Json json = data({"run"});
  ASSERT_EQ(problems_.size(), 7U);
  EXPECT_THAT(problems_[0], HasSubstr("config.toml: line 8: not a setting; left out"));
  EXPECT_THAT(problems_[2], AllOf(HasSubstr("log.jsonl: line 2: not a line of a run's log: "), HasSubstr("left out")));
  EXPECT_THAT(problems_[3], HasSubstr("line 3: not a line of a run's log: metrics are not numbers by name"));
  EXPECT_THAT(problems_[4], HasSubstr("line 6: not a line of a run's log: epoch 3 comes after epoch 4"));
  EXPECT_THAT(problems_[5], HasSubstr("line 7: not a line of a run's log: it is no object"));
  EXPECT_EQ(json.at("problems").size(), 7U);
  std::vector<int> epochs;
  for (const Json& epoch : json.at("runs").at(0).at("epochs")) epochs.push_back(epoch.at("epoch").get<int>());
  EXPECT_THAT(epochs, ElementsAre(0, 3, 4));
}

TEST_F(Page, OfAnOldRunShowsWhatThereIs) {
  make_run(root_ / "old", {.report_files = false});
  Json json = data({"old"});
  EXPECT_THAT(problems_, IsEmpty());
  const Json run = json.at("runs").at(0);
  EXPECT_TRUE(run.at("triplets").is_null());
  EXPECT_EQ(run.at("map").at("points"), 30);
  EXPECT_TRUE(run.at("map").at("names").is_null());
  EXPECT_TRUE(run.at("map").at("thumbnails").is_null());
  EXPECT_EQ(run.at("map").at("classes").at(0), "100");
  EXPECT_TRUE(run.at("gallery").at("queries").at(0).at("image").is_null());
  make_run(root_ / "bare", {.report_files = false, .embeddings = false});
  json = data({"bare"});
  EXPECT_THAT(problems_, IsEmpty());
  EXPECT_TRUE(json.at("runs").at(0).at("map").is_null());
  EXPECT_TRUE(json.at("runs").at(0).at("gallery").is_null());
  PageOptions options = quick();
  options.map = false;
  json = data({"old"}, options);
  EXPECT_TRUE(json.at("runs").at(0).at("map").is_null());
  EXPECT_FALSE(json.at("runs").at(0).at("gallery").is_null());
}

TEST_F(Page, NamesDamagedFilesAndGoesOnWithoutThem) {
  const std::vector<std::pair<std::string, std::string>> damages = {
      {"report/evaluation.json", "evaluation.json: damaged"},
      {"report/evaluation.jpegs", "its places of images do not fit evaluation.jpegs"},
      {"report/triplets-0002.json", "triplets-0002.json: damaged"},
      {"embeddings/epoch-0004.npy", "epoch-0004.npy"},
      {"embeddings/labels.npy", "labels.npy"},
  };
  for (const auto& [file, message] : damages) {
    std::filesystem::remove_all(root_ / "run");
    make_run(root_ / "run");
    write_file(root_ / "run" / file, test::file_text(root_ / "run" / file).substr(0, 50));
    const Json json = data({"run"});
    EXPECT_THAT(problems_, ElementsAre(AllOf(HasSubstr(message), HasSubstr("left out")))) << file;
    EXPECT_EQ(json.at("runs").at(0).at("epochs").size(), 5U);
  }
  // Whole, but not of these embeddings.
  make_run(root_ / "other", {.classes = 4});
  std::filesystem::remove_all(root_ / "run");
  make_run(root_ / "run");
  std::filesystem::copy(root_ / "other/report/evaluation.json", root_ / "run/report/evaluation.json",
                        std::filesystem::copy_options::overwrite_existing);
  data({"run"});
  EXPECT_THAT(problems_, ElementsAre(HasSubstr("it names 24 images, but there are embeddings of 30; left out")));
}

TEST_F(Page, IsSafeWithNamesOfAnyKind) {
  const std::string name = "</script><img src=x onerror=alert(1)>/\"quoted\" 'single' \xe9\xb3\xa5 \xe2\x80\xa8 & \\.jpg";
  make_run(root_ / "<b>", {.first_class_name = "ptaki <i>żółw</i> \"鳥\"", .first_name = name});
  const Json json = data({"<b>"});
  EXPECT_THAT(problems_, IsEmpty());
  EXPECT_THAT(text_, AllOf(Not(HasSubstr("<")), Not(HasSubstr("\xe2\x80\xa8"))));
  EXPECT_EQ(json.at("runs").at(0).at("map").at("names").at(0), name);
  EXPECT_EQ(json.at("runs").at(0).at("map").at("classes").at(0), "ptaki <i>żółw</i> \"鳥\"");
  EXPECT_EQ(json.at("runs").at(0).at("name"), "<b>");
  // Not even text.
  make_run(root_ / "bad-\xff-name");
  EXPECT_THAT(data({"bad-\xff-name"}).at("runs").at(0).at("name").get<std::string>(), HasSubstr("bad-"));
}

TEST_F(Page, TakesRunsOfDifferentDataSetsAndTellsThoseOfOneNameApart) {
  make_run(root_ / "a/run");
  make_run(root_ / "b/run", {.dataset = "cars196", .system = "semihard"});
  make_run(root_ / "c", {.dataset = "glyphs", .system = "hard-pairs"});
  const Json json = data({"a/run", "b/run/", "c"});
  const Json& runs = json.at("runs");
  EXPECT_EQ(runs.at(0).at("name"), (root_ / "a/run").string());
  EXPECT_EQ(runs.at(2).at("name"), "c");
  EXPECT_EQ(runs.at(1).at("paper").at("row_of_system"), 0);
  EXPECT_EQ(runs.at(1).at("paper").at("rows").at(0).at("nmi"), 0.5335);
  EXPECT_TRUE(runs.at(1).at("target_error").is_null());
  EXPECT_TRUE(runs.at(2).at("paper").is_null());
}

TEST_F(Page, DrawsASampleOfManyImages) {
  make_run(root_ / "run", {.classes = 10, .images_of_class = 9});
  PageOptions options = quick();
  options.map_points = 40;
  const Json run = data({"run"}, options).at("runs").at(0);
  expect_whole_run(run, 40);
  EXPECT_EQ(run.at("map").at("of"), 90);
}

TEST_F(Page, TakesSplitsOfFewImages) {
  for (const std::size_t count : {1, 2, 3}) {
    make_run(root_ / "run", {.classes = 1, .images_of_class = count});
    const Json run = data({"run"}).at("runs").at(0);
    EXPECT_THAT(problems_, IsEmpty());
    EXPECT_EQ(run.at("map").is_null(), count == 1);
    std::filesystem::remove_all(root_ / "run");
  }
}

TEST_F(Page, RefusesWhatIsNoRun) {
  EXPECT_THAT([&] { data({"none"}); }, ThrowsMessage<IoError>(HasSubstr("none: there is no such run")));
  std::filesystem::create_directories(root_ / "empty");
  EXPECT_THAT([&] { data({"empty"}); }, ThrowsMessage<IoError>(HasSubstr("empty: not the folder of a run: it has no config.toml")));
  EXPECT_THAT([&] { data({}); }, ThrowsMessage<InvalidArgument>(HasSubstr("runs are none")));
  PageOptions options;
  options.map_points = 0;
  EXPECT_THAT([&] { data({"empty"}, options); }, ThrowsMessage<InvalidArgument>(HasSubstr("map_points is 0; it must be from 1 to 100000")));
}

TEST(FillPage, PutsTheDataInItsPlace) {
  const std::string page =
      R"(<html><script>q('[id="report-data"]>x')</script><script id="report-data" type="application/json">null</script></html>)";
  EXPECT_EQ(fill_page(page, "{}"),
            R"(<html><script>q('[id="report-data"]>x')</script><script id="report-data" type="application/json">{}</script></html>)");
  EXPECT_THAT([] { fill_page("<html></html>", "{}"); }, ThrowsMessage<InvalidArgument>(HasSubstr("the page has no place for the data")));
}

TEST(DataUri, IsBase64) {
  const auto uri = [](const std::string& text) { return jpeg_data_uri(std::as_bytes(std::span(text))); };
  EXPECT_EQ(uri(""), "data:image/jpeg;base64,");
  EXPECT_EQ(uri("M"), "data:image/jpeg;base64,TQ==");
  EXPECT_EQ(uri("Ma"), "data:image/jpeg;base64,TWE=");
  EXPECT_EQ(uri("Man\xff"), "data:image/jpeg;base64,TWFu/w==");
}

// As large as the test half of CUB-200-2011, with pictures that are harder to compress than birds.
TEST(PageSlow, OfTheSizeOfCubStaysUnder25Megabytes) {
  const auto root = std::filesystem::temp_directory_path() / ("smartmine-page-cub-" + std::to_string(getpid()));
  make_run(root, {.epochs = 20, .epochs_done = 20, .classes = 100, .images_of_class = 60, .dimension = 64, .side = 96, .noise = 60});
  const std::vector<std::filesystem::path> runs = {root};
  const PageData made = page_data(runs, {.tsne = {.iterations = 20}});
  std::filesystem::remove_all(root);
  RecordProperty("bytes", std::to_string(made.json.size()));
  EXPECT_LT(made.json.size(), 23'000'000U);  // the page itself takes up to 2 MB
  EXPECT_GT(made.json.size(), 4'000'000U);   // the pictures are in it
}

}  // namespace
}  // namespace smartmine
