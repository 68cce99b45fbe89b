#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

// What the value of an option may be, and in plain words what it is not. CLI11's own range checks would show a type and a
// range in a notation of their own, and let a minus sign wrap around.
namespace smartmine::app {

CLI::Validator whole_number(std::uint64_t low, std::uint64_t high);
/// Above 0, finite.
CLI::Validator positive_number();
/// The same, or this word.
CLI::Validator positive_number_or(const std::string& word);
/// Above 0, below 1 or at most 1.
CLI::Validator fraction(bool one_allowed);
/// From 0 to 1.
CLI::Validator share();
/// 0 or more, finite.
CLI::Validator not_negative();
CLI::Validator number_from(double low, double high);
/// 0, or from `low` to `high`.
CLI::Validator zero_or(double low, double high);
CLI::Validator one_of(const std::vector<std::string>& names);

}  // namespace smartmine::app
