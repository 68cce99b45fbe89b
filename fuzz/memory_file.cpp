#include "memory_file.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "smartmine/core/error.h"
#include "smartmine/core/mapped_file.h"

// Stands in for src/core/mapped_file.cpp.
namespace smartmine {
namespace {

std::map<std::string, std::vector<std::uint8_t>>& files() {
  static std::map<std::string, std::vector<std::uint8_t>> all;
  return all;
}

}  // namespace

void put_in_memory(const std::filesystem::path& name, std::span<const std::uint8_t> bytes) {
  files()[name.native()].assign(bytes.begin(), bytes.end());
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const auto found = files().find(path.native());
  if (found == files().end()) throw IoError(path.string() + ": cannot read: there is no such file");
  size_ = found->second.size();
  if (size_ == 0) return;
  auto* const copy = new std::byte[size_];
  std::ranges::copy(std::as_bytes(std::span(found->second)), copy);
  data_ = copy;
}

MappedFile::~MappedFile() { delete[] data_; }

void MappedFile::expect_one_pass() const {}
void MappedFile::expect_many_reads() const {}
void MappedFile::drop_before(std::size_t) const {}

}  // namespace smartmine
