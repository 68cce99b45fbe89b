// Makes something to try smartmine on: unit vectors in clusters, as trained embeddings are, and the cluster of each.
//   make_embeddings ROWS DIMENSION PREFIX [EPOCHS [KIND]]
// writes PREFIX.0.npy, PREFIX.1.npy ... (float32; each epoch the rows move a little) and PREFIX.labels.npy (int64).
// KIND: classes (later dimensions vary less), flat (all vary alike) or noise (no classes, and all vary alike).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "smartmine/core/npy.h"
#include "smartmine/core/random.h"

namespace {

constexpr std::size_t kRowsPerCluster = 30;
constexpr double kClusterWidth = 0.6;  // against centres of width 1
constexpr double kStep = 0.02;         // how far a row moves in an epoch
constexpr std::uint64_t kSeed = 7;

struct Kind {
  bool falling = true;  // later dimensions vary less, as those of trained embeddings do
  bool classes = true;
  double spread(std::size_t j) const { return falling ? 1.0 / std::sqrt(1.0 + static_cast<double>(j)) : 1.0; }
};

void fill_row(float* row, std::size_t dimension, std::size_t index, std::size_t cluster, std::size_t epoch, const Kind& kind) {
  smartmine::Random centre(kSeed, 0, cluster);
  smartmine::Random within(kSeed, 1, index);
  for (std::size_t j = 0; j < dimension; ++j) {
    const double middle = kind.classes ? centre.normal() : 0.0;
    const double value = (middle + kClusterWidth * within.normal()) * kind.spread(j);
    row[j] = static_cast<float>(value);
  }
  for (std::size_t step = 1; step <= epoch; ++step) {
    smartmine::Random move(kSeed, 1 + step, index);
    for (std::size_t j = 0; j < dimension; ++j)
      row[j] += static_cast<float>(kStep * move.normal() / (kind.falling ? std::sqrt(1.0 + static_cast<double>(j)) : 1.0));
  }
  double squared = 0;
  for (std::size_t j = 0; j < dimension; ++j) squared += static_cast<double>(row[j]) * static_cast<double>(row[j]);
  const auto length = static_cast<float>(std::sqrt(squared));
  for (std::size_t j = 0; j < dimension; ++j) row[j] /= length;
}

void make(std::size_t rows, std::size_t dimension, const std::string& prefix, std::size_t epochs, const Kind& kind) {
  const std::size_t clusters = std::max<std::size_t>(1, rows / kRowsPerCluster);
  std::vector<std::int64_t> labels(rows);
  for (std::size_t i = 0; i < rows; ++i) labels[i] = static_cast<std::int64_t>(i % clusters);
  std::vector<float> values(rows * dimension);
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    for (std::size_t i = 0; i < rows; ++i) fill_row(&values[i * dimension], dimension, i, i % clusters, epoch, kind);
    smartmine::write_npy(prefix + "." + std::to_string(epoch) + ".npy", std::span<const float>(values), {rows, dimension});
  }
  smartmine::write_npy(prefix + ".labels.npy", std::span<const std::int64_t>(labels), {rows});
}

// The number `text` is, 0 if it is none.
std::size_t number(const std::string& text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::size_t rows = words.empty() ? 0 : number(words[0]);
  const std::size_t dimension = words.size() < 2 ? 0 : number(words[1]);
  const std::size_t epochs = words.size() < 4 ? 1 : number(words[3]);
  const std::string kind = words.size() < 5 ? "classes" : words[4];
  const bool known = kind == "classes" || kind == "flat" || kind == "noise";
  if (words.size() < 3 || words.size() > 5 || rows == 0 || dimension == 0 || epochs == 0 || !known) {
    std::cerr << "usage: make_embeddings ROWS DIMENSION PREFIX [EPOCHS [classes|flat|noise]]\n";
    return 2;
  }
  try {
    make(rows, dimension, words[2], epochs, {.falling = kind == "classes", .classes = kind != "noise"});
  } catch (const std::exception& error) {
    std::cerr << "make_embeddings: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
