#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "smartmine/run/epoch_record.h"

namespace smartmine {

using Json = nlohmann::ordered_json;

/// A line of log.jsonl.
struct LogLine {
  std::size_t number = 0;
  std::string text;
  Json json;  ///< An object with an epoch; what it has of the fields that people look at is of their kinds.
};

/// A line that is none, and why.
struct BadLogLine {
  std::size_t number = 0;
  std::string why;
};

struct LogFile {
  std::vector<LogLine> lines;  ///< Their epochs ascend.
  std::vector<BadLogLine> bad;
};

/// Reads a run's log.jsonl; one that is not there is empty.
LogFile read_log_file(const std::filesystem::path& path);

/// All that a line says. Throws InvalidArgument naming what it lacks.
EpochRecord record_of(const Json& json);

/// What a JSON library says of a text, without the name in brackets that its messages begin with.
std::string reason_of(const nlohmann::json::exception& error);

}  // namespace smartmine
