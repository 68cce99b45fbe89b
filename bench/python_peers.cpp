#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "methods.h"
#include "smartmine/core/npy.h"
#include "smartmine/core/vector_files.h"

namespace smartmine::bench {
namespace {

/// A folder that goes when this does.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "bench_neighbors-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder in " + name);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// What a command prints; throws if it fails.
std::string output_of(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start a process");
  std::string text;
  std::array<char, 4096> buffer{};
  while (const std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), count);
  const int status = pclose(pipe);
  if (WIFSIGNALED(status) || WEXITSTATUS(status) == 128 + 9) throw std::runtime_error("was killed, perhaps for want of memory");
  if (WEXITSTATUS(status) != 0) throw std::runtime_error(fmt::format("ended with status {}", WEXITSTATUS(status)));
  return text;
}

}  // namespace

Measurement measure_python(const Task& task, const std::string& python, const std::string& peer) {
  const Folder folder;
  const Rows& rows = task.rows();
  write_npy(folder / "rows.npy", std::span(rows.data(), rows.size() * rows.dimension()), {rows.size(), rows.dimension()});
  const std::string threads = std::to_string(task.threads);
  // Libraries read these when they are loaded. A thread that waits is no work done.
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"})
    setenv(name, threads.c_str(), 1);
  setenv("OMP_WAIT_POLICY", "PASSIVE", 1);
  const std::string told =
      output_of(fmt::format("{} {} {} {} --neighbors {} --recall {} --threads {} --sample {}", quoted(python),
                            quoted(SMARTMINE_BENCH_SCRIPTS "/peer_lists.py"), peer, quoted(folder / "rows.npy"), task.neighbors,
                            task.recall_target, threads, quoted(folder / "sample.npy")));
  const auto json = nlohmann::json::parse(told);
  if (json.contains("failure")) throw std::runtime_error(json.at("failure").get<std::string>());
  const std::vector<std::int64_t> ids = read_labels(folder / "sample.npy");  // the same rows as the truth's
  if (ids.size() != task.truth->samples() * task.neighbors) throw std::runtime_error("gave lists of another length");
  Measurement measured;
  measured.seconds = json.at("seconds");
  measured.processor_seconds = json.at("processor_seconds");
  measured.peak_memory_bytes = json.at("peak_memory_bytes");
  measured.settings = fmt::format("version {}, {}", json.at("version").get<std::string>(), json.at("settings").get<std::string>());
  if (json.contains("device_seconds")) measured.more["device_seconds"] = json.at("device_seconds");
  std::size_t sample = 0;  // they are asked for in order
  measured.recall = task.truth->recall([&](std::size_t) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(sample++ * task.neighbors);
    return std::vector<std::int64_t>(begin, begin + static_cast<std::ptrdiff_t>(task.neighbors));
  });
  return measured;
}

}  // namespace smartmine::bench
