#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>

#include "model/pytorch_file.h"
#include "model/unpickler.h"
#include "smartmine/core/error.h"
#include "smartmine/core/mapped_file.h"
#include "smartmine/model/weights.h"

namespace smartmine {
namespace {

// torch.save has two formats. Since PyTorch 1.6 a file is a zip archive of "data.pkl", a Python pickle, and "data/KEY", the bytes of each
// storage; LibTorch opens the archive, but its own unpickler throws away the OrderedDict that every state dict is. Before, it was five
// pickles one after another (a magic number, a version, facts about the machine, the state dict, the list of keys), then each storage: its
// length in elements, eight bytes, and its bytes.

using Bytes = std::span<const std::byte>;
/// The bytes of a storage. Throws by way of the unpickler if there are none.
using FindBytes = std::function<std::shared_ptr<const Bytes>(const PickledTensor& tensor)>;

constexpr std::array<unsigned char, 15> kOldMagic = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                                     0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e};

/// Makes the tensors that an unpickler has found.
class TensorMaker {
 public:
  TensorMaker(const Unpickler& unpickler, FindBytes find) : unpickler_(unpickler), find_(std::move(find)) {}

  torch::Tensor make(const PickledTensor& tensor) {
    const auto fail = [&](const std::string& what) { unpickler_.fail_at(tensor.place, what); };
    const torch::Tensor flat = load(tensor);
    const std::vector<std::int64_t>& shape = tensor.shape;
    const std::optional<std::int64_t> count = element_count(shape);
    if (!count || shape.size() != tensor.strides.size() || shape.size() > 64 || tensor.offset < 0)
      fail("damaged pickle: an impossible shape");
    if (*count == 0) return torch::empty(shape, flat.options());
    // Strides may repeat elements (an expanded tensor), so bound what is made by what the file holds.
    const std::string past_the_end =
        fmt::format("a tensor [{}] reaches past the end of its storage {}", fmt::join(shape, ", "), in_quotes(tensor.storage.key));
    std::int64_t last = tensor.offset;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::int64_t stride = tensor.strides[d];
      if (stride < 0 || (shape[d] > 1 && stride > (flat.numel() - 1 - std::min(last, flat.numel() - 1)) / (shape[d] - 1)))
        fail(past_the_end);
      last += shape[d] > 1 ? stride * (shape[d] - 1) : 0;
    }
    if (last >= flat.numel() || *count > flat.numel()) fail(past_the_end);
    return flat.as_strided(shape, tensor.strides, tensor.offset).clone(torch::MemoryFormat::Contiguous);
  }

 private:
  torch::Tensor load(const PickledTensor& tensor) {
    const PickledStorage& from = tensor.storage;
    const auto found = storages_.find(from.key);
    if (found != storages_.end()) return found->second;
    torch::Tensor flat = torch::empty({0}, from.type->type);
    if (from.elements != 0) {
      const std::shared_ptr<const Bytes> bytes = find_(tensor);
      const std::size_t size = bytes->size();
      if (from.elements < 0 || size % from.type->bytes != 0 || static_cast<std::uint64_t>(from.elements) != size / from.type->bytes)
        unpickler_.fail_at(tensor.place, fmt::format("storage {} has {} bytes, not {} of type {}", in_quotes(from.key), size, from.elements,
                                                     from.type->safetensors));
      flat = torch::empty({from.elements}, from.type->type);
      std::memcpy(flat.data_ptr(), bytes->data(), size);
    }
    return storages_.emplace(from.key, flat).first->second;
  }

  const Unpickler& unpickler_;
  FindBytes find_;
  std::map<std::string, torch::Tensor> storages_;
};

NamedTensors tensors_of(const PickledDictionary& dictionary, TensorMaker& maker) {
  NamedTensors tensors;
  for (const auto& [key, item] : dictionary.items) {
    const auto* const name = std::get_if<std::string>(&key->is);
    const auto* const tensor = std::get_if<PickledTensor>(&item->is);
    if (name != nullptr && tensor != nullptr) tensors[*name] = as_weights(maker.make(*tensor));
  }
  return tensors;
}

/// The state dict itself, or the one inside a training checkpoint.
NamedTensors state_dict_of(const PickledValue& value, TensorMaker maker, const std::string& name) {
  NamedTensors tensors;
  if (const auto* const dictionary = std::get_if<PickledDictionary>(&value.is)) {
    tensors = tensors_of(*dictionary, maker);
    for (const auto& [key, item] : dictionary->items) {
      const auto* const text = std::get_if<std::string>(&key->is);
      const auto* const inner = std::get_if<PickledDictionary>(&item->is);
      if (tensors.empty() && inner != nullptr && text != nullptr && (*text == "state_dict" || *text == "model"))
        tensors = tensors_of(*inner, maker);
    }
  }
  if (tensors.empty()) throw IoError(fmt::format("{}: holds no state dict; save one with torch.save(model.state_dict(), path)", name));
  return tensors;
}

NamedTensors read_archive(const std::string& name) try {
  caffe2::serialize::PyTorchStreamReader archive(name);
  if (archive.hasRecord("constants.pkl"))
    throw IoError(
        fmt::format("{}: a TorchScript file, which is a whole network; give it as the backbone (--backbone), or save its weights "
                    "alone with torch.save(model.state_dict(), path)",
                    name));
  auto [text, size] = archive.getRecord("data.pkl");
  Unpickler unpickler(name, "data.pkl, ", std::string_view(static_cast<const char*>(text.get()), size));
  const PickledValue& value = unpickler.run();
  const auto find = [&](const PickledTensor& tensor) {
    const std::string record = "data/" + tensor.storage.key;
    if (!archive.hasRecord(record))
      unpickler.fail_at(tensor.place, fmt::format("storage {} is missing in the archive", in_quotes(tensor.storage.key)));
    struct Record {
      at::DataPtr data;
      Bytes bytes;
    };
    auto held = std::make_shared<Record>();
    std::size_t length = 0;
    std::tie(held->data, length) = archive.getRecord(record);
    held->bytes = Bytes(static_cast<const std::byte*>(held->data.get()), length);
    return std::shared_ptr<const Bytes>(held, &held->bytes);
  };
  return state_dict_of(value, TensorMaker(unpickler, find), name);
} catch (const c10::Error& error) {
  throw IoError(fmt::format("{}: not a zip archive of torch.save, or damaged ({}); save it again with torch.save(model.state_dict(), path)",
                            name, in_quotes(error.what_without_backtrace())));
}

NamedTensors read_old(const std::string& name, Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::size_t at = kOldMagic.size();
  const auto next = [&] { return Unpickler(name, "", text.substr(at), at); };
  for (int i = 0; i < 2; ++i) {  // the version, the machine
    Unpickler skipped = next();
    skipped.run();
    at += skipped.length();
  }
  Unpickler state = next();
  const PickledValue& value = state.run();
  at += state.length();
  Unpickler keys = next();
  const auto* const list = std::get_if<PickledSequence>(&keys.run().is);
  if (list == nullptr) keys.fail("expected the keys of the storages");
  at += keys.length();

  std::map<std::string, Bytes> storages;
  for (const PickledPointer item : list->items) {
    const auto* const key = std::get_if<std::string>(&item->is);
    const auto known = key == nullptr ? state.storages().end() : state.storages().find(*key);
    if (known == state.storages().end()) keys.fail("a key of a storage that no tensor has");
    std::int64_t elements = -1;
    if (sizeof elements <= bytes.size() - at) std::memcpy(&elements, bytes.data() + at, sizeof elements);
    const std::size_t left = bytes.size() - std::min(bytes.size(), at + sizeof elements);
    const std::size_t width = known->second.type->bytes;
    if (elements != known->second.elements || static_cast<std::uint64_t>(elements) > left / width)
      throw IoError(fmt::format("{}: byte {}: storage {} of {} elements is damaged or cut short; fetch or save the file again", name, at,
                                in_quotes(*key), known->second.elements));
    const std::size_t length = static_cast<std::size_t>(elements) * width;
    storages[*key] = bytes.subspan(at + sizeof elements, length);
    at += sizeof elements + length;
  }
  const auto find = [&](const PickledTensor& tensor) {
    const auto found = storages.find(tensor.storage.key);
    if (found == storages.end())
      state.fail_at(tensor.place, fmt::format("storage {} is missing in the file", in_quotes(tensor.storage.key)));
    return std::make_shared<const Bytes>(found->second);
  };
  return state_dict_of(value, TensorMaker(state, find), name);
}

}  // namespace

bool is_old_pytorch(Bytes bytes) {
  return bytes.size() >= kOldMagic.size() && std::memcmp(bytes.data(), kOldMagic.data(), kOldMagic.size()) == 0;
}

NamedTensors read_pytorch(const std::filesystem::path& path) {
  const MappedFile file(path);  // says what is wrong with a path better than the archive's reader
  return is_old_pytorch(file.bytes()) ? read_old(path.string(), file.bytes()) : read_archive(path.string());
}

}  // namespace smartmine
