#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <bit>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <variant>

#include "model/tensor_types.h"
#include "smartmine/core/error.h"
#include "smartmine/core/mapped_file.h"
#include "smartmine/model/weights.h"

namespace smartmine {
namespace {

// A file of torch.save is a zip archive of "data.pkl", a Python pickle, and "data/KEY", the bytes of each storage. LibTorch opens the
// archive, but its own unpickler throws away the OrderedDict that every state dict is. So here is one for state dicts: it knows the handful
// of names they consist of and refuses all others, so that no file can make it do anything but build tensors.

struct Value;
using Pointer = Value*;  // into the unpickler's arena: a pickle may nest deeply or refer to itself
using Items = std::vector<Pointer>;
struct None {};
struct Global {
  std::string name;
};
struct Sequence {  // list or tuple
  Items items;
};
struct Dictionary {
  std::vector<std::pair<Pointer, Pointer>> items;
};
struct Storage {
  const TensorType* type;
  std::string key;
  std::int64_t elements;
};
struct Opaque {};  // something a state dict may carry along and nobody needs
struct Value {
  std::variant<None, bool, std::int64_t, double, std::string, Global, Sequence, Dictionary, Storage, torch::Tensor, Opaque> is;
};

class Unpickler {
 public:
  Unpickler(std::string name, caffe2::serialize::PyTorchStreamReader& archive) : name_(std::move(name)), archive_(archive) {}

  Pointer run() {
    auto [data, size] = archive_.getRecord("data.pkl");
    text_ = std::string_view(static_cast<const char*>(data.get()), size);
    while (true) {
      place_ = at_;
      const auto code = static_cast<unsigned char>(take(1)[0]);
      if (code == '.') return pop();
      step(code);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw IoError(
        fmt::format("{}: data.pkl, byte {}: {}; save the state dict alone: torch.save(model.state_dict(), path)", name_, place_, what));
  }

  std::string_view take(std::size_t count) {
    if (count > text_.size() - at_) fail("the pickle is cut short");
    at_ += count;
    return text_.substr(at_ - count, count);
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string line() {
    const std::size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos) fail("the pickle is cut short");
    std::string out(text_.substr(at_, end - at_));
    at_ = end + 1;
    return out;
  }

  template <class T>
  Pointer make(T value) {
    return &arena_.emplace_back(Value{std::move(value)});
  }
  void push(Pointer value) {
    constexpr std::size_t kDeepest = 10'000'000;
    if (stack_.size() >= kDeepest) fail("too much on the stack");
    stack_.push_back(value);
  }
  Pointer pop() {
    if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back())) fail("damaged pickle: nothing on the stack");
    const Pointer value = stack_.back();
    stack_.pop_back();
    return value;
  }
  Items pop_to_mark() {
    if (marks_.empty()) fail("damaged pickle: no mark on the stack");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    Items items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  void push_tuple(std::size_t count) {
    Items items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push(make(Sequence{std::move(items)}));
  }
  Value& top() {
    if (stack_.empty()) fail("damaged pickle: nothing on the stack");
    return *stack_.back();
  }
  template <class T>
  const T& get(Pointer value, const char* what) const {
    if (const T* const found = std::get_if<T>(&value->is)) return *found;
    fail(fmt::format("expected {}", what));
  }

  void set_items(const Items& items) {
    if (items.size() % 2 != 0) fail("damaged pickle: a key without a value");
    Value& target = top();
    if (std::holds_alternative<Opaque>(target.is)) return;
    auto* const dictionary = std::get_if<Dictionary>(&target.is);
    if (dictionary == nullptr) fail("damaged pickle: items for something that is no dictionary");
    for (std::size_t i = 0; i < items.size(); i += 2) dictionary->items.emplace_back(items[i], items[i + 1]);
  }
  void append(const Items& items) {
    Value& target = top();
    auto* const list = std::get_if<Sequence>(&target.is);
    if (list == nullptr) fail("damaged pickle: items for something that is no list");
    list->items.insert(list->items.end(), items.begin(), items.end());
  }
  void remember(std::size_t place) {
    if (stack_.empty()) fail("damaged pickle: nothing on the stack");
    memo_[place] = stack_.back();
  }
  void recall(std::size_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) fail("damaged pickle: a reference to nothing");
    push(found->second);
  }

  void step(unsigned char code) {
    switch (code) {
      case 0x80:
        take(1);
        break;  // PROTO
      case 0x95:
        take(8);
        break;  // FRAME
      case '(':
        marks_.push_back(stack_.size());
        break;  // MARK
      case '0':
        pop();
        break;  // POP
      case 'N':
        push(make(None{}));
        break;  // NONE
      case 0x88:
        push(make(true));
        break;  // NEWTRUE
      case 0x89:
        push(make(false));
        break;  // NEWFALSE
      case 'K':
        push(make<std::int64_t>(number<std::uint8_t>()));
        break;  // BININT1
      case 'M':
        push(make<std::int64_t>(number<std::uint16_t>()));
        break;  // BININT2
      case 'J':
        push(make<std::int64_t>(number<std::int32_t>()));
        break;  // BININT
      case 0x8a:
        push(make(long_integer()));
        break;  // LONG1
      case 'G':
        push(make(big_endian_double()));
        break;  // BINFLOAT
      case 'X':
        push(make(std::string(take(number<std::uint32_t>()))));
        break;  // BINUNICODE
      case 0x8c:
        push(make(std::string(take(number<std::uint8_t>()))));
        break;  // SHORT_BINUNICODE
      case 0x8d:
        push(make(std::string(take(number<std::uint64_t>()))));
        break;  // BINUNICODE8
      case 'U':
        push(make(std::string(take(number<std::uint8_t>()))));
        break;  // SHORT_BINSTRING
      case ')':
        push(make(Sequence{}));
        break;  // EMPTY_TUPLE
      case 0x85:
        push_tuple(1);
        break;  // TUPLE1
      case 0x86:
        push_tuple(2);
        break;  // TUPLE2
      case 0x87:
        push_tuple(3);
        break;  // TUPLE3
      case 't':
        push(make(Sequence{pop_to_mark()}));
        break;  // TUPLE
      case ']':
        push(make(Sequence{}));
        break;  // EMPTY_LIST
      case 'a':
        append({pop()});
        break;  // APPEND
      case 'e':
        append(pop_to_mark());
        break;  // APPENDS
      case '}':
        push(make(Dictionary{}));
        break;     // EMPTY_DICT
      case 's': {  // SETITEM
        const Pointer value = pop();
        const Pointer key = pop();
        set_items({key, value});
        break;
      }
      case 'u':
        set_items(pop_to_mark());
        break;  // SETITEMS
      case 'q':
        remember(number<std::uint8_t>());
        break;  // BINPUT
      case 'r':
        remember(number<std::uint32_t>());
        break;  // LONG_BINPUT
      case 0x94:
        remember(memo_.size());
        break;  // MEMOIZE
      case 'h':
        recall(number<std::uint8_t>());
        break;  // BINGET
      case 'j':
        recall(number<std::uint32_t>());
        break;     // LONG_BINGET
      case 'c': {  // GLOBAL
        const std::string module = line();
        push(make(Global{module + "." + line()}));
        break;
      }
      case 0x93: {  // STACK_GLOBAL
        const Pointer name = pop();
        const Pointer module = pop();
        push(make(Global{get<std::string>(module, "the name of a module") + "." + get<std::string>(name, "a name")}));
        break;
      }
      case 'R':
      case 0x81: {  // REDUCE, NEWOBJ
        const Pointer arguments = pop();
        const Pointer function = pop();
        push(call(get<Global>(function, "a function").name, get<Sequence>(arguments, "arguments").items));
        break;
      }
      case 'b':
        pop();
        break;  // BUILD: attributes, such as a state dict's versions
      case 'Q':
        push(storage(pop()));
        break;  // BINPERSID
      default:
        fail(fmt::format("operation {:#04x}, which state dicts have no use for", code));
    }
  }

  std::int64_t long_integer() {
    const auto bytes = take(number<std::uint8_t>());
    if (bytes.size() > 8) fail("a whole number over 64 bits");
    std::uint64_t value = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    return static_cast<std::int64_t>(value);
  }
  double big_endian_double() {
    std::uint64_t bits = 0;
    for (const char c : take(8)) bits = bits << 8 | static_cast<unsigned char>(c);
    return std::bit_cast<double>(bits);
  }

  Pointer storage(Pointer value) {
    const Items& parts = get<Sequence>(value, "a storage").items;
    if (parts.size() < 5 || get<std::string>(parts[0], "a storage") != "storage") fail("damaged pickle: not a storage");
    const std::string& kind = get<Global>(parts[1], "the type of a storage").name;
    const std::int64_t elements = get<std::int64_t>(parts[4], "the size of a storage");
    for (const TensorType& type : kTensorTypes)
      if (kind == "torch." + std::string(type.storage))
        return make(Storage{&type, get<std::string>(parts[2], "the key of a storage"), elements});
    fail(fmt::format("unsupported type of storage {}", in_quotes(kind)));
  }

  Pointer call(const std::string& function, const Items& arguments) {
    if (function == "collections.OrderedDict") return make(Dictionary{});
    if (function == "torch._utils._rebuild_tensor_v2" && arguments.size() >= 4)
      return make(tensor(get<Storage>(arguments[0], "a storage"), get<std::int64_t>(arguments[1], "an offset"), lengths(arguments[2]),
                         lengths(arguments[3])));
    if ((function == "torch._utils._rebuild_parameter" || function == "torch.jit._pickle.restore_type_tag") && !arguments.empty())
      return arguments[0];
    if (function == "torch.Size" || function == "torch.device" || function == "collections.defaultdict" || function == "argparse.Namespace")
      return make(Opaque{});
    fail(fmt::format("{}, which is no part of a state dict", in_quotes(function)));
  }

  std::vector<std::int64_t> lengths(Pointer value) const {
    std::vector<std::int64_t> out;
    for (const Pointer item : get<Sequence>(value, "a shape").items) out.push_back(get<std::int64_t>(item, "a length"));
    return out;
  }

  torch::Tensor tensor(const Storage& from, std::int64_t offset, const std::vector<std::int64_t>& shape,
                       const std::vector<std::int64_t>& strides) {
    const torch::Tensor flat = load(from);
    const std::optional<std::int64_t> count = element_count(shape);
    if (!count || shape.size() != strides.size() || shape.size() > 64 || offset < 0) fail("damaged pickle: an impossible shape");
    if (*count == 0) return torch::empty(shape, flat.options());
    // Strides may repeat elements (an expanded tensor), so bound what is made by what the file holds.
    std::int64_t last = offset;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (strides[d] < 0 || (shape[d] > 1 && strides[d] > (flat.numel() - 1 - std::min(last, flat.numel() - 1)) / (shape[d] - 1)))
        fail(fmt::format("a tensor [{}] reaches past the end of its storage '{}'", fmt::join(shape, ", "), from.key));
      last += shape[d] > 1 ? strides[d] * (shape[d] - 1) : 0;
    }
    if (last >= flat.numel() || *count > flat.numel())
      fail(fmt::format("a tensor [{}] reaches past the end of its storage '{}'", fmt::join(shape, ", "), from.key));
    return flat.as_strided(shape, strides, offset).clone(torch::MemoryFormat::Contiguous);
  }

  torch::Tensor load(const Storage& from) {
    const auto found = storages_.find(from.key);
    if (found != storages_.end()) {
      if (found->second.scalar_type() != from.type->type) fail(fmt::format("storage '{}' has two types", from.key));
      return found->second;
    }
    torch::Tensor flat = torch::empty({0}, from.type->type);
    if (from.elements != 0) {
      const std::string record = "data/" + from.key;
      if (!archive_.hasRecord(record)) fail(fmt::format("storage '{}' is missing in the archive", from.key));
      auto [data, size] = archive_.getRecord(record);
      if (from.elements < 0 || size % from.type->bytes != 0 || static_cast<std::uint64_t>(from.elements) != size / from.type->bytes)
        fail(fmt::format("storage '{}' has {} bytes, not {} of type {}", from.key, size, from.elements, from.type->safetensors));
      flat = torch::empty({from.elements}, from.type->type);
      std::memcpy(flat.data_ptr(), data.get(), size);
    }
    return storages_.emplace(from.key, flat).first->second;
  }

  std::deque<Value> arena_;
  std::string name_;
  caffe2::serialize::PyTorchStreamReader& archive_;
  std::string_view text_;
  std::size_t at_ = 0, place_ = 0;
  Items stack_;
  std::vector<std::size_t> marks_;
  std::map<std::size_t, Pointer> memo_;
  std::map<std::string, torch::Tensor> storages_;
};

/// The tensors among a dictionary's items.
NamedTensors tensors_of(const Dictionary& dictionary) {
  NamedTensors tensors;
  for (const auto& [key, item] : dictionary.items) {
    const auto* const name = std::get_if<std::string>(&key->is);
    const auto* const tensor = std::get_if<torch::Tensor>(&item->is);
    if (name != nullptr && tensor != nullptr) tensors[*name] = as_weights(*tensor);
  }
  return tensors;
}

/// The state dict itself, or the one inside a training checkpoint.
NamedTensors state_dict_of(const Value& value, const std::string& name) {
  NamedTensors tensors;
  if (const auto* const dictionary = std::get_if<Dictionary>(&value.is)) {
    tensors = tensors_of(*dictionary);
    for (const auto& [key, item] : dictionary->items) {
      const auto* const text = std::get_if<std::string>(&key->is);
      const auto* const inner = std::get_if<Dictionary>(&item->is);
      if (tensors.empty() && inner != nullptr && text != nullptr && (*text == "state_dict" || *text == "model"))
        tensors = tensors_of(*inner);
    }
  }
  if (tensors.empty()) throw IoError(fmt::format("{}: holds no state dict; save one with torch.save(model.state_dict(), path)", name));
  return tensors;
}

}  // namespace

NamedTensors read_pytorch(const std::filesystem::path& path) {
  const std::string name = path.string();
  const MappedFile readable(path);  // says what is wrong with a path better than the archive's reader
  std::unique_ptr<caffe2::serialize::PyTorchStreamReader> archive;
  try {
    archive = std::make_unique<caffe2::serialize::PyTorchStreamReader>(name);
    Unpickler unpickler(name, *archive);
    return state_dict_of(*unpickler.run(), name);
  } catch (const c10::Error& error) {
    throw IoError(
        fmt::format("{}: not a zip archive of torch.save, or damaged ({}); save it again with torch.save(model.state_dict(), path)", name,
                    in_quotes(error.what_without_backtrace())));
  }
}

}  // namespace smartmine
