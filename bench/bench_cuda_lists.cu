// Exact lists on a GPU: are they right, and how long do they take. Needs nothing but CUDA:
//   nvcc -std=c++20 -O3 -arch=sm_90 -Isrc -Iinclude bench/bench_cuda_lists.cu src/graph/cuda/cuda_knn.cu -o bench_cuda_lists
//   bench_cuda_lists check [CASES|small]   lists of many shapes against distances in double; exit 1 if one is wrong
//   bench_cuda_lists time [ROWS]           a table of times; up to ROWS rows (1,000,000)
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "graph/cuda/cuda_knn.h"

namespace {

using smartmine::cuda::CudaKnn;
using smartmine::cuda::KnnStats;
using smartmine::cuda::KnnTask;
using smartmine::cuda::KnnTuning;

#define CHECK(call)                                                                                   \
  do {                                                                                                \
    const cudaError_t status = (call);                                                                \
    if (status != cudaSuccess) {                                                                      \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status)); \
      std::exit(1);                                                                                   \
    }                                                                                                 \
  } while (false)

template <class Value>
struct Array {
  explicit Array(std::size_t count) : size(count) { CHECK(cudaMalloc(&data, std::max<std::size_t>(1, count) * sizeof(Value))); }
  ~Array() { cudaFree(data); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  std::vector<Value> host() const {
    std::vector<Value> values(size);
    CHECK(cudaMemcpy(values.data(), data, size * sizeof(Value), cudaMemcpyDeviceToHost));
    return values;
  }
  Value* data = nullptr;
  std::size_t size;
};

__host__ __device__ std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
  return x ^ x >> 31;
}
__device__ float normal(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  const std::uint64_t hash = mixed(mixed(mixed(seed) ^ a) ^ b);
  const float u = (static_cast<float>(hash >> 40) + 1) * 0x1p-24F, v = static_cast<float>(hash & 0xffffff) * 0x1p-24F;
  return sqrtf(-2 * logf(u)) * cospif(2 * v);
}

enum Kind { kClasses, kNoise, kEqual, kCopies, kLattice, kTight, kOutliers, kTiled, kFewClusters, kKinds };
const char* const kNames[] = {"classes", "noise", "equal", "copies", "lattice", "tight", "outliers", "tiled", "clusters"};

/// A thread a row.
__global__ void make(float* rows, std::int64_t size, int dimension, int kind, std::uint64_t seed, float scale) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= size) return;
  float* const to = rows + row * dimension;
  double square = 0;
  for (int d = 0; d < dimension; ++d) {
    const float spread = rsqrtf(1.0F + static_cast<float>(d));
    float value = 0;
    switch (kind) {
      case kClasses:  // as bench_neighbors makes them
        value = spread * (normal(seed, row / 30, d) + 0.6F * normal(seed + 1, row, d));
        break;
      case kNoise:
        value = normal(seed, row, d);
        break;
      case kEqual:
        value = normal(seed, 0, d);
        break;
      case kCopies:  // half of all rows are copies of one of a few
        value = mixed(seed ^ row) % 2 == 0 ? normal(seed, mixed(row) % (1 + size / 5000), d) : normal(seed + 1, row, d);
        break;
      case kLattice:
        value = static_cast<float>(static_cast<int>(mixed(mixed(seed + row) ^ d) % 5) - 2);
        break;
      case kTight:  // far too near together for half precision, far from the middle
        value = 1000 + 100 * normal(seed, row % 5, d) + 1e-2F * normal(seed + 1, row, d);
        break;
      case kOutliers:
        value = normal(seed, row, d) * (row % 1000 == 7 ? 1e4F : 1.0F);
        break;
      case kTiled:  // copies of few rows with a little noise
        value = normal(seed, row % (1 + size / 170), d) + 0.02F * normal(seed + 1, row, d);
        break;
      default:  // ten clusters a tenth as wide as they are apart
        value = normal(seed, row % 10, d) + 0.1F * normal(seed + 1, row, d);
    }
    to[d] = value;
    square += static_cast<double>(value) * value;
  }
  const bool unit = kind == kClasses || kind == kTiled || kind == kNoise;
  const double factor = (unit && square > 0 ? 1 / sqrt(square) : 1.0) * scale;
  for (int d = 0; d < dimension; ++d) to[d] = static_cast<float>(to[d] * factor);
}

void fill(Array<float>& rows, std::size_t size, std::size_t dimension, int kind, std::uint64_t seed, float scale = 1) {
  make<<<static_cast<unsigned>((size + 127) / 128), 128>>>(rows.data, static_cast<std::int64_t>(size), static_cast<int>(dimension), kind,
                                                           seed, scale);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
}

/// Squared distances in double from some rows to all.
__global__ void measure_truth(const float* rows, std::int64_t size, int dimension, const std::uint32_t* queries, double* squared) {
  const std::int64_t other = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (other >= size) return;
  const std::int64_t query = queries[blockIdx.y];
  double sum = 0;
  for (int d = 0; d < dimension; ++d) {
    const double difference = static_cast<double>(rows[query * dimension + d]) - rows[other * dimension + d];
    sum += difference * difference;
  }
  squared[blockIdx.y * size + other] = sum;
}

/// Holds the lists of some rows against distances in double. Returns the number of wrong lists and says what is wrong with the first.
int wrong_lists(const Array<float>& rows, std::size_t size, std::size_t dimension, std::size_t neighbors,
                const std::vector<std::uint32_t>& ids, const std::vector<float>& distances, const std::vector<std::uint32_t>& queries,
                bool exact_arithmetic) {
  int wrong = 0;
  const auto complain = [&](std::uint32_t query, const char* what, double a, double b) {
    if (wrong++ < 2) std::printf("  row %u: %s (%.9g, %.9g)\n", query, what, a, b);
  };
  constexpr std::size_t kBatch = 256;
  const double rounding = (static_cast<double>(dimension) + 8) * 0x1p-23;
  for (std::size_t from = 0; from < queries.size(); from += kBatch) {
    const std::size_t count = std::min(kBatch, queries.size() - from);
    Array<std::uint32_t> some(count);
    Array<double> squared(count * size);
    CHECK(cudaMemcpy(some.data, queries.data() + from, count * sizeof(std::uint32_t), cudaMemcpyHostToDevice));
    measure_truth<<<dim3(static_cast<unsigned>((size + 127) / 128), static_cast<unsigned>(count)), 128>>>(
        rows.data, static_cast<std::int64_t>(size), static_cast<int>(dimension), some.data, squared.data);
    CHECK(cudaGetLastError());
    const std::vector<double> truth = squared.host();
    std::vector<char> listed(size);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t query = queries[from + i];
      const double* const true_squared = truth.data() + i * size;
      const std::uint32_t* const list = ids.data() + static_cast<std::size_t>(query) * neighbors;
      const float* const reported = distances.data() + static_cast<std::size_t>(query) * neighbors;
      std::fill(listed.begin(), listed.end(), 0);
      const int before = wrong;
      for (std::size_t j = 0; j < neighbors && wrong == before; ++j) {
        const double tolerance = true_squared[list[j] < size ? list[j] : 0] * rounding + 1e-37;
        if (list[j] >= size || list[j] == query) {
          complain(query, "no neighbour's id", list[j], static_cast<double>(j));
        } else if (listed[list[j]]++) {
          complain(query, "an id twice", list[j], static_cast<double>(j));
        } else if (!(std::abs(reported[j] - true_squared[list[j]]) <= tolerance)) {
          complain(query, "a wrong distance", reported[j], true_squared[list[j]]);
        } else if (j > 0 && !(reported[j] > reported[j - 1] || (reported[j] == reported[j - 1] && list[j] > list[j - 1]))) {
          complain(query, "not in order", reported[j - 1], reported[j]);
        }
      }
      if (wrong != before) continue;
      const double last = reported[neighbors - 1];
      for (std::size_t other = 0; other < size && wrong == before; ++other) {
        if (listed[other] || other == query) continue;
        if (true_squared[other] < last * (1 - 2 * rounding) - 1e-37)
          complain(query, "a nearer row was left out", true_squared[other], last);
        if (exact_arithmetic && true_squared[other] == last && other < list[neighbors - 1])
          complain(query, "an equally near row of lower id was left out", static_cast<double>(other), list[neighbors - 1]);
      }
    }
  }
  return wrong;
}

std::vector<std::uint32_t> some_rows(std::size_t size, std::size_t count) {
  std::vector<std::uint32_t> rows;
  for (std::size_t i = 0; i < std::min(size, count); ++i) rows.push_back(static_cast<std::uint32_t>(size <= count ? i : mixed(i) % size));
  return rows;
}

struct Case {
  int kind;
  std::size_t size, dimension, neighbors;
  float scale = 1;
  KnnTuning tuning = {};
  std::size_t first = 0, count = 0;  // count 0: all
};

struct Outcome {
  int wrong = 0;
  KnnStats stats;
};

Outcome run_case(CudaKnn& search, const Case& c, std::size_t checked, std::uint64_t seed) {
  Array<float> rows(c.size * c.dimension);
  fill(rows, c.size, c.dimension, c.kind, seed, c.scale);
  Array<std::uint32_t> ids(c.size * c.neighbors);
  Array<float> distances(c.size * c.neighbors);
  CHECK(cudaMemset(ids.data, 0xff, ids.size * sizeof(std::uint32_t)));
  CHECK(cudaMemset(distances.data, 0xff, distances.size * sizeof(float)));
  CHECK(cudaDeviceSynchronize());  // the search has a stream of its own
  const std::size_t count = c.count == 0 ? c.size : c.count;
  Outcome outcome;
  outcome.stats = search.find({rows.data, c.size, c.dimension, c.first, count, c.neighbors, ids.data + c.first * c.neighbors,
                               distances.data + c.first * c.neighbors},
                              c.tuning);
  std::vector<std::uint32_t> queries = some_rows(count, checked);
  for (std::uint32_t& query : queries) query += static_cast<std::uint32_t>(c.first);
  const bool exact_arithmetic = c.kind == kLattice || c.kind == kEqual;
  outcome.wrong = wrong_lists(rows, c.size, c.dimension, c.neighbors, ids.host(), distances.host(), queries, exact_arithmetic);
  const KnnStats& s = outcome.stats;
  if (s.certified + s.again + s.scanned + s.equal != count) {
    std::printf("  counts do not add up\n");
    ++outcome.wrong;
  }
  return outcome;
}

int check(int random_cases, bool small) {
  CudaKnn search(0);
  std::vector<Case> cases;
  const KnnTuning products{.always_products = true};
  // Shapes at the edges of tiles, blocks and paths.
  for (const std::size_t size : {2, 3, 17, 63, 64, 65, 513, 1000, 2049, 4096, 4097, 5000})
    for (const std::size_t dimension : {1, 3, 16, 64, 65}) {
      cases.push_back({kNoise, size, dimension, std::min<std::size_t>(size - 1, 100)});
      cases.push_back({kClasses, size, dimension, std::min<std::size_t>(size - 1, 10), 1, products});
    }
  for (const std::size_t dimension : {2, 7, 31, 32, 33, 95, 96, 97, 100, 127, 128, 129, 200, 255, 256, 257, 384, 511, 512, 513, 700, 2048})
    for (int variant = 0; variant < smartmine::cuda::kKnnVariants; ++variant)
      cases.push_back({kClasses, 4500 + dimension, dimension, variant % 2 == 0 ? 100U : 200U, 1, {.variant = variant}});
  for (const std::size_t neighbors : {1, 2, 5, 15, 16, 17, 50, 99, 200, 500, 1000, 1024}) cases.push_back({kNoise, 20001, 64, neighbors});
  for (int kind = 0; kind < kKinds; ++kind)
    for (const std::size_t dimension : {3, 64, 130}) {
      cases.push_back({kind, 5000, dimension, 100});
      cases.push_back({kind, 30011, dimension, 20});
      cases.push_back({kind, 3000, dimension, 30, 1, products});
    }
  for (const float scale : {1e-30F, 1e-18F, 1e-6F, 1e6F, 1e14F}) cases.push_back({kClasses, 6000, 64, 50, scale});
  cases.push_back({kNoise, 9000, 64, 50, 1, {.capacity = 128}});                    // most rows have too little room
  cases.push_back({kNoise, 20000, 64, 100, 1, {.batch_rows = 1000}});               // batches
  cases.push_back({kClasses, 20000, 64, 100, 1, {.batch_rows = 777}, 5001, 9999});  // some of the rows
  cases.push_back({kClasses, 20000, 63, 100, 1, {}, 19999, 1});
  std::mt19937_64 random(7);
  for (int i = 0; i < random_cases; ++i) {
    Case c;
    c.kind = static_cast<int>(random() % kKinds);
    c.size = 2 + random() % 12000;
    c.dimension = 1 + random() % (random() % 4 == 0 ? 512 : 130);
    c.neighbors = 1 + random() % std::min<std::size_t>(c.size - 1, 200);
    c.tuning.variant = static_cast<int>(random() % smartmine::cuda::kKnnVariants);
    c.tuning.always_products = random() % 2 == 0;
    cases.push_back(c);
  }
  if (small) {  // for tools that make everything a hundred times slower
    cases = {{kNoise, 300, 65, 20},
             {kClasses, 700, 33, 20, 1, products},
             {kClasses, 1200, 64, 50, 1, {.variant = 1, .capacity = 256, .always_products = true}},
             {kClasses, 1100, 128, 50, 1, {.variant = 2, .capacity = 256, .always_products = true}},
             {kCopies, 1500, 64, 30, 1, {.variant = 3, .capacity = 64, .batch_rows = 900, .always_products = true}},
             {kEqual, 1025, 20, 30, 1, products},
             {kNoise, 900, 200, 10, 1, products},
             {kNoise, 4200, 520, 10, 1, {}, 17, 60}};
  }
  int wrong_cases = 0;
  KnnStats all;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    Outcome outcome;
    try {
      outcome = run_case(search, c, 1000, 11 + i);
    } catch (const std::exception& error) {
      std::printf("  %s\n", error.what());
      outcome.wrong = -1;
    }
    all.certified += outcome.stats.certified;
    all.again += outcome.stats.again;
    all.scanned += outcome.stats.scanned;
    all.equal += outcome.stats.equal;
    if (outcome.wrong != 0) {
      ++wrong_cases;
      std::printf("WRONG (%d lists): %s, %zu x %zu, k %zu, scale %g, variant %d, products %d\n", outcome.wrong, kNames[c.kind], c.size,
                  c.dimension, c.neighbors, static_cast<double>(c.scale), c.tuning.variant, static_cast<int>(c.tuning.always_products));
      if (wrong_cases > 12) break;
    }
  }
  std::printf("%zu cases, %d wrong; rows certified %llu, again %llu, scanned %llu, equal %llu\n", cases.size(), wrong_cases,
              static_cast<unsigned long long>(all.certified), static_cast<unsigned long long>(all.again),
              static_cast<unsigned long long>(all.scanned), static_cast<unsigned long long>(all.equal));
  return wrong_cases == 0 ? 0 : 1;
}

/// Times of a case, the fastest of `runs` after one that is not counted.
int time_case(CudaKnn& search, const Case& c, int runs) {
  Array<float> rows(c.size * c.dimension);
  fill(rows, c.size, c.dimension, c.kind, 5, c.scale);
  Array<std::uint32_t> ids(c.size * c.neighbors);
  Array<float> distances(c.size * c.neighbors);
  CHECK(cudaMemset(ids.data, 0xff, ids.size * sizeof(std::uint32_t)));
  CHECK(cudaDeviceSynchronize());
  KnnStats best;
  std::vector<double> all;
  for (int run = 0; run <= runs; ++run) {
    const KnnStats stats = search.find({rows.data, c.size, c.dimension, 0, c.size, c.neighbors, ids.data, distances.data}, c.tuning);
    if (run == 0 && runs > 0) continue;
    all.push_back(stats.seconds);
    if (run <= 1 || stats.seconds < best.seconds) best = stats;
  }
  std::sort(all.begin(), all.end());
  const int wrong =
      wrong_lists(rows, c.size, c.dimension, c.neighbors, ids.host(), distances.host(), some_rows(c.size, 64), c.kind == kEqual);
  const double pairs = static_cast<double>(c.size) * static_cast<double>(c.size);
  std::printf(
      "| %-8s | %8zu | %4zu | %4zu | %2d | %8.1f | %8.1f | %6.1f | %6.1f | %8.1f | %6.1f | %8.1f | %6.1f | %7llu | %7llu | %7llu | %5.0f | "
      "%s |\n",
      kNames[c.kind], c.size, c.dimension, c.neighbors, c.tuning.variant, 1e3 * all[all.size() / 2], 1e3 * all[0],
      1e3 * best.prepare_seconds, 1e3 * best.threshold_seconds, 1e3 * best.product_seconds, 1e3 * best.measure_seconds,
      1e3 * best.again_seconds, static_cast<double>(best.candidates) / static_cast<double>(c.size),
      static_cast<unsigned long long>(best.again), static_cast<unsigned long long>(best.scanned),
      static_cast<unsigned long long>(best.equal), best.product_seconds > 0 ? 2e-12 * pairs * c.dimension / best.product_seconds : 0.0,
      wrong == 0 ? "right" : "WRONG");
  std::fflush(stdout);
  return wrong == 0 ? 0 : 1;
}

int time_all(std::size_t most) {
  CudaKnn search(0);
  std::printf(
      "milliseconds on the device, median and fastest of 5 (3 from a million on), stages of the fastest; rows by how they were done\n"
      "| rows     |     size |  dim |    k |  v |   median |     best |  prep. |  thres |  product |  meas. |    again | cand/r |   again "
      "| scanned |   equal | TFLOPs | |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  int wrong = 0;
  std::vector<Case> cases;
  for (int variant = 0; variant < smartmine::cuda::kKnnVariants; ++variant)
    cases.push_back({kClasses, 100000, 64, 100, 1, {.variant = variant}});
  for (int variant = 0; variant < smartmine::cuda::kKnnVariants; ++variant)
    cases.push_back({kClasses, 1000000, 64, 100, 1, {.variant = variant}});
  for (int variant = 0; variant < smartmine::cuda::kKnnVariants; ++variant)
    cases.push_back({kClasses, 1000000, 128, 100, 1, {.variant = variant}});
  cases.push_back({kClasses, 1000000, 64, 200});
  cases.push_back({kClasses, 1000000, 64, 10});
  cases.push_back({kClasses, 1000000, 32, 100});
  for (int variant = 0; variant < smartmine::cuda::kKnnVariants; ++variant)
    cases.push_back({kClasses, 200000, 256, 100, 1, {.variant = variant}});
  for (int variant = 0; variant < smartmine::cuda::kKnnVariants; ++variant)
    cases.push_back({kClasses, 100000, 512, 100, 1, {.variant = variant}});
  cases.push_back({kClasses, 10000, 64, 100});
  for (const int kind : {kNoise, kEqual, kCopies, kTiled, kFewClusters, kOutliers}) {
    cases.push_back({kind, 100000, 64, 100});
    if (kind != kOutliers) cases.push_back({kind, 1000000, 64, 100});
  }
  cases.push_back({kTight, 30000, 64, 100});
  for (const Case& c : cases) {
    if (c.size > most) continue;
    try {
      wrong += time_case(search, c, c.size >= 1000000 ? (c.kind == kClasses ? 3 : 1) : 5);
    } catch (const std::exception& error) {
      std::printf("%s, %zu x %zu: %s\n", kNames[c.kind], c.size, c.dimension, error.what());
      ++wrong;
    }
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "";
  const long number = count > 2 ? std::atol(arguments[2]) : 0;
  try {
    if (what == "check") return check(count > 2 ? static_cast<int>(number) : 100, count > 2 && std::string(arguments[2]) == "small");
    if (what == "time") return time_all(count > 2 ? static_cast<std::size_t>(number) : 1000000);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_cuda_lists: %s\n", error.what());
    return 1;
  }
  std::fprintf(stderr, "usage: bench_cuda_lists check [CASES|small] | time [ROWS]\n");
  return 2;
}
