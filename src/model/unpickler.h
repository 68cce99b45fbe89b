#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/tensor_types.h"

namespace smartmine {

// An unpickler for state dicts: it knows the handful of names they consist of and refuses all others, so that no file can make it do
// anything but describe tensors.

struct PickledValue;
using PickledPointer = PickledValue*;  // into the unpickler's arena: a pickle may nest deeply or refer to itself
using PickledItems = std::vector<PickledPointer>;

struct PickledNone {};
struct PickledGlobal {
  std::string name;
};
struct PickledSequence {  // list or tuple
  PickledItems items;
};
struct PickledDictionary {
  std::vector<std::pair<PickledPointer, PickledPointer>> items;
};
struct PickledStorage {
  const TensorType* type;
  std::string key;
  std::int64_t elements;
};
/// A tensor in words: its values lie elsewhere in the file.
struct PickledTensor {
  PickledStorage storage;
  std::int64_t offset;
  std::vector<std::int64_t> shape, strides;
  std::size_t place;  // in the pickle
};
struct PickledOpaque {};  // something a state dict may carry along and nobody needs
struct PickledValue {
  std::variant<PickledNone, bool, std::int64_t, double, std::string, PickledGlobal, PickledSequence, PickledDictionary, PickledStorage,
               PickledTensor, PickledOpaque>
      is;
};

class Unpickler {
 public:
  /// `name` is the file's, `part` what messages call the pickle in it: "data.pkl, ". `base` is where it starts.
  Unpickler(std::string name, std::string part, std::string_view text, std::size_t base = 0)
      : name_(std::move(name)), part_(std::move(part)), text_(text), base_(base) {}

  /// What the pickle holds; it lives as long as this. Throws IoError naming the place.
  const PickledValue& run();
  /// Bytes read.
  std::size_t length() const { return at_; }
  /// All that were spoken of.
  const std::map<std::string, PickledStorage>& storages() const { return storages_; }

  [[noreturn]] void fail(const std::string& what) const { fail_at(place_, what); }
  [[noreturn]] void fail_at(std::size_t place, const std::string& what) const;

 private:
  std::string_view take(std::size_t count);
  template <class T>
  T number();
  std::string line();
  template <class T>
  PickledPointer make(T value) {
    return &arena_.emplace_back(PickledValue{std::move(value)});
  }
  template <class T>
  void push_new(T value) {
    push(make(std::move(value)));
  }
  void push(PickledPointer value);
  PickledPointer pop();
  PickledItems pop_to_mark();
  void push_tuple(std::size_t count);
  PickledValue& top();
  template <class T>
  const T& get(PickledPointer value, const char* what) const;

  void step(unsigned char code);
  bool push_plain(unsigned char code);
  bool build(unsigned char code);
  bool name_or_remember(unsigned char code);
  void set_items(const PickledItems& items);
  void append(const PickledItems& items);
  void remember(std::size_t place);
  void recall(std::size_t place);
  std::int64_t long_integer();
  double big_endian_double();
  PickledPointer storage(PickledPointer value);
  PickledPointer call(const std::string& function, const PickledItems& arguments);
  std::vector<std::int64_t> lengths(PickledPointer value) const;

  std::deque<PickledValue> arena_;
  std::string name_, part_;
  std::string_view text_;
  std::size_t base_ = 0, at_ = 0, place_ = 0;
  PickledItems stack_;
  std::vector<std::size_t> marks_;
  std::map<std::size_t, PickledPointer> memo_;
  std::map<std::string, PickledStorage> storages_;
};

}  // namespace smartmine
