#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "model/tensor_types.h"
#include "smartmine/core/error.h"
#include "smartmine/core/mapped_file.h"
#include "smartmine/model/weights.h"

namespace smartmine {
namespace {

// A .caffemodel is a NetParameter of caffe.proto in protobuf's wire format: fields of a number and a kind, nested by their length. Only the
// layers' names, kinds and blobs matter; all else is stepped over.

using Bytes = std::span<const std::byte>;

enum Kind : std::uint64_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };
namespace field {
// The numbers in caffe.proto.
constexpr std::uint64_t kNetOldLayer = 2, kNetLayer = 100;
constexpr std::uint64_t kOldName = 4, kOldType = 5, kOldBlob = 6;
constexpr std::uint64_t kName = 1, kType = 2, kBlob = 7;
constexpr std::uint64_t kBlobData = 5, kBlobShape = 7, kBlobDoubles = 8;
}  // namespace field
constexpr std::uint64_t kOldInnerProduct = 14;  // of V1LayerParameter.LayerType

struct Field {
  std::uint64_t number = 0;
  Kind kind = kVarint;
  std::uint64_t value = 0;  // of a varint
  Bytes bytes;              // of all others
};

class Message {
 public:
  Message(const std::string& name, Bytes bytes, std::size_t base) : name_(name), bytes_(bytes), base_(base) {}

  /// The next field; nothing at the end.
  std::optional<Field> next() {
    if (at_ == bytes_.size()) return std::nullopt;
    Field result;
    const std::uint64_t tag = varint();
    result.number = tag >> 3;
    result.kind = static_cast<Kind>(tag & 7);
    if (result.number == 0) fail("a field without a number");
    switch (result.kind) {
      case kVarint:
        result.value = varint();
        break;
      case kFixed64:
        result.bytes = take(8);
        break;
      case kFixed32:
        result.bytes = take(4);
        break;
      case kLength:
        result.bytes = take(varint());
        break;
      default:
        fail(fmt::format("a field of the unknown kind {}", tag & 7));
    }
    return result;
  }
  /// A field of ours as a message.
  Message inner(const Field& field) const {
    if (field.kind != kLength) fail(fmt::format("field {} is no message", field.number));
    return {name_, field.bytes, base_ + static_cast<std::size_t>(field.bytes.data() - bytes_.data())};
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = std::to_integer<std::uint64_t>(take(1)[0]);
      value |= (byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    fail("a number over 64 bits");
  }
  bool at_end() const { return at_ == bytes_.size(); }
  [[noreturn]] void fail(const std::string& what) const {
    throw IoError(fmt::format("{}: byte {}: {}; not a .caffemodel, or damaged: fetch it again", name_, base_ + at_, what));
  }

 private:
  Bytes take(std::uint64_t count) {
    if (count > bytes_.size() - at_) fail(fmt::format("{} bytes are announced, {} are left", count, bytes_.size() - at_));
    at_ += count;
    return bytes_.subspan(at_ - count, count);
  }

  const std::string& name_;
  Bytes bytes_;
  std::size_t base_, at_ = 0;
};

/// Values of one kind, packed or one by one.
template <class T>
void append(std::vector<T>& values, const Field& field, const Message& message) {
  if (field.kind == kVarint || field.bytes.size() % sizeof(T) != 0)
    message.fail(fmt::format("values of {} bytes are not of {} each", field.bytes.size(), sizeof(T)));
  const std::size_t before = values.size();
  values.resize(before + field.bytes.size() / sizeof(T));
  if (!field.bytes.empty()) std::memcpy(values.data() + before, field.bytes.data(), field.bytes.size());
}

torch::Tensor read_blob(Message blob) {
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<std::int64_t> shape;
  std::array<std::int64_t, 4> old_shape = {0, 0, 0, 0};  // num, channels, height, width
  bool is_old = false;
  while (const auto field = blob.next()) {
    if (field->number >= 1 && field->number <= old_shape.size() && field->kind == kVarint) {
      old_shape[field->number - 1] = static_cast<std::int64_t>(field->value);
      is_old = true;
    } else if (field->number == field::kBlobData) {
      append(floats, *field, blob);
    } else if (field->number == field::kBlobDoubles) {
      append(doubles, *field, blob);
    } else if (field->number == field::kBlobShape) {
      Message dimensions = blob.inner(*field);
      while (const auto dimension = dimensions.next()) {
        if (dimension->number != 1) continue;
        if (dimension->kind == kVarint) shape.push_back(static_cast<std::int64_t>(dimension->value));
        if (dimension->kind != kLength) continue;
        for (Message packed = dimensions.inner(*dimension); !packed.at_end();) shape.push_back(static_cast<std::int64_t>(packed.varint()));
      }
    }
  }
  if (is_old && shape.empty()) shape.assign(old_shape.begin(), old_shape.end());
  const std::size_t count = doubles.empty() ? floats.size() : doubles.size();
  const std::optional<std::int64_t> expected = element_count(shape);
  if (!expected || static_cast<std::uint64_t>(*expected) != count)
    blob.fail(fmt::format("a blob [{}] has {} values", fmt::join(shape, ", "), count));
  return doubles.empty() ? torch::tensor(floats).view(shape) : torch::tensor(doubles, torch::kFloat64).view(shape).to(torch::kFloat32);
}

struct Layer {
  std::string name;
  bool inner_product = false;
  std::vector<torch::Tensor> blobs;
};

Layer read_layer(Message message, bool old) {
  Layer layer;
  while (const auto field = message.next()) {
    const std::string_view text(reinterpret_cast<const char*>(field->bytes.data()), field->bytes.size());
    if (field->number == (old ? field::kOldName : field::kName) && field->kind == kLength) layer.name = text;
    if (field->number == (old ? field::kOldType : field::kType))
      layer.inner_product = old ? field->kind == kVarint && field->value == kOldInnerProduct : text == "InnerProduct";
    if (field->number == (old ? field::kOldBlob : field::kBlob)) layer.blobs.push_back(read_blob(message.inner(*field)));
  }
  return layer;
}

/// Old blobs have four dimensions whatever they are: a bias is [1, 1, 1, N], a matrix [1, 1, N, D].
torch::Tensor without_leading_ones(const torch::Tensor& blob, std::int64_t dimensions) {
  std::vector<std::int64_t> shape = blob.sizes().vec();
  while (static_cast<std::int64_t>(shape.size()) > dimensions && shape.front() == 1) shape.erase(shape.begin());
  return blob.view(shape);
}

}  // namespace

NamedTensors read_caffemodel(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::string name = path.string();
  NamedTensors tensors;
  Message net(name, file.bytes(), 0);
  while (const auto field = net.next()) {
    const bool old = field->number == field::kNetOldLayer;
    if (!old && field->number != field::kNetLayer) continue;
    const Layer layer = read_layer(net.inner(*field), old);
    for (std::size_t i = 0; i < layer.blobs.size(); ++i) {
      // A layer's first blob is its weight, the second its bias; more have only layers that no network here is made of.
      const std::string blob = i == 0 ? "weight" : i == 1 ? "bias" : fmt::format("blob{}", i);
      const torch::Tensor tensor = i == 1                ? without_leading_ones(layer.blobs[i], 1)
                                   : layer.inner_product ? without_leading_ones(layer.blobs[i], 2)
                                                         : layer.blobs[i];
      if (!tensors.emplace(layer.name + "." + blob, tensor).second)
        net.fail(fmt::format("two layers are called {}", in_quotes(layer.name)));
    }
  }
  if (tensors.empty()) net.fail("no layer has weights; a .prototxt describes a network without them");
  return tensors;
}

}  // namespace smartmine
