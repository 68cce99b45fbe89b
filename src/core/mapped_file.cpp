#include "smartmine/core/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/system_error.h"
#include "smartmine/core/error.h"

namespace smartmine {
namespace {

const char* hint_for(int reason) {
  switch (reason) {
    case ENOENT:
    case ENOTDIR:
      return "check the path";
    case EACCES:
    case EPERM:
      return "check the file's permissions";
    case ENOMEM:
      return "it is larger than the memory that may be used (ulimit -v)";
    default:
      return "check the disk and the path";
  }
}

/// Closes on every way out.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Without O_NONBLOCK a pipe would wait for a writer here instead of being refused below.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};
  if (file.value < 0 || ::fstat(file.value, &status) != 0) throw IoError(describe_failure(path, "cannot read", errno, hint_for(errno)));
  if (S_ISDIR(status.st_mode)) throw IoError(fmt::format("{}: cannot read: this is a folder; give a file name", path.string()));
  if (!S_ISREG(status.st_mode))
    throw IoError(fmt::format("{}: cannot read: this is a device or a pipe; save to a plain file first", path.string()));
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;  // cannot be mapped
  void* const mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.value, 0);
  if (mapped == MAP_FAILED) throw IoError(describe_failure(path, "cannot read", errno, hint_for(errno)));
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::expect_one_pass() const {
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), size_, MADV_SEQUENTIAL);
}

void MappedFile::expect_many_reads() const {
  if (data_ == nullptr) return;
  ::madvise(const_cast<std::byte*>(data_), size_, MADV_NORMAL);  // takes expect_one_pass back
  ::madvise(const_cast<std::byte*>(data_), size_, MADV_WILLNEED);
}

void MappedFile::drop_before(std::size_t offset) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), offset / page * page, MADV_DONTNEED);
}

}  // namespace smartmine
