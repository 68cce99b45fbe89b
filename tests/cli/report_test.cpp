#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "program.h"
#include "report/made_run.h"

namespace smartmine::test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kBefore = "<!doctype html><html><body><script id=\"report-data\" type=\"application/json\">";
constexpr const char* kAfter = "</script></body></html>\n";

class Report : public ::testing::Test {
 protected:
  Report() {
    write_text(folder_ / "page.html", std::string(kBefore) + "null" + kAfter);
    make_run(folder_ / "run");
  }
  Outcome report(const std::vector<std::string>& arguments, const Surroundings& surroundings = {}) {
    std::vector<std::string> words = {"report", "--template", folder_ / "page.html", "--output", folder_ / "report.html", "--threads", "1"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return smartmine(words, surroundings);
  }
  nlohmann::json data() {
    const std::string text = read_text(folder_ / "report.html");
    EXPECT_THAT(text, AllOf(StartsWith(kBefore), EndsWith(kAfter)));
    const std::size_t begin = std::string(kBefore).size();
    return nlohmann::json::parse(text.substr(begin, text.size() - begin - std::string(kAfter).size()));
  }
  void expect_refused(int status, const std::string& text, const std::vector<std::string>& arguments) {
    const Outcome outcome = report(arguments);  // not quiet: nothing is said on the way, for all is noticed before the work
    EXPECT_EQ(outcome.status, status);
    EXPECT_THAT(outcome.err, AllOf(StartsWith("smartmine: "), HasSubstr(text)));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "report.html"));
  }

  TemporaryFolder folder_;
};

TEST_F(Report, OfRunsIsOneFile) {
  make_run(folder_ / "other", {.dataset = "glyphs", .epochs_done = 2});
  const Outcome outcome = report({folder_ / "run", folder_ / "other"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("report.html: "));
  const nlohmann::json json = data();
  ASSERT_EQ(json.at("runs").size(), 2U);
  EXPECT_EQ(json.at("runs").at(0).at("map").at("points"), 30);
  EXPECT_EQ(json.at("runs").at(1).at("finished"), false);
  EXPECT_THAT(json.at("generator").get<std::string>(), StartsWith("smartmine "));
}

TEST_F(Report, NamesWhatIsDamagedAndGoesOn) {
  write_text(folder_ / "run/log.jsonl", read_text(folder_ / "run/log.jsonl") + "{\"epoch\": 5, \"tr");
  const Outcome outcome = report({folder_ / "run", "--json", "--no-map"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("note: " + (folder_ / "run/log.jsonl") + ": line 6: not a line of a run's log"));
  const nlohmann::json said = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(said.at("problems").size(), 1U);
  EXPECT_EQ(said.at("bytes"), std::filesystem::file_size(folder_ / "report.html"));
  EXPECT_EQ(data().at("problems"), said.at("problems"));
  EXPECT_TRUE(data().at("runs").at(0).at("map").is_null());
}

TEST_F(Report, IsTheSameAtAnyNumberOfThreads) {
  ASSERT_EQ(report({folder_ / "run"}).status, 0);
  const std::string one = read_text(folder_ / "report.html");
  ASSERT_EQ(report({folder_ / "run", "--threads", "3"}).status, 2);  // given twice
  ASSERT_EQ(
      smartmine({"report", folder_ / "run", "--template", folder_ / "page.html", "--output", folder_ / "three.html", "--threads", "3"})
          .status,
      0);
  EXPECT_EQ(read_text(folder_ / "three.html"), one);
}

TEST_F(Report, RefusesBadInputInOneLine) {
  expect_refused(1, "nowhere: there is no such run", {folder_ / "nowhere"});
  std::filesystem::create_directories(folder_ / "empty");
  expect_refused(1, "empty: not the folder of a run: it has no config.toml", {folder_ / "empty"});
  expect_refused(2, "runs", {});
  expect_refused(2, "run twice; each must be given once", {folder_ / "run", folder_ / "./run"});
  expect_refused(2, "map-points", {folder_ / "run", "--map-points", "0"});
  write_text(folder_ / "page.html", "<html></html>");
  expect_refused(1, "the page has no place for the data", {folder_ / "run", "--no-map"});
  EXPECT_EQ(smartmine({"report", folder_ / "run", "--output", folder_ / "no/report.html"}).status, 1);
}

TEST_F(Report, StepsOverWhatIsNoRunAmongSeveral) {
  write_text(folder_ / "notes.txt", "a note");
  const Outcome outcome = smartmine(
      {"report", folder_ / "run", folder_ / "notes.txt", "--no-map", "--template", folder_ / "page.html", "--output", folder_ / "r.html"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("notes.txt: not the folder of a run: it has no config.toml; left out"));
}

TEST_F(Report, HasAPageOfItsOwnOrSaysWhatIsMissing) {
  const Outcome outcome = smartmine({"report", folder_ / "run", "--output", folder_ / "report.html", "--quiet"});
  if (outcome.status == 0) {
    EXPECT_THAT(read_text(folder_ / "report.html"), HasSubstr("\"generator\":\"smartmine "));
  } else {
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, HasSubstr("was built without the report page; install nodejs and npm"));
  }
}

}  // namespace
}  // namespace smartmine::test
