#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace smartmine::test {

/// Writes pickles as Python's torch.save does, opcode by opcode.
class Pickle {
 public:
  Pickle() { bytes = "\x80\x02"; }
  Pickle& raw(const std::string& more) { return bytes += more, *this; }
  Pickle& text(const std::string& value) {
    const auto length = static_cast<std::uint32_t>(value.size());
    bytes += 'X' + std::string(reinterpret_cast<const char*>(&length), 4) + value;
    return *this;
  }
  Pickle& integer(std::int32_t value) {
    bytes += 'J' + std::string(reinterpret_cast<const char*>(&value), 4);
    return *this;
  }
  Pickle& global(const std::string& module, const std::string& name) { return raw("c" + module + "\n" + name + "\n"); }
  Pickle& ordered_dict() { return global("collections", "OrderedDict").raw(")R"); }
  Pickle& integers(const std::vector<std::int32_t>& values) {
    raw("(");
    for (const auto value : values) integer(value);
    return raw("t");
  }
  Pickle& tensor(const std::string& storage, const std::string& key, std::int32_t elements, std::int32_t offset,
                 const std::vector<std::int32_t>& shape, const std::vector<std::int32_t>& strides) {
    global("torch._utils", "_rebuild_tensor_v2")
        .raw("((")
        .text("storage")
        .global("torch", storage)
        .text(key)
        .text("cpu")
        .integer(elements)
        .raw("tQ");
    integer(offset).integers(shape).integers(strides).raw("\x89").ordered_dict().raw("tR");
    return *this;
  }
  std::string bytes;
};

/// What torch.save wrote before PyTorch 1.6, by hand: five pickles and the storages.
inline std::string old_file(const std::string& state, const std::string& keys, const std::string& storages) {
  const std::string magic(
      "\x80\x02\x8a\nl\xfc\x9c"
      "F\xf9 j\xa8P\x19.",
      15);
  const std::string version("\x80\x02M\xe9\x03.", 6);
  const std::string machine = Pickle().raw("}").text("little_endian").raw("\x88s.").bytes;
  return magic + version + machine + state + keys + storages;
}
inline std::string length_of(std::int64_t elements) { return {reinterpret_cast<const char*>(&elements), sizeof elements}; }

}  // namespace smartmine::test
