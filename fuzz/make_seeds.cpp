// Writes real files of every kind, small ones, for the fuzzers to start from: make_seeds FOLDER
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "../tests/data/made_mat.h"
#include "smartmine/core/npy.h"
#include "smartmine/core/random.h"
#include "smartmine/data/image.h"
#include "smartmine/graph/fanng.h"
#include "smartmine/run/checkpoint.h"
#include "smartmine/run/choice.h"
#include "smartmine/run/config.h"
#include "smartmine/run/epoch_record.h"

namespace {

using namespace smartmine;
namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Seeds {
 public:
  explicit Seeds(fs::path root) : root_(std::move(root)) {}

  /// `choice` is the first byte, by which a fuzzer with several readers takes one.
  void add(const std::string& target, const std::string& bytes, int choice = -1) {
    const fs::path folder = root_ / target;
    fs::create_directories(folder);
    std::ofstream file(folder / ("seed-" + std::to_string(number_++)), std::ios::binary);
    if (choice >= 0) file << static_cast<char>(choice);
    file << bytes;
  }

 private:
  fs::path root_;
  int number_ = 0;
};

Image made_image(std::size_t width, std::size_t height) {
  Image image(width, height);
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < 3 * width; ++x) image.row(y)[x] = static_cast<std::uint8_t>(x * 7 + y * 13);
  return image;
}

std::string text(const std::vector<std::byte>& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

void add_vectors(Seeds& seeds, const fs::path& room) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> labels = {3, -1, 7};
  write_npy(room / "e.npy", std::span<const float>(values), {3, 2});
  write_npy(room / "l.npy", std::span<const std::int64_t>(labels), {3});
  seeds.add("fuzz_readers", contents(room / "e.npy"), 0);
  const std::string row = test::raw(std::vector<std::int32_t>{2}) + test::raw(std::vector<float>{1, 2});
  seeds.add("fuzz_readers", row + row, 1);
  seeds.add("fuzz_readers", test::raw(std::vector<std::int32_t>{3, 2}) + test::raw(values), 2);
  seeds.add("fuzz_readers", contents(room / "l.npy"), 3);
  seeds.add("fuzz_readers", test::raw(std::vector<std::int32_t>{2, 0, 1, 2, 1, 2}), 4);
  seeds.add("fuzz_readers", contents(room / "l.npy"), 5);
  const std::vector<float> rows = [] {
    Random random(1);
    std::vector<float> made(40 * 4);
    for (float& value : made) value = static_cast<float>(random.normal());
    return made;
  }();
  FanngOptions options;
  options.neighbors = 5;
  for (const bool again : {false, true}) {
    options.refreshable = again;
    build_fanng(Rows(rows.data(), 40, 4), options).graph.save(room / "graph");
    seeds.add("fuzz_graph", contents(room / "graph"));
  }
}

void add_annotations(Seeds& seeds) {
  using namespace test;
  const std::string annotations =
      mat_struct("annotations", 2, {"bbox_x1", "fname", "class"},
                 {mat_double(7), mat_text("1.jpg"), mat_byte(4), mat_double(1), mat_text("2.jpg"), mat_nothing()});
  const std::string names = mat_cell("class_names", {mat_text("Audi"), mat_text("Seat")});
  seeds.add("fuzz_mat", mat_file(annotations + names));
  seeds.add("fuzz_mat", mat_file(mat_packed(annotations) + mat_packed(names)));
}

void add_texts(Seeds& seeds) {
  EpochRecord record;
  record.epoch = 3;
  record.steps = 10;
  record.notes = {"a note"};
  record.distances.emplace();
  record.distances->positive.assign(DistanceCounts::kBins, 1);
  record.distances->negative.assign(DistanceCounts::kBins, 2);
  record.mining.emplace();
  record.metrics.emplace();
  const std::string line = to_json_line(record);
  TrainState state;
  state.record = line;
  for (const int which : {0, 5}) seeds.add("fuzz_texts", to_toml(RunConfig{}), which);
  seeds.add("fuzz_texts", "[train.npairs]\nlearning-rate = 0.5\n", 0);
  seeds.add("fuzz_texts", line + "\n" + line + "\n", 1);
  seeds.add("fuzz_texts", to_json(state), 2);
  seeds.add("fuzz_texts", "path,label,class_name\n\"a, b.jpg\",1,\"x \"\"y\"\"\"\nc.jpg,2,z\n", 3);
  seeds.add("fuzz_texts", "1 001.Black/a.jpg\n2 001.Black/b.jpg\n", 4);
  seeds.add("fuzz_texts", to_json(Choice{.trials = {{.name = "a"}}, .interpolations = {{}}}), 6);
  seeds.add("fuzz_texts", line, 7);
  const std::string picture = R"({"name": "a", "class": "b", "image": "data:image/jpeg;base64,AA==", "distance": 0.5})";
  const std::string triplet = R"({"positive": )" + picture + R"(, "negative": )" + picture + R"(, "kind": "mined"})";
  seeds.add(
      "fuzz_run_files",
      R"({"epoch": 1, "kappa": 2.5, "anchors": [{"name": "x", "class": "b", "image": null, "mined": [)" + triplet + R"(], "random": []}]})",
      0);
  seeds.add(
      "fuzz_run_files",
      R"({"split": "test", "names": ["a", "b"], "labels": [0, 0], "classes": [{"label": 0, "name": "c"}], "image_offsets": [0, 30, 63]})",
      1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: make_seeds FOLDER\n", stderr);
    return 2;
  }
  Seeds seeds(argv[1]);
  const fs::path room = fs::path(argv[1]) / "room";
  fs::create_directories(room);
  add_vectors(seeds, room);
  for (const Image& image : {made_image(9, 7), made_image(24, 20)}) {
    seeds.add("fuzz_images", text(encode_jpeg(image, 80)), 0);
    seeds.add("fuzz_images", text(encode_png(image)), 0x11);
  }
  add_annotations(seeds);
  add_texts(seeds);
  fs::remove_all(room);
  return 0;
}
