#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace smartmine::bench {

/// What one method took and reached.
struct Measurement {
  std::string method;
  std::string settings;  ///< In words, for the table.
  double seconds = 0;
  double processor_seconds = 0;  ///< Of all threads: what a machine with other work tells better.
  double recall = 0;
  std::size_t peak_memory_bytes = 0;
  std::map<std::string, double> more;  ///< Figures of this method alone, by name.
  std::string failure;                 ///< Why there are no figures; empty: there are.

  bool failed() const { return !failure.empty(); }
};

nlohmann::ordered_json to_json(const Measurement& measurement);

/// Runs `work` in a process of its own, so that its peak memory is its own and its end nobody else's. A method that throws
/// or dies comes back as a failure.
Measurement measure_in_child(const std::string& method, const std::function<Measurement()>& work);

/// Runs `work` in a process of its own, which leaves its results in shared memory. Throws std::runtime_error if it fails.
void do_in_child(const std::function<void()>& work);

}  // namespace smartmine::bench
