#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "model/tensor_types.h"
#include "smartmine/core/error.h"
#include "smartmine/core/mapped_file.h"
#include "smartmine/core/output_file.h"
#include "smartmine/model/weights.h"

namespace smartmine {
namespace {

// The format: eight bytes with the length of a JSON header, the header, and the tensors' bytes without gaps.
using nlohmann::json;
static_assert(std::endian::native == std::endian::little, "values are read and written as they lie in memory");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // what the format's own reader allows
constexpr const char* kHint = "save the weights again or fetch the file anew";

struct Entry {
  std::string name;
  const TensorType* type = nullptr;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // in the bytes after the header
};

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : name_(path.string()), file_(path) {}

  NamedTensors read() {
    const json header = parse_header();
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items())
      if (name != "__metadata__") entries.push_back(parse_entry(name, value));
    check_layout(entries);
    NamedTensors tensors;
    for (const Entry& entry : entries) {
      torch::Tensor tensor = torch::empty(entry.shape, entry.type->type);
      if (entry.end > entry.begin) std::memcpy(tensor.data_ptr(), data_.data() + entry.begin, entry.end - entry.begin);
      tensors.emplace(entry.name, as_weights(tensor));
    }
    return tensors;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw IoError(fmt::format("{}: {}; {}", name_, what, kHint)); }
  [[noreturn]] void fail(const std::string& tensor, const std::string& what) const {
    fail(fmt::format("tensor {}: {}", in_quotes(tensor), what));
  }

  json parse_header() {
    const auto bytes = file_.bytes();
    if (bytes.size() < kLengthBytes)
      fail(fmt::format("not a safetensors file: it has {} bytes, its header's length alone takes 8", bytes.size()));
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    if (length > kLongestHeader || length > bytes.size() - kLengthBytes)
      fail(fmt::format("not a safetensors file, or cut short: a header of {} bytes is announced at byte 0, but {} follow", length,
                       bytes.size() - kLengthBytes));
    data_ = bytes.subspan(kLengthBytes + length);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
    std::set<std::string> names;
    const auto refuse_twins = [&](int depth, json::parse_event_t event, json& value) {
      if (depth == 1 && event == json::parse_event_t::key && !names.insert(value.get<std::string>()).second)
        fail(value.get<std::string>(), "it is in the header twice");
      // Nothing in a header nests deeper than a tensor's shape.
      if (depth > 3) fail("damaged safetensors header: it nests too deep");
      return true;
    };
    try {
      json header = json::parse(text.begin(), text.end(), refuse_twins);
      if (!header.is_object()) fail("damaged safetensors header at byte 8: it is not an object");
      return header;
    } catch (const json::parse_error& error) {
      fail(fmt::format("damaged safetensors header at byte {}: it is not JSON", kLengthBytes + error.byte));
    } catch (const json::exception&) {
      fail("damaged safetensors header: it holds a number that is too large");
    }
  }

  std::uint64_t number(const std::string& tensor, const char* field, const json& value) const {
    if (!value.is_number_unsigned()) fail(tensor, fmt::format("{} holds something that is not a whole number from 0", field));
    return value.get<std::uint64_t>();
  }

  Entry parse_entry(const std::string& name, const json& value) const {
    Entry entry;
    entry.name = name;
    if (!value.is_object()) fail(name, "its entry in the header is not an object");
    const auto field = [&](const char* key) {
      const auto found = value.find(key);
      if (found == value.end()) fail(name, fmt::format("its entry in the header has no {}", key));
      return *found;
    };
    const json type = field("dtype");
    if (!type.is_string()) fail(name, "dtype is not a string");
    for (const TensorType& known : kTensorTypes)
      if (known.safetensors == type.get<std::string>()) entry.type = &known;
    if (entry.type == nullptr)
      fail(name, fmt::format("unsupported dtype {}, expected F32, F16, BF16, F64 or an integer type", in_quotes(type.get<std::string>())));
    const json shape = field("shape");
    if (!shape.is_array() || shape.size() > 64) fail(name, "shape is not an array of at most 64 lengths");
    for (const json& length : shape) {
      const std::uint64_t value_of = number(name, "shape", length);
      if (value_of > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        fail(name, "shape holds a length too large for any file");
      entry.shape.push_back(static_cast<std::int64_t>(value_of));
    }
    const json offsets = field("data_offsets");
    if (!offsets.is_array() || offsets.size() != 2) fail(name, "data_offsets is not a pair");
    entry.begin = number(name, "data_offsets", offsets[0]);
    entry.end = number(name, "data_offsets", offsets[1]);
    if (entry.begin > entry.end || entry.end > data_.size())
      fail(name, fmt::format("data_offsets [{}, {}] lie outside the file's {} bytes of data", entry.begin, entry.end, data_.size()));
    const std::optional<std::int64_t> count = element_count(entry.shape);
    const std::uint64_t bytes = entry.end - entry.begin;
    if (!count || bytes % entry.type->bytes != 0 || static_cast<std::uint64_t>(*count) != bytes / entry.type->bytes)
      fail(name, fmt::format("[{}] of {} does not take the {} bytes that data_offsets give it", fmt::join(entry.shape, ", "),
                             entry.type->safetensors, bytes));
    return entry;
  }

  void check_layout(std::vector<Entry>& entries) const {
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
    std::uint64_t end = 0;
    for (const Entry& entry : entries) {
      if (entry.begin < end)
        fail(entry.name, fmt::format("its data at byte {} overlap those of another tensor, which end at {}", entry.begin, end));
      if (entry.begin > end)
        fail(entry.name, fmt::format("its data start at byte {}, but bytes from {} belong to nobody", entry.begin, end));
      end = entry.end;
    }
    if (end != data_.size()) fail(fmt::format("{} bytes after the last tensor belong to nobody", data_.size() - end));
  }

  std::string name_;
  MappedFile file_;
  std::span<const std::byte> data_;
};

}  // namespace

NamedTensors read_safetensors(const std::filesystem::path& path) { return Reader(path).read(); }

void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors, const std::map<std::string, std::string>& metadata) {
  // By falling width and then by name, as the format's own writer does, so that every tensor lies at a multiple of its width.
  struct Item {
    const std::string* name;
    const TensorType* type;
    torch::Tensor tensor;
  };
  std::vector<Item> items;
  for (const auto& [name, tensor] : tensors) {
    if (name == "__metadata__") throw InvalidArgument("a tensor is called '__metadata__'; the format keeps that name for itself");
    if (!tensor.defined()) throw InvalidArgument(fmt::format("tensor {} is undefined; it must have a value", in_quotes(name)));
    const auto* const type = std::find_if(std::begin(kTensorTypes), std::end(kTensorTypes),
                                          [held = tensor.scalar_type()](const TensorType& t) { return t.type == held; });
    if (type == std::end(kTensorTypes))
      throw InvalidArgument(fmt::format("tensor {} is of type {}; it must be a real number, an integer or bool", in_quotes(name),
                                        torch::toString(tensor.scalar_type())));
    items.push_back({&name, type, tensor});
  }
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.type->bytes > b.type->bytes; });
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const Item& item : items) {
    const std::uint64_t end = offset + static_cast<std::uint64_t>(item.tensor.numel()) * item.type->bytes;
    header[*item.name] = {{"dtype", item.type->safetensors}, {"shape", item.tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.is_null() ? "{}" : header.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  if (text.size() > kLongestHeader)
    throw InvalidArgument(fmt::format("the header has {} bytes; it must have at most {}", text.size(), kLongestHeader));
  OutputFile file(path);
  const std::uint64_t length = text.size();
  std::string head(reinterpret_cast<const char*>(&length), sizeof length);
  head += text;
  file.write(head.data(), head.size());
  for (const Item& item : items) {
    const torch::Tensor values = item.tensor.detach().to(torch::kCPU).contiguous();
    if (values.numel() > 0) file.write(values.data_ptr(), static_cast<std::size_t>(values.numel()) * item.type->bytes);
  }
  file.commit();
}

}  // namespace smartmine
