#include "run/log_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "smartmine/core/error.h"

namespace smartmine {
namespace {

/// Throws InvalidArgument unless `holds`.
void expect(bool holds, const std::string& what) {
  if (!holds) throw InvalidArgument(what);
}

bool is_number_or_null(const Json& value) { return value.is_number() || value.is_null(); }

bool all_numbers(const Json& values) {
  return std::all_of(values.begin(), values.end(), [](const Json& value) { return value.is_number(); });
}

// What a report relies on; further fields are passed on as they are.
void check_line(const Json& line) {
  expect(line.is_object(), "it is no object");
  expect(line.contains("epoch") && line["epoch"].is_number_integer() && line["epoch"].get<std::int64_t>() >= 0, "it names no epoch");
  for (const char* name : {"training_error", "validation_error", "kappa", "target_error", "loss", "learning_rate", "spread",
                           "images_per_second", "seconds", "images"})
    expect(!line.contains(name) || is_number_or_null(line[name]), fmt::format("{} is no number", name));
  for (const char* name : {"metrics", "stage_seconds", "loss_parts"})
    expect(!line.contains(name) || (line[name].is_object() && all_numbers(line[name])), fmt::format("{} are not numbers by name", name));
  for (const char* name : {"mining", "grouping", "lists"})
    expect(!line.contains(name) || line[name].is_object(), fmt::format("{} is no object", name));
  if (line.contains("distances")) {
    const Json& distances = line["distances"];
    expect(distances.is_object() && distances.contains("max") && distances["max"].is_number(), "distances have no max");
    for (const char* name : {"positive", "negative"})
      expect(distances.contains(name) && distances[name].is_array() && all_numbers(distances[name]),
             fmt::format("{} distances are not counts", name));
  }
  expect(!line.contains("evaluated_on") || line["evaluated_on"].is_string(), "evaluated_on is no text");
  const auto is_text = [](const Json& note) { return note.is_string(); };
  expect(!line.contains("notes") || (line["notes"].is_array() && std::all_of(line["notes"].begin(), line["notes"].end(), is_text)),
         "notes are no texts");
}

}  // namespace

std::string reason_of(const nlohmann::json::exception& error) {
  constexpr std::size_t kMost = 200;  // it may quote the text, however long that is
  const std::string text = error.what();
  const std::size_t end = text.find("] ");
  std::string reason = end == std::string::npos ? text : text.substr(end + 2);
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  if (reason.size() <= kMost) return reason;
  reason.resize(kMost);
  while (!reason.empty() && (static_cast<unsigned char>(reason.back()) & 0xc0) == 0x80) reason.pop_back();  // no half letter
  return reason + "...";
}

LogFile read_log_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  LogFile log;
  std::size_t number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::string why;
    try {
      Json json = Json::parse(text);
      check_line(json);
      if (!log.lines.empty() && json["epoch"] <= log.lines.back().json["epoch"])
        why = fmt::format("epoch {} comes after epoch {}", json["epoch"].dump(), log.lines.back().json["epoch"].dump());
      else
        log.lines.push_back({number, text, std::move(json)});
    } catch (const nlohmann::json::exception& error) {
      why = reason_of(error);
    } catch (const InvalidArgument& error) {
      why = error.what();
    }
    if (!why.empty()) log.bad.push_back({number, fmt::format("not a line of a run's log: {}", why)});
  }
  return log;
}

}  // namespace smartmine
