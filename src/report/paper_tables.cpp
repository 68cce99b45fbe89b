#include "report/paper_tables.h"

namespace smartmine {
namespace {

constexpr PaperRow kCub200[] = {
    {"semi-hard", "semihard", 55.38, 42.59, 55.03, 66.44, 77.23},
    {"lifted structure", "lifted", 56.50, 43.57, 56.55, 68.59, 79.63},
    {"N-pairs", "npairs", 57.24, 45.37, 58.41, 69.51, 79.49},
    {"triplet + global", "triplet-global", 58.61, 49.04, 60.97, 72.33, 81.85},
    {"clustering", "clustering", 59.23, 48.18, 61.44, 71.83, 81.92},
    {"triplet + FANNG", "triplet-fanng", 58.10, 45.90, 57.65, 69.63, 79.83},
    {"triplet + FANNG + global", "triplet-fanng-global", 60.09, 49.44, 61.60, 73.09, 82.85},
    {"triplet + FANNG + global + adaptive", "triplet-fanng-global-adaptive", 59.90, 49.78, 62.34, 74.05, 83.31},
};

constexpr PaperRow kCars196[] = {
    {"semi-hard", "semihard", 53.35, 51.54, 63.78, 73.52, 82.41},
    {"lifted structure", "lifted", 56.88, 52.98, 65.70, 76.01, 84.27},
    {"N-pairs", "npairs", 57.79, 53.90, 66.76, 77.75, 86.35},
    {"triplet + global", "triplet-global", 58.20, 61.41, 72.51, 81.75, 88.39},
    {"clustering", "clustering", 59.04, 58.11, 70.64, 80.27, 87.81},
    {"triplet + FANNG", "triplet-fanng", 58.24, 56.11, 68.34, 77.99, 85.92},
    {"triplet + FANNG + global", "triplet-fanng-global", 59.70, 64.20, 75.22, 83.24, 88.94},
    {"triplet + FANNG + global + adaptive", "triplet-fanng-global-adaptive", 59.50, 64.65, 76.20, 84.23, 90.19},
};

}  // namespace

std::span<const PaperRow> paper_table(std::string_view dataset) {
  if (dataset == "cub200") return kCub200;
  if (dataset == "cars196") return kCars196;
  return {};
}

}  // namespace smartmine
