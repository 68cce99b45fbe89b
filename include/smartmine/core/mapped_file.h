#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace smartmine {

/// A plain file mapped into memory for reading. Concurrent reads are safe. The file must not shrink meanwhile.
class MappedFile {
 public:
  /// Throws IoError with path, reason and hint if `path` is not a plain file that can be read.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  /// Hints to the system; they never change what is read.
  void expect_one_pass() const;                ///< Every byte once, in order.
  void expect_many_reads() const;              ///< All of it, soon and again.
  void drop_before(std::size_t offset) const;  ///< Bytes before `offset` need not stay in memory.

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace smartmine
