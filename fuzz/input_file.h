#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>

namespace smartmine {

/// A file without a disk, for readers that take a path and read it as a stream; written anew for each input. Those that map it have
/// memory_file.h, which is faster and sees a reach beyond the end.
class InputFile {
 public:
  InputFile() : file_(::memfd_create("input", 0)) {
    if (file_ < 0) throw std::runtime_error("no file for inputs");
    path_ = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_);
  }
  ~InputFile() { ::close(file_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& write(std::span<const std::uint8_t> bytes) const {
    if (::pwrite(file_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()) ||
        (bytes.size() != size_ && ::ftruncate(file_, static_cast<off_t>(bytes.size())) != 0))
      throw std::runtime_error("an input cannot be written");
    size_ = bytes.size();
    return path_;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  int file_;
  std::filesystem::path path_;
  mutable std::size_t size_ = 0;
};

/// A folder that is gone when the fuzzer ends, for readers of a run.
class InputFolder {
 public:
  InputFolder() {
    std::string folder = (std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp") + std::string("/smartmine-fuzz-XXXXXX");
    if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no folder for inputs");
    path_ = folder;
  }
  ~InputFolder() { std::filesystem::remove_all(path_); }
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// The file of that name is `file` from now on.
  void link(const char* name, const InputFile& file) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::filesystem::create_symlink(file.path(), path_ / name);
  }

 private:
  std::filesystem::path path_;
};

/// What must hold of every message that refuses an input.
inline void expect_one_line(const std::string& message) {
  if (message.find('\n') != std::string::npos || message.size() > 2000) throw std::logic_error("a message is not one line: " + message);
}

}  // namespace smartmine
