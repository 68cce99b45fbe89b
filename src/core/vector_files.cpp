#include "smartmine/core/vector_files.h"

#include <fmt/format.h>

#include <utility>

#include "core/vector_parsers.h"
#include "smartmine/core/error.h"
#include "smartmine/core/mapped_file.h"

namespace smartmine {
namespace {

/// Checks the number of values before Rows gets to see the pointer.
Rows rows_over(const Buffer<float>& values, std::size_t size, std::size_t dimension) {
  if (dimension != 0 && (values.size() / dimension != size || values.size() % dimension != 0))
    throw InvalidArgument(fmt::format("embeddings of {} rows by {} are given {} values", size, dimension, values.size()));
  return {values.data(), size, dimension};
}

FileBytes bytes_of(const MappedFile& file, const std::filesystem::path& path) {
  return {file.bytes(), path, [&file](std::size_t offset) { file.drop_before(offset); }};
}

}  // namespace

Embeddings::Embeddings(Buffer<float> values, std::size_t size, std::size_t dimension) : rows_(rows_over(values, size, dimension)) {
  owner_ = std::make_shared<const Buffer<float>>(std::move(values));  // moving a buffer leaves its values where they are
}

Embeddings read_embeddings(const std::filesystem::path& path, std::string_view what) {
  auto file = std::make_shared<const MappedFile>(path);
  file->expect_one_pass();
  ParsedMatrix matrix = parse_embeddings(bytes_of(*file, path), what);
  if (matrix.in_place == nullptr) return {std::move(matrix.converted), matrix.rows, matrix.columns};
  file->expect_many_reads();
  const Rows rows(matrix.in_place, matrix.rows, matrix.columns);
  return {std::move(file), rows};
}

NeighborIds read_ids(const std::filesystem::path& path) {
  const MappedFile file(path);
  file.expect_one_pass();
  return parse_ids(bytes_of(file, path));
}

std::vector<std::int64_t> read_labels(const std::filesystem::path& path) {
  const MappedFile file(path);
  file.expect_one_pass();
  return parse_labels(bytes_of(file, path));
}

}  // namespace smartmine
