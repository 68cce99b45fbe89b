#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/vector_parsers.h"
#include "smartmine/core/error.h"

namespace smartmine {

/// Names the readers are tried under; the first byte of an input picks one.
inline constexpr std::array<const char*, 7> kFuzzNames = {"e.npy", "e.fvecs", "e.fbin", "i.npy", "i.ivecs", "l.npy", "e.txt"};

/// Reads `input` as a file of the kind its first byte says. Returns true if it was accepted, false if it was refused as
/// files must be: with an IoError of one line that starts with the name. Anything else is thrown on.
/// Every value of an accepted file is looked at, so that a sanitizer sees a reach beyond the bytes.
inline bool read_anything(std::span<const std::uint8_t> input) {
  if (input.empty()) return false;
  const std::string name = kFuzzNames[input[0] % kFuzzNames.size()];
  // A copy of the exact size: one byte too far is then an error, and the values are aligned as in a mapped file.
  const std::vector<std::uint8_t> copy(input.begin() + 1, input.end());
  const FileBytes file{std::as_bytes(std::span(copy)), name, {}};
  const auto must = [](bool holds, const char* what) {
    if (!holds) throw std::logic_error(what);
  };
  double sum = 0;
  std::size_t count = 0;
  try {
    if (name[0] == 'e') {
      const ParsedMatrix matrix = parse_embeddings(file);
      const Rows rows(matrix.in_place != nullptr ? matrix.in_place : matrix.converted.data(), matrix.rows, matrix.columns);
      must(matrix.in_place != nullptr || matrix.converted.size() == matrix.rows * matrix.columns,
           "converted values do not fill the matrix");
      for (std::size_t i = 0; i < rows.size(); ++i)
        for (const float value : rows.row(i)) sum += static_cast<double>(value);
      count = rows.size() * rows.dimension();
    } else if (name[0] == 'i') {
      const NeighborIds ids = parse_ids(file);
      must(ids.ids.size() == ids.rows * ids.columns && !ids.ids.empty(), "ids do not fill the matrix");
      for (const std::uint32_t id : ids.ids) must(id <= 0x7fffffff, "an id is too large");
      count = ids.ids.size();
    } else {
      count = parse_labels(file).size();
    }
  } catch (const IoError& refused) {
    const std::string message = refused.what();
    must(message.starts_with(name + ": "), "a message does not start with the name");
    must(message.find('\n') == std::string::npos && message.size() < 1000, "a message is not one line");
    return false;
  }
  must(count > 0 && count <= copy.size(), "more values than bytes");
  volatile double keep = sum;  // the loop above must not be optimised away
  (void)keep;
  return true;
}

}  // namespace smartmine
