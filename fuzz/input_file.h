#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>

namespace smartmine {

/// A file in memory for readers that take a path; written anew for each input.
class InputFile {
 public:
  explicit InputFile(const std::string& name) {
    std::string folder = (std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp") + std::string("/smartmine-fuzz-XXXXXX");
    if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no folder for inputs");
    folder_ = folder;
    path_ = folder_ / name;
  }
  ~InputFile() { std::filesystem::remove_all(folder_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& write(std::span<const std::uint8_t> bytes) const {
    const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ::write(file, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      throw std::runtime_error("an input cannot be written");
    ::close(file);
    return path_;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path folder_;
  std::filesystem::path path_;
};

/// What must hold of every message that refuses an input.
inline void expect_one_line(const std::string& message) {
  if (message.find('\n') != std::string::npos || message.size() > 2000) throw std::logic_error("a message is not one line: " + message);
}

}  // namespace smartmine
