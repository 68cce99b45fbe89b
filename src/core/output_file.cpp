#include "smartmine/core/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "core/system_error.h"
#include "smartmine/core/error.h"

namespace smartmine {
namespace {

constexpr std::string_view kPrefix = ".smartmine-";
constexpr std::string_view kEnding = ".tmp";
constexpr std::size_t kLargestWrite = std::size_t{1} << 30;  // some systems refuse more in one call

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

/// The process that a temporary file is of; 0: it is none.
pid_t writer_of(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  if (!name.starts_with(kPrefix) || !name.ends_with(kEnding)) return 0;
  pid_t writer = 0;
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), writer);
  return error == std::errc() && *end == '-' && writer > 0 ? writer : 0;
}

/// Whether nobody is at work on a temporary file any more: its writer is gone, and nobody on another machine, where there may be one of the
/// same number, holds it.
bool is_left_behind(const std::filesystem::path& file) {
  const pid_t writer = writer_of(file);
  if (writer == 0 || ::kill(writer, 0) == 0 || errno != ESRCH) return false;
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool free = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  ::close(descriptor);
  return free;
}

// Looking once is enough: what is left behind now was left before this process began.
void remove_left_behind_once(const std::filesystem::path& folder) {
  static std::mutex mutex;
  static std::set<std::filesystem::path> looked;
  const std::lock_guard<std::mutex> lock(mutex);
  if (looked.insert(folder).second) remove_left_behind(folder);
}

const char* hint_for(int reason) {
  switch (reason) {
    case ENOENT:
      return "create the folder first";
    case ENOTDIR:
      return "a part of the path is a file, not a folder";
    case EACCES:
    case EPERM:
    case EROFS:
      return "choose a folder that may be written to";
    case ENOSPC:
    case EDQUOT:
      return "free some space or choose another disk";
    case EFBIG:
      return "raise the limit on file sizes (ulimit -f) or choose another disk";
    case ENAMETOOLONG:
      return "choose a shorter name";
    default:
      return "check the disk and the path";
  }
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& destination) : destination_(destination), target_(destination) {
  if (!destination.has_filename())
    throw IoError(fmt::format("{}: cannot write: this names a folder; give a file name", destination.string()));
  std::error_code none;
  if (std::filesystem::is_symlink(target_, none)) {
    const std::filesystem::path followed = std::filesystem::canonical(target_, none);
    if (!none) target_ = followed;
  }
  check_destination();
  remove_left_behind_once(folder_of(target_));
  // The process id keeps names apart on one machine, O_EXCL where several machines share the folder.
  static std::atomic<unsigned> counter{0};
  constexpr int kAttempts = 1000;
  for (int attempt = 0; attempt < kAttempts && descriptor_ < 0; ++attempt) {
    const auto candidate = folder_of(target_) / fmt::format("{}{}-{}{}", kPrefix, ::getpid(), counter.fetch_add(1), kEnding);
    descriptor_ = ::open(candidate.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) {
      temporary_ = candidate;
      ::flock(descriptor_, LOCK_EX | LOCK_NB);  // for other machines to see; where it cannot be had, the process id must do
    } else if (errno != EEXIST && errno != EINTR) {
      fail("cannot write", errno);
    }
  }
  if (descriptor_ < 0) fail("cannot write", EEXIST);
}

OutputFile::~OutputFile() { close_and_remove(); }

void OutputFile::write(const void* data, std::size_t size) {
  require(descriptor_ >= 0, "OutputFile::write after finish");
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(descriptor_, next, std::min(size, kLargestWrite));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("cannot write", errno);
    }
    next += written;
    size -= static_cast<std::size_t>(written);
  }
}

std::shared_ptr<std::byte[]> OutputFile::append_mapped(std::size_t size) {
  require(descriptor_ >= 0, "OutputFile::append_mapped after finish");
  const off_t begin = ::lseek(descriptor_, 0, SEEK_END);
  if (begin < 0) fail("cannot write", errno);
  // Without room of its own a page that cannot be written later would end the process.
  int taken = ::fallocate(descriptor_, 0, begin, static_cast<off_t>(size));
  while (taken != 0 && errno == EINTR) taken = ::fallocate(descriptor_, 0, begin, static_cast<off_t>(size));
  if (taken != 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) return nullptr;
  if (taken != 0) fail("cannot write", errno);
  const std::size_t whole = static_cast<std::size_t>(begin) + size;
  void* const mapped = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (mapped == MAP_FAILED) {
    const int reason = errno;
    if (::ftruncate(descriptor_, begin) != 0) fail("cannot write", errno);
    if (reason == ENODEV || reason == EINVAL) return nullptr;
    fail("cannot write", reason);
  }
  if (::lseek(descriptor_, 0, SEEK_END) < 0) fail("cannot write", errno);
  const std::shared_ptr<std::byte[]> file(static_cast<std::byte*>(mapped), [whole](std::byte* begins) { ::munmap(begins, whole); });
  return {file, file.get() + begin};
}

void OutputFile::finish() {
  if (descriptor_ < 0) return;
  int synced = ::fsync(descriptor_);
  while (synced != 0 && errno == EINTR) synced = ::fsync(descriptor_);
  // Some file systems cannot sync; what they could not store they say when closing.
  if (synced != 0 && errno != EINVAL && errno != ENOTSUP && errno != ENOSYS) fail("cannot write", errno);
  const int descriptor = descriptor_;
  descriptor_ = -1;  // closed even when close reports an error
  if (::close(descriptor) != 0 && errno != EINTR) fail("cannot write", errno);
}

void OutputFile::commit() {
  finish();
  require(!temporary_.empty(), "OutputFile::commit twice");
  check_destination();
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot rename the finished file into place", errno);
  temporary_.clear();
  // Makes the new name last through a power cut; the file is complete either way, so failure here is no error.
  const int folder = ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
}

void OutputFile::check_destination() const {
  struct stat status {};
  if (::stat(target_.c_str(), &status) != 0) {
    if (errno == ENOENT) return;
    throw IoError(describe_failure(destination_, "cannot write", errno, hint_for(errno)));
  }
  // Renaming over a device or a pipe would replace it, which nobody means.
  if (S_ISDIR(status.st_mode)) throw IoError(fmt::format("{}: cannot write: this is a folder; give a file name", destination_.string()));
  if (!S_ISREG(status.st_mode))
    throw IoError(fmt::format("{}: cannot write: this is a device or a pipe; give the name of a plain file", destination_.string()));
}

void OutputFile::close_and_remove() noexcept {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void OutputFile::fail(const char* doing, int reason) {
  close_and_remove();
  throw IoError(describe_failure(destination_, doing, reason, hint_for(reason)));
}

void commit_all(std::initializer_list<std::reference_wrapper<OutputFile>> files) {
  for (OutputFile& file : files) file.finish();
  for (OutputFile& file : files) file.check_destination();
  for (OutputFile& file : files) file.commit();
}

std::size_t remove_left_behind(const std::filesystem::path& folder) noexcept {
  std::size_t removed = 0;
  try {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none))
      if (is_left_behind(entry.path()) && ::unlink(entry.path().c_str()) == 0) ++removed;
  } catch (const std::exception&) {  // a folder that cannot be looked through keeps what is in it
  }
  return removed;
}

bool is_temporary(const std::filesystem::path& file) { return writer_of(file) != 0; }

void make_folders(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw IoError(fmt::format("{}: cannot make this folder: {}; choose another place", path.string(), error.message()));
}

}  // namespace smartmine
