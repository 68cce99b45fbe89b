#include "model/unpickler.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "smartmine/core/error.h"

namespace smartmine {

void Unpickler::fail_at(std::size_t place, const std::string& what) const {
  throw IoError(
      fmt::format("{}: {}byte {}: {}; save the state dict alone: torch.save(model.state_dict(), path)", name_, part_, base_ + place, what));
}

const PickledValue& Unpickler::run() {
  while (true) {
    place_ = at_;
    const auto code = static_cast<unsigned char>(take(1)[0]);
    if (code == '.') return *pop();
    step(code);
  }
}

std::string_view Unpickler::take(std::size_t count) {
  if (count > text_.size() - at_) fail("the pickle is cut short");
  at_ += count;
  return text_.substr(at_ - count, count);
}

template <class T>
T Unpickler::number() {
  T value;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

std::string Unpickler::line() {
  const std::size_t end = text_.find('\n', at_);
  if (end == std::string_view::npos) fail("the pickle is cut short");
  std::string out(text_.substr(at_, end - at_));
  at_ = end + 1;
  return out;
}

void Unpickler::push(PickledPointer value) {
  constexpr std::size_t kDeepest = 10'000'000;
  if (stack_.size() >= kDeepest) fail("too much on the stack");
  stack_.push_back(value);
}

PickledPointer Unpickler::pop() {
  if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back())) fail("damaged pickle: nothing on the stack");
  const PickledPointer value = stack_.back();
  stack_.pop_back();
  return value;
}

PickledItems Unpickler::pop_to_mark() {
  if (marks_.empty()) fail("damaged pickle: no mark on the stack");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  PickledItems items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

void Unpickler::push_tuple(std::size_t count) {
  PickledItems items(count);
  for (std::size_t i = count; i-- > 0;) items[i] = pop();
  push_new(PickledSequence{std::move(items)});
}

PickledValue& Unpickler::top() {
  if (stack_.empty()) fail("damaged pickle: nothing on the stack");
  return *stack_.back();
}

template <class T>
const T& Unpickler::get(PickledPointer value, const char* what) const {
  if (const T* const found = std::get_if<T>(&value->is)) return *found;
  fail(fmt::format("expected {}", what));
}

void Unpickler::set_items(const PickledItems& items) {
  if (items.size() % 2 != 0) fail("damaged pickle: a key without a value");
  PickledValue& target = top();
  if (std::holds_alternative<PickledOpaque>(target.is)) return;
  auto* const dictionary = std::get_if<PickledDictionary>(&target.is);
  if (dictionary == nullptr) fail("damaged pickle: items for something that is no dictionary");
  for (std::size_t i = 0; i < items.size(); i += 2) dictionary->items.emplace_back(items[i], items[i + 1]);
}

void Unpickler::append(const PickledItems& items) {
  auto* const list = std::get_if<PickledSequence>(&top().is);
  if (list == nullptr) fail("damaged pickle: items for something that is no list");
  list->items.insert(list->items.end(), items.begin(), items.end());
}

void Unpickler::remember(std::size_t place) { memo_[place] = &top(); }

void Unpickler::recall(std::size_t place) {
  const auto found = memo_.find(place);
  if (found == memo_.end()) fail("damaged pickle: a reference to nothing");
  push(found->second);
}

void Unpickler::step(unsigned char code) {
  if (push_plain(code) || build(code) || name_or_remember(code)) return;
  fail(fmt::format("operation {:#04x}, which state dicts have no use for", code));
}

// Values that stand in the pickle as they are.
bool Unpickler::push_plain(unsigned char code) {
  switch (code) {
    case 0x80:
      take(1);
      return true;  // PROTO
    case 0x95:
      take(8);
      return true;  // FRAME
    case 'N':
      push_new(PickledNone{});
      return true;
    case 0x88:
      push_new(true);
      return true;
    case 0x89:
      push_new(false);
      return true;
    case 'K':
      push_new<std::int64_t>(number<std::uint8_t>());
      return true;  // BININT1
    case 'M':
      push_new<std::int64_t>(number<std::uint16_t>());
      return true;  // BININT2
    case 'J':
      push_new<std::int64_t>(number<std::int32_t>());
      return true;  // BININT
    case 0x8a:
      push_new(long_integer());
      return true;  // LONG1
    case 'G':
      push_new(big_endian_double());
      return true;  // BINFLOAT
    case 'X':       // BINUNICODE
    case 'T':
      push_new(std::string(take(number<std::uint32_t>())));
      return true;  // BINSTRING
    case 0x8c:      // SHORT_BINUNICODE
    case 'U':
      push_new(std::string(take(number<std::uint8_t>())));
      return true;  // SHORT_BINSTRING
    case 0x8d:
      push_new(std::string(take(number<std::uint64_t>())));
      return true;  // BINUNICODE8
    default:
      return false;
  }
}

// Values made of others.
bool Unpickler::build(unsigned char code) {
  switch (code) {
    case '(':
      marks_.push_back(stack_.size());
      return true;
    case '0':
      pop();
      return true;
    case ')':
      push_new(PickledSequence{});
      return true;  // EMPTY_TUPLE
    case 0x85:
      push_tuple(1);
      return true;
    case 0x86:
      push_tuple(2);
      return true;
    case 0x87:
      push_tuple(3);
      return true;
    case 't':
      push_new(PickledSequence{pop_to_mark()});
      return true;  // TUPLE
    case ']':
      push_new(PickledSequence{});
      return true;  // EMPTY_LIST
    case 'a':
      append({pop()});
      return true;
    case 'e':
      append(pop_to_mark());
      return true;
    case '}':
      push_new(PickledDictionary{});
      return true;
    case 's': {  // SETITEM
      const PickledPointer value = pop();
      const PickledPointer key = pop();
      set_items({key, value});
      return true;
    }
    case 'u':
      set_items(pop_to_mark());
      return true;
    case 'b':
      pop();
      return true;  // BUILD: attributes, such as a state dict's versions
    default:
      return false;
  }
}

bool Unpickler::name_or_remember(unsigned char code) {
  switch (code) {
    case 'q':
      remember(number<std::uint8_t>());
      return true;  // BINPUT
    case 'r':
      remember(number<std::uint32_t>());
      return true;  // LONG_BINPUT
    case 0x94:
      remember(memo_.size());
      return true;  // MEMOIZE
    case 'h':
      recall(number<std::uint8_t>());
      return true;  // BINGET
    case 'j':
      recall(number<std::uint32_t>());
      return true;  // LONG_BINGET
    case 'Q':
      push(storage(pop()));
      return true;  // BINPERSID
    case 'c': {     // GLOBAL
      const std::string module = line();
      push_new(PickledGlobal{module + "." + line()});
      return true;
    }
    case 0x93: {  // STACK_GLOBAL
      const PickledPointer name = pop();
      const PickledPointer module = pop();
      push_new(PickledGlobal{get<std::string>(module, "the name of a module") + "." + get<std::string>(name, "a name")});
      return true;
    }
    case 'R':
    case 0x81: {  // REDUCE, NEWOBJ
      const PickledPointer arguments = pop();
      const PickledPointer function = pop();
      push(call(get<PickledGlobal>(function, "a function").name, get<PickledSequence>(arguments, "arguments").items));
      return true;
    }
    default:
      return false;
  }
}

std::int64_t Unpickler::long_integer() {
  const auto bytes = take(number<std::uint8_t>());
  if (bytes.size() > 8) fail("a whole number over 64 bits");
  std::uint64_t value = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return static_cast<std::int64_t>(value);
}

double Unpickler::big_endian_double() {
  std::uint64_t bits = 0;
  for (const char c : take(8)) bits = bits << 8 | static_cast<unsigned char>(c);
  return std::bit_cast<double>(bits);
}

PickledPointer Unpickler::storage(PickledPointer value) {
  const PickledItems& parts = get<PickledSequence>(value, "a storage").items;
  if (parts.size() < 5 || get<std::string>(parts[0], "a storage") != "storage") fail("damaged pickle: not a storage");
  const std::string& kind = get<PickledGlobal>(parts[1], "the type of a storage").name;
  const std::string& key = get<std::string>(parts[2], "the key of a storage");
  const std::int64_t elements = get<std::int64_t>(parts[4], "the size of a storage");
  if (parts.size() > 5 && !std::holds_alternative<PickledNone>(parts[5]->is)) fail("a storage that is part of another");
  for (const TensorType& type : kTensorTypes) {
    if (kind != "torch." + std::string(type.storage)) continue;
    const auto [known, added] = storages_.emplace(key, PickledStorage{&type, key, elements});
    if (!added && (known->second.type != &type || known->second.elements != elements))
      fail(fmt::format("storage {} has two types or sizes", in_quotes(key)));
    return make(known->second);
  }
  fail(fmt::format("unsupported type of storage {}", in_quotes(kind)));
}

PickledPointer Unpickler::call(const std::string& function, const PickledItems& arguments) {
  if (function == "collections.OrderedDict") return make(PickledDictionary{});
  if ((function == "torch._utils._rebuild_tensor_v2" || function == "torch._utils._rebuild_tensor") && arguments.size() >= 4)
    return make(PickledTensor{get<PickledStorage>(arguments[0], "a storage"), get<std::int64_t>(arguments[1], "an offset"),
                              lengths(arguments[2]), lengths(arguments[3]), place_});
  // The last as PyTorch had it before 0.4.
  if ((function == "torch._utils._rebuild_parameter" || function == "torch.jit._pickle.restore_type_tag" ||
       function == "torch.nn.parameter.Parameter") &&
      !arguments.empty())
    return arguments[0];
  if (function == "torch.Size" || function == "torch.device" || function == "collections.defaultdict" || function == "argparse.Namespace")
    return make(PickledOpaque{});
  fail(fmt::format("{}, which is no part of a state dict", in_quotes(function)));
}

std::vector<std::int64_t> Unpickler::lengths(PickledPointer value) const {
  std::vector<std::int64_t> out;
  for (const PickledPointer item : get<PickledSequence>(value, "a shape").items) out.push_back(get<std::int64_t>(item, "a length"));
  return out;
}

}  // namespace smartmine
