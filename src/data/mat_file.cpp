#include "data/mat_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "smartmine/core/error.h"

namespace smartmine {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers of the file are read as they are");

constexpr std::size_t kHeaderBytes = 128;
constexpr std::size_t kTagBytes = 8;
constexpr std::size_t kMostUnpacked = std::size_t{1} << 26;  // bytes of a variable; the largest of Cars196 has a tenth of it
constexpr unsigned kDeepest = 8;                             // cells and structs within each other

// Types of data elements.
enum : std::uint32_t {
  kInt8 = 1,
  kUint8 = 2,
  kInt16 = 3,
  kUint16 = 4,
  kInt32 = 5,
  kUint32 = 6,
  kSingle = 7,
  kDouble = 9,
  kInt64 = 12,
  kUint64 = 13,
  kMatrix = 14,
  kCompressed = 15,
  kUtf8 = 16,
  kUtf16 = 17
};

// Classes of arrays.
enum : std::uint32_t { kCellClass = 1, kStructClass = 2, kCharClass = 4, kDoubleClass = 6, kUint64Class = 15 };

struct Element {
  std::uint32_t type = 0;
  std::span<const std::byte> bytes;
};

template <class T>
T load(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// Walks over data elements, one after another.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  bool at_end() const { return at_ == bytes_.size(); }
  std::size_t left() const { return bytes_.size() - at_; }

  [[noreturn]] void damaged(const std::string& what) const {
    throw IoError(fmt::format("{}: damaged: {}; download it again", path_, what));
  }

  Element next() {
    if (left() < kTagBytes) damaged("it ends inside a tag");
    const auto first = load<std::uint32_t>(bytes_, at_);
    if (first >> 16 != 0) {  // type and length share a word, and up to four bytes follow
      const Element small{first & 0xffff, bytes_.subspan(at_ + 4, std::min<std::size_t>(first >> 16, 4))};
      if (first >> 16 > 4) damaged("a short element says it is long");
      at_ += kTagBytes;
      return small;
    }
    const std::size_t length = load<std::uint32_t>(bytes_, at_ + 4);
    at_ += kTagBytes;
    if (length > left()) damaged(fmt::format("an element of {} bytes, of which {} are there", length, left()));
    const Element element{first, bytes_.subspan(at_, length)};
    at_ += length;
    if (first != kCompressed) at_ += std::min(left(), (8 - length % 8) % 8);  // the last may lack its padding
    return element;
  }

  Element next(std::uint32_t type, const char* what) {
    const Element element = next();
    if (element.type != type) damaged(fmt::format("{} are of type {}", what, element.type));
    return element;
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& path_;
  std::size_t at_ = 0;
};

std::size_t size_of(std::uint32_t type) {
  switch (type) {
    case kInt8:
    case kUint8:
    case kUtf8:
      return 1;
    case kInt16:
    case kUint16:
    case kUtf16:
      return 2;
    case kInt32:
    case kUint32:
    case kSingle:
      return 4;
    case kDouble:
    case kInt64:
    case kUint64:
      return 8;
    default:
      return 0;
  }
}

double number_at(const Element& element, std::size_t index) {
  const std::size_t at = index * size_of(element.type);
  switch (element.type) {
    case kInt8:
      return load<std::int8_t>(element.bytes, at);
    case kUint8:
    case kUtf8:
      return load<std::uint8_t>(element.bytes, at);
    case kInt16:
      return load<std::int16_t>(element.bytes, at);
    case kUint16:
    case kUtf16:
      return load<std::uint16_t>(element.bytes, at);
    case kInt32:
      return load<std::int32_t>(element.bytes, at);
    case kUint32:
      return load<std::uint32_t>(element.bytes, at);
    case kSingle:
      return static_cast<double>(load<float>(element.bytes, at));
    case kInt64:
      return static_cast<double>(load<std::int64_t>(element.bytes, at));
    case kUint64:
      return static_cast<double>(load<std::uint64_t>(element.bytes, at));
    default:
      return load<double>(element.bytes, at);
  }
}

void append_utf8(std::string& text, std::uint32_t letter) {
  if (letter < 0x80) {
    text += static_cast<char>(letter);
  } else if (letter < 0x800) {
    text += static_cast<char>(0xc0 | letter >> 6);
    text += static_cast<char>(0x80 | (letter & 0x3f));
  } else {
    text += static_cast<char>(0xe0 | letter >> 12);
    text += static_cast<char>(0x80 | (letter >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (letter & 0x3f));
  }
}

// An array without its tag.
class MatrixReader {
 public:
  MatrixReader(std::span<const std::byte> bytes, const std::string& path, unsigned depth)
      : cursor_(bytes, path), path_(path), depth_(depth) {}

  std::string read_name() {
    const Element flags = cursor_.next(kUint32, "the flags of an array");
    if (flags.bytes.size() < 8) cursor_.damaged("the flags of an array are too short");
    class_ = load<std::uint32_t>(flags.bytes, 0) & 0xff;
    complex_ = (load<std::uint32_t>(flags.bytes, 0) & 0x800) != 0;
    const Element dimensions = cursor_.next(kInt32, "the dimensions of an array");
    if (dimensions.bytes.size() < 8) cursor_.damaged("an array has fewer than two dimensions");
    count_ = 1;
    for (std::size_t i = 0; i + 4 <= dimensions.bytes.size(); i += 4) {
      const auto length = load<std::int32_t>(dimensions.bytes, i);
      // No array has more elements than the file has bytes, so products stay small.
      if (length < 0 || (length > 0 && count_ > kMostUnpacked / static_cast<std::size_t>(length)))
        cursor_.damaged("the dimensions of an array are too large");
      count_ *= static_cast<std::size_t>(length);
    }
    const Element name = cursor_.next(kInt8, "the name of an array");
    return {reinterpret_cast<const char*>(name.bytes.data()), name.bytes.size()};
  }

  MatValue read_value() {
    MatValue value;
    value.count = count_;
    if (class_ == kCharClass) {
      read_text(value);
    } else if (class_ >= kDoubleClass && class_ <= kUint64Class) {
      read_number(value);
    } else if (class_ == kCellClass) {
      value.kind = MatValue::Kind::kCell;
      read_parts(value, count_);
    } else if (class_ == kStructClass) {
      read_fields(value);
    }
    return value;
  }

 private:
  // Values of the array, of whatever type they were packed into.
  Element values() {
    const Element element = cursor_.next();
    const std::size_t bytes = size_of(element.type);
    if (bytes == 0) cursor_.damaged(fmt::format("values are of the unknown type {}", element.type));
    if (element.bytes.size() / bytes < count_)
      cursor_.damaged(fmt::format("an array of {} elements has {} values", count_, element.bytes.size() / bytes));
    return element;
  }

  void read_number(MatValue& value) {
    if (count_ == 0 || complex_) return;
    value.number = number_at(values(), 0);
    value.kind = MatValue::Kind::kNumber;
  }

  void read_text(MatValue& value) {
    value.kind = MatValue::Kind::kText;
    if (count_ == 0) return;
    // UTF-8 is as long as it is; other letters are one value each.
    const Element element = cursor_.next();
    const std::size_t bytes = size_of(element.type);
    if (bytes != 1 && bytes != 2) cursor_.damaged(fmt::format("text is of type {}", element.type));
    if (element.type == kUtf8) {
      value.text.assign(reinterpret_cast<const char*>(element.bytes.data()), element.bytes.size());
      return;
    }
    if (element.bytes.size() / bytes < count_)
      cursor_.damaged(fmt::format("text of {} letters has {}", count_, element.bytes.size() / bytes));
    for (std::size_t i = 0; i < count_; ++i)
      append_utf8(value.text, static_cast<std::uint32_t>(static_cast<std::int64_t>(number_at(element, i)) & 0xffff));
  }

  void read_parts(MatValue& value, std::size_t count) {
    if (depth_ >= kDeepest) cursor_.damaged("arrays lie too deep within each other");
    if (count > cursor_.left() / kTagBytes) cursor_.damaged(fmt::format("{} arrays are announced, and there is no room for them", count));
    value.parts.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      const Element part = cursor_.next(kMatrix, "parts of an array");
      if (part.bytes.empty()) {  // an empty array may be left out whole
        value.parts.emplace_back();
        continue;
      }
      MatrixReader reader(part.bytes, path_, depth_ + 1);
      reader.read_name();
      value.parts.push_back(reader.read_value());
    }
  }

  void read_fields(MatValue& value) {
    value.kind = MatValue::Kind::kStruct;
    const Element length = cursor_.next(kInt32, "the length of field names");
    if (length.bytes.size() < 4) cursor_.damaged("the length of field names is missing");
    const auto width = load<std::int32_t>(length.bytes, 0);
    const Element names = cursor_.next(kInt8, "field names");
    if (width < 1 || names.bytes.size() % static_cast<std::size_t>(width) != 0) cursor_.damaged("field names are cut");
    for (std::size_t at = 0; at < names.bytes.size(); at += static_cast<std::size_t>(width)) {
      const std::string_view name(reinterpret_cast<const char*>(names.bytes.data()) + at, static_cast<std::size_t>(width));
      value.fields.emplace_back(name.substr(0, name.find('\0')));
    }
    if (!value.fields.empty() && count_ > kMostUnpacked / value.fields.size()) cursor_.damaged("a struct is too large");
    read_parts(value, count_ * value.fields.size());
  }

  Cursor cursor_;
  const std::string& path_;
  unsigned depth_;
  std::uint32_t class_ = 0;
  bool complex_ = false;
  std::size_t count_ = 0;
};

std::vector<std::byte> unpacked(std::span<const std::byte> packed, const std::string& path) {
  const auto damaged = [&](const char* what) { return IoError(fmt::format("{}: damaged: {}; download it again", path, what)); };
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) throw std::bad_alloc();
  struct End {
    z_stream* stream;
    ~End() { inflateEnd(stream); }
  } const end{&stream};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));  // zlib only reads it
  stream.avail_in = static_cast<uInt>(packed.size());
  std::vector<std::byte> bytes;
  int state = Z_OK;
  while (state == Z_OK) {
    constexpr std::size_t kPiece = std::size_t{1} << 16;
    if (bytes.size() + kPiece > kMostUnpacked) throw damaged("a variable is larger than any of these files has");
    const std::size_t before = bytes.size();
    bytes.resize(before + kPiece);
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data() + before);
    stream.avail_out = kPiece;
    state = inflate(&stream, Z_NO_FLUSH);
    bytes.resize(bytes.size() - stream.avail_out);
    if (state == Z_OK && stream.avail_in == 0 && stream.avail_out != 0) break;  // cut
  }
  if (state != Z_STREAM_END) throw damaged("a packed variable cannot be unpacked");
  return bytes;
}

void check_header(std::span<const std::byte> file, const std::string& path) {
  if (file.size() < kHeaderBytes) throw IoError(fmt::format("{}: too short for a .mat file; download it again", path));
  const auto version = load<std::uint16_t>(file, kHeaderBytes - 4);
  const auto order = load<std::uint16_t>(file, kHeaderBytes - 2);
  constexpr std::uint16_t kSameOrder = 'M' << 8 | 'I', kOtherOrder = 'I' << 8 | 'M';
  if (order == kOtherOrder) throw IoError(fmt::format("{}: was written on a big-endian machine; save it anew in MATLAB", path));
  if (order != kSameOrder || (version != 0x0100 && version != 0x0200))
    throw IoError(fmt::format("{}: is not a .mat file of version 5; download it again", path));
  if (version == 0x0200) throw IoError(fmt::format("{}: is a .mat file of version 7.3, and version 5 is read; save it with -v7", path));
}

}  // namespace

const MatValue* MatValue::field(std::size_t element, std::string_view name) const {
  const auto found = std::find(fields.begin(), fields.end(), name);
  if (kind != Kind::kStruct || found == fields.end() || element >= count) return nullptr;
  return &parts[element * fields.size() + static_cast<std::size_t>(found - fields.begin())];
}

std::optional<MatValue> read_mat_variable(std::span<const std::byte> file, std::string_view name, const std::string& path) {
  check_header(file, path);
  Cursor cursor(file.subspan(kHeaderBytes), path);
  while (!cursor.at_end()) {
    Element element = cursor.next();
    std::vector<std::byte> bytes;  // behind the element, where it was packed
    if (element.type == kCompressed) {
      bytes = unpacked(element.bytes, path);
      element = Cursor(bytes, path).next();
    }
    if (element.type != kMatrix || element.bytes.empty()) continue;
    MatrixReader reader(element.bytes, path, 0);
    if (reader.read_name() == name) return reader.read_value();
  }
  return std::nullopt;
}

}  // namespace smartmine
