#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

// Runs programs as a shell would and looks at what they leave behind.
namespace smartmine::test {

/// A folder of its own that disappears with the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }
  /// Names of everything in it, hidden files too.
  std::set<std::string> names() const;

 private:
  std::filesystem::path path_;
};

struct Outcome {
  int status = -1;  ///< Exit status; 1000 + signal if a signal ended it.
  std::string out;
  std::string err;
};

struct Surroundings {
  std::map<std::string, std::string> environment = {};  ///< Added to this process's.
  std::uint64_t most_bytes_per_file = 0;                ///< 0: no limit.
  bool no_room_apart = false;                           ///< No file system sets room apart (fallocate).
  std::string out = {};                                 ///< Where stdout goes; empty: into Outcome.
};

/// A program under way.
class Process {
 public:
  Process(const std::vector<std::string>& command, const Surroundings& surroundings = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Waits until stderr holds `text`; false if the program ended or half a minute passed before.
  bool wait_for_error_text(const std::string& text);
  bool running();
  pid_t id() const { return id_; }
  void send(int signal);
  Outcome wait();

 private:
  TemporaryFolder folder_;
  std::string out_path_;
  pid_t id_ = -1;
  int raw_status_ = 0;
};

/// Runs `smartmine` with these arguments to its end.
Outcome smartmine(const std::vector<std::string>& arguments, const Surroundings& surroundings = {});

std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace smartmine::test
