// Writes small files of weights of every kind for fuzz_weights to start from: make_weight_seeds FOLDER
#include <caffe2/serialize/inline_container.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "../tests/model/made_pickle.h"
#include "smartmine/model/weights.h"

namespace {

namespace fs = std::filesystem;
using smartmine::test::length_of;
using smartmine::test::old_file;
using smartmine::test::Pickle;
enum Kind : char { kSafetensors, kPyTorch, kCaffe };

const std::string kFourFloats("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40", 16);

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void add(const fs::path& folder, const std::string& name, Kind kind, const std::string& bytes) {
  std::ofstream(folder / name, std::ios::binary) << static_cast<char>(kind) << bytes;
}

void add_pickles(const fs::path& folder) {
  Pickle state;
  state.ordered_dict().raw("(").text("a").tensor("FloatStorage", "0", 4, 1, {3}, {1});
  state.text("b").tensor("FloatStorage", "0", 4, 0, {2, 2}, {1, 2}).raw("u.");
  add(folder, "old", kPyTorch, old_file(state.bytes, Pickle().raw("]").text("0").raw("a.").bytes, length_of(4) + kFourFloats));
  const fs::path made = folder / "made";
  {
    caffe2::serialize::PyTorchStreamWriter writer(made.string());
    writer.writeRecord("data.pkl", state.bytes.data(), state.bytes.size());
    writer.writeRecord("data/0", kFourFloats.data(), kFourFloats.size());
    writer.writeEndOfFile();
  }
  add(folder, "zip", kPyTorch, contents(made));
  fs::remove(made);
}

/// Protobuf's wire format: a field that holds bytes. All are shorter than 128.
std::string field(int number, const std::string& bytes) {
  const std::string key = number < 16 ? std::string(1, static_cast<char>(number << 3 | 2))
                                      : std::string({static_cast<char>((number << 3 | 2) % 128 + 128), static_cast<char>(number >> 4)});
  return key + static_cast<char>(bytes.size()) + bytes;
}

void add_caffemodels(const fs::path& folder) {
  const std::string new_blob = field(7, field(1, "\x02\x02")) + field(5, kFourFloats);
  add(folder, "caffe-new", kCaffe,
      field(1, "net") + field(100, field(1, "fc") + field(2, "InnerProduct") + field(7, new_blob) + field(7, new_blob)));
  const std::string old_blob = std::string("\x08\x01\x10\x01\x18\x02\x20\x02", 8) + field(5, kFourFloats);
  add(folder, "caffe-old", kCaffe, field(1, "net") + field(2, field(4, "fc") + std::string("\x28\x0e", 2) + field(6, old_blob)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: make_weight_seeds FOLDER\n", stderr);
    return 2;
  }
  const fs::path folder = fs::path(argv[1]) / "fuzz_weights";
  fs::create_directories(folder);
  smartmine::write_safetensors(folder / "made", {{"w", torch::ones({2, 3})}, {"h", torch::ones({4}, torch::kFloat16)}}, {{"format", "pt"}});
  add(folder, "safetensors", kSafetensors, contents(folder / "made"));
  fs::remove(folder / "made");
  add_pickles(folder);
  add_caffemodels(folder);
  return 0;
}
