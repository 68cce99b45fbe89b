#include "smartmine/core/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <string_view>

#include "smartmine/core/error.h"

namespace smartmine {
namespace {

static_assert(std::endian::native == std::endian::little, "values are read and written as they lie in memory");

constexpr std::array<unsigned char, 6> kMagic = {0x93, 'N', 'U', 'M', 'P', 'Y'};
constexpr std::size_t kMaxDimensions = 32;  // NumPy's own limit
constexpr std::size_t kAlignment = 64;
constexpr const char* kCutShort = "the file is cut short; copy or save it again";

struct TypeRow {
  NpyType type;
  std::string_view code;
  const char* name;
  std::size_t bytes;
};
constexpr std::array<TypeRow, 11> kTypes = {{{NpyType::kFloat16, "f2", "float16", 2},
                                             {NpyType::kFloat32, "f4", "float32", 4},
                                             {NpyType::kFloat64, "f8", "float64", 8},
                                             {NpyType::kInt8, "i1", "int8", 1},
                                             {NpyType::kInt16, "i2", "int16", 2},
                                             {NpyType::kInt32, "i4", "int32", 4},
                                             {NpyType::kInt64, "i8", "int64", 8},
                                             {NpyType::kUint8, "u1", "uint8", 1},
                                             {NpyType::kUint16, "u2", "uint16", 2},
                                             {NpyType::kUint32, "u4", "uint32", 4},
                                             {NpyType::kUint64, "u8", "uint64", 8}}};

const TypeRow& row_of(NpyType type) {
  const auto* const row = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& r) { return r.type == type; });
  require(row != kTypes.end(), "a .npy type without a row in its table");
  return *row;
}

/// `text` as part of a one-line message: short and printable.
std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  std::string out(text.substr(0, kLongest));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return "'" + out + (text.size() > kLongest ? "...'" : "'");
}

/// a * b, or nothing if it does not fit.
std::optional<std::size_t> product(std::size_t a, std::size_t b) {
  if (b != 0 && a > std::numeric_limits<std::size_t>::max() / b) return std::nullopt;
  return a * b;
}

/// Reads the header's Python dictionary: exactly the three known keys, each once, in any order.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::size_t offset, const std::string& name) : text_(text), offset_(offset), name_(name) {}

  void parse() {
    expect('{');
    while (!take('}')) {
      parse_entry();
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (at_ != text_.size()) fail("something follows the dictionary");
    if (!descr) fail("the key 'descr' is missing");
    if (!fortran_order) fail("the key 'fortran_order' is missing");
    if (!shape) fail("the key 'shape' is missing");
  }

  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::size_t>> shape;

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw IoError(fmt::format("{}: damaged .npy header at byte {}: {}; save the array again with np.save", name_, offset_ + at_, what));
  }

  void skip_spaces() {
    while (at_ < text_.size() && std::string_view(" \t\n\r\f").find(text_[at_]) != std::string_view::npos) ++at_;
  }

  bool take(char wanted) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  void expect(char wanted) {
    if (!take(wanted)) fail(fmt::format("expected '{}'", wanted));
  }

  void parse_entry() {
    const std::string key = parse_string("a key in quotes");
    expect(':');
    if (key == "descr" && !descr) {
      skip_spaces();
      if (at_ < text_.size() && (text_[at_] == '[' || text_[at_] == '('))
        throw IoError(fmt::format("{}: the array has a structured dtype; save one plain numeric field of it with np.save", name_));
      descr = parse_string("a dtype in quotes");
    } else if (key == "fortran_order" && !fortran_order) {
      fortran_order = parse_bool();
    } else if (key == "shape" && !shape) {
      shape = parse_shape();
    } else {
      fail(fmt::format("unknown or repeated key {}", printable(key)));
    }
  }

  std::string parse_string(const char* what) {
    skip_spaces();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail(fmt::format("expected {}", what));
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a quote is not closed");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    if (inside.find('\\') != std::string_view::npos) fail("expected no backslash in quotes");
    at_ = end + 1;
    return std::string(inside);
  }

  bool parse_bool() {
    skip_spaces();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return value;
    }
    fail("expected True or False");
  }

  std::vector<std::size_t> parse_shape() {
    std::vector<std::size_t> lengths;
    expect('(');
    while (!take(')')) {
      if (lengths.size() == kMaxDimensions) fail(fmt::format("more than {} dimensions", kMaxDimensions));
      lengths.push_back(parse_length());
      if (take(',')) continue;
      if (lengths.size() == 1) fail("expected ',' after the only length of the shape");
      expect(')');
      break;
    }
    return lengths;
  }

  std::size_t parse_length() {
    skip_spaces();
    if (at_ < text_.size() && text_[at_] == '-') fail("a length of the shape is negative");
    const std::size_t start = at_;
    std::size_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      const std::optional<std::size_t> tenfold = product(value, 10);
      const auto digit = static_cast<std::size_t>(text_[at_] - '0');
      if (!tenfold || *tenfold > std::numeric_limits<std::size_t>::max() - digit) fail("a length of the shape is too large for any file");
      value = *tenfold + digit;
    }
    if (at_ == start) fail("expected a length, a whole number");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // as Python 2 wrote it
    return value;
  }

  std::string_view text_;
  std::size_t offset_;
  const std::string& name_;
  std::size_t at_ = 0;
};

NpyType type_of(const std::string& descr, const std::string& name) {
  constexpr const char* kExpected = "expected float16, float32, float64 or an integer type";
  const char order = descr.empty() ? '\0' : descr[0];
  const std::string_view code = std::string_view(descr).substr(std::min<std::size_t>(descr.size(), 1));
  const auto* const row = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& r) { return r.code == code; });
  if (row != kTypes.end()) {
    if (order == '<' || order == '=' || (order == '|' && row->bytes == 1)) return row->type;
    if (order == '>')
      throw IoError(fmt::format("{}: the values are big-endian ({}), little-endian is needed; convert with array.astype('<{}')", name,
                                printable(descr), code));
  }
  if (code.starts_with('U') || code.starts_with('S') || code == "O")
    throw IoError(
        fmt::format("{}: the values are {} ({}), numbers are needed; labels become numbers by np.unique(labels, return_inverse=True)[1]",
                    name, code == "O" ? "Python objects" : "text", printable(descr)));
  throw IoError(fmt::format("{}: unsupported dtype {}, {}; convert with array.astype", name, printable(descr), kExpected));
}

template <class T>
void write_array(OutputFile& file, std::span<const T> values, const std::vector<std::size_t>& shape, NpyType type) {
  std::optional<std::size_t> expected = 1;
  for (const std::size_t length : shape) expected = expected ? product(*expected, length) : expected;
  if (expected != values.size())
    throw InvalidArgument(
        fmt::format("shape is {} but there are {} values; their number must be the shape's product", shape_text(shape), values.size()));
  write_npy_header(file, type, shape);
  file.write(values.data(), values.size_bytes());
}

}  // namespace

const char* to_string(NpyType type) { return row_of(type).name; }

std::string shape_text(const std::vector<std::size_t>& shape) {
  return shape.size() == 1 ? fmt::format("({},)", shape[0]) : fmt::format("({})", fmt::join(shape, ", "));
}

bool is_npy(std::span<const std::byte> file) {
  return file.size() >= kMagic.size() &&
         std::equal(kMagic.begin(), kMagic.end(), file.begin(), [](unsigned char a, std::byte b) { return std::byte{a} == b; });
}

NpyHeader parse_npy_header(std::span<const std::byte> file, const std::string& name) {
  if (file.empty()) throw IoError(fmt::format("{}: the file is empty; expected a .npy array", name));
  if (!is_npy(file)) throw IoError(fmt::format("{}: not a .npy file: it does not start with \\x93NUMPY; write it with np.save", name));
  const auto byte_at = [&](std::size_t i) { return std::to_integer<std::size_t>(file[i]); };
  constexpr std::size_t kVersionEnd = 8;
  if (file.size() < kVersionEnd)
    throw IoError(fmt::format("{}: ends at byte {}, before the .npy version: {}", name, file.size(), kCutShort));
  const std::size_t major = byte_at(6);
  if (major < 1 || major > 3 || byte_at(7) != 0)
    throw IoError(fmt::format("{}: .npy version {}.{}, expected 1.0, 2.0 or 3.0; write it with np.save", name, major, byte_at(7)));
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  const std::size_t text_offset = kVersionEnd + length_bytes;
  if (file.size() < text_offset)
    throw IoError(fmt::format("{}: ends at byte {}, before the .npy header: {}", name, file.size(), kCutShort));
  std::size_t text_size = 0;
  for (std::size_t i = length_bytes; i-- > 0;) text_size = text_size << 8 | byte_at(kVersionEnd + i);
  if (text_size > file.size() - text_offset)
    throw IoError(fmt::format("{}: ends at byte {}, inside the .npy header of {} bytes: {}", name, file.size(), text_size, kCutShort));

  HeaderParser parser({reinterpret_cast<const char*>(file.data()) + text_offset, text_size}, text_offset, name);
  parser.parse();
  NpyHeader header;
  header.type = type_of(*parser.descr, name);
  header.shape = std::move(*parser.shape);
  header.data_offset = text_offset + text_size;
  const std::string array = fmt::format("{} of {}", shape_text(header.shape), to_string(header.type));
  if (*parser.fortran_order)
    throw IoError(fmt::format(
        "{}: the array {} is in Fortran order, C order is needed; save it with np.save(path, np.ascontiguousarray(array))", name, array));

  std::optional<std::size_t> values = 1;
  if (std::find(header.shape.begin(), header.shape.end(), 0U) != header.shape.end()) values = 0;
  for (const std::size_t length : header.shape) values = values ? product(*values, length) : values;
  const std::optional<std::size_t> expected = values ? product(*values, row_of(header.type).bytes) : values;
  const std::size_t found = file.size() - header.data_offset;
  if (!expected)
    throw IoError(
        fmt::format("{}: the header claims {}, more than any file holds, but {} bytes follow; save the array again", name, array, found));
  if (found < *expected)
    throw IoError(fmt::format("{}: {} needs {} bytes of data but {} follow the header: {}", name, array, *expected, found, kCutShort));
  if (found > *expected)
    throw IoError(fmt::format("{}: {} needs {} bytes of data but {} follow the header; save one array alone with np.save", name, array,
                              *expected, found));
  header.values = *values;
  return header;
}

void write_npy_header(OutputFile& file, NpyType type, const std::vector<std::size_t>& shape) {
  std::string text = fmt::format("{{'descr': '<{}', 'fortran_order': False, 'shape': {}, }}", row_of(type).code, shape_text(shape));
  constexpr std::size_t kPrefix = 10;  // magic, version, length
  text.append(kAlignment - 1 - (kPrefix + text.size()) % kAlignment, ' ');
  text.push_back('\n');
  require(text.size() <= 0xffff, "a .npy header too long for version 1");
  std::string header(kMagic.begin(), kMagic.end());
  header += {'\1', '\0', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  header += text;
  file.write(header.data(), header.size());
}

void write_npy(OutputFile& file, std::span<const float> values, const std::vector<std::size_t>& shape) {
  write_array(file, values, shape, NpyType::kFloat32);
}

void write_npy(OutputFile& file, std::span<const std::int32_t> values, const std::vector<std::size_t>& shape) {
  write_array(file, values, shape, NpyType::kInt32);
}

void write_npy(OutputFile& file, std::span<const std::int64_t> values, const std::vector<std::size_t>& shape) {
  write_array(file, values, shape, NpyType::kInt64);
}

void write_npy(OutputFile& file, std::span<const std::uint32_t> ids, const std::vector<std::size_t>& shape) {
  // Below 2^31 both types have the same bits, so the ids go out as they are.
  constexpr std::uint32_t kLargest = std::numeric_limits<std::int32_t>::max();
  const auto large = std::find_if(ids.begin(), ids.end(), [](std::uint32_t id) { return id > kLargest; });
  if (large != ids.end())
    throw InvalidArgument(fmt::format("id at position {} is {}; ids must be at most {}", large - ids.begin(), *large, kLargest));
  write_array(file, ids, shape, NpyType::kInt32);
}

}  // namespace smartmine
