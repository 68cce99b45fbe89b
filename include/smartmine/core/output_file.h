#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>

namespace smartmine {

/// A file that appears whole or not at all. It is written under a temporary name in the destination's folder and renamed
/// by `commit`; without a commit the destructor removes it. Everything that can fail throws IoError with path, reason and
/// hint: a missing or read-only folder and a destination that is not a plain file already when opening, a full disk when
/// writing or committing. An existing destination is replaced; through a symbolic link, its target is. The first file a process writes into
/// a folder takes away the temporary files that killed processes left there.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& destination);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// The path that was asked for.
  const std::filesystem::path& destination() const { return destination_; }

  /// Appends `size` bytes. Not buffered: prefer few large writes.
  void write(const void* data, std::size_t size);

  /// Appends `size` bytes that are still to be filled in, and returns memory that stands for them: what is written there goes to the disk
  /// by and by, so that it may be more than memory holds. Room on the disk is taken at once. Null, and nothing appended, where the file
  /// system cannot do that. What is written after `finish` may be lost. The memory outlives the file's object.
  std::shared_ptr<std::byte[]> append_mapped(std::size_t size);

  /// Brings everything to the disk and closes, still under the temporary name. Writing is over; `commit` is left.
  void finish();

  /// Finishes if need be and puts the file in its place.
  void commit();

 private:
  friend void commit_all(std::initializer_list<std::reference_wrapper<OutputFile>> files);
  void check_destination() const;
  void close_and_remove() noexcept;
  [[noreturn]] void fail(const char* doing, int reason);

  std::filesystem::path destination_;
  std::filesystem::path target_;     // destination_ with a symbolic link followed
  std::filesystem::path temporary_;  // empty: nothing to remove
  int descriptor_ = -1;
};

/// Commits files that belong together: all are finished, and all destinations looked at, before the first is renamed.
void commit_all(std::initializer_list<std::reference_wrapper<OutputFile>> files);

/// Whether a file has the name of a temporary one.
bool is_temporary(const std::filesystem::path& file);

/// Removes the temporary files in a folder whose writers are gone, and says how many these were.
std::size_t remove_left_behind(const std::filesystem::path& folder) noexcept;

/// Makes a folder and those above it where they are missing. Throws IoError with path, reason and hint.
void make_folders(const std::filesystem::path& path);

}  // namespace smartmine
