#pragma once

#include <cstddef>
#include <string>

#include "smartmine/core/progress.h"
#include "smartmine/core/rows.h"
#include "smartmine/graph/neighbor_index.h"
#include "smartmine/graph/neighbors.h"

namespace smartmine {

/// Longest lists that are found on a GPU.
constexpr std::size_t kLongestGpuLists = 1024;
/// Most dimensions of rows whose lists are found on a GPU.
constexpr std::size_t kMostGpuDimensions = 8192;

/// GPUs that exact lists can be found on; 0 in a build without CUDA.
int gpu_count();
/// Why there are none, in words that end a sentence; empty if there are some.
std::string why_no_gpu();

/// Which GPU begins.
struct GpuPlace {
  int gpu = 0;
  bool alone = false;           ///< Leave the other GPUs alone: they are somebody else's.
  const float* rows = nullptr;  ///< All rows, if they are on that GPU already, one after the other. All work on them must be done.
};

/// Exact lists of `wanted` rows among all, found on the GPUs there are: each has all rows and finds a share of the lists. The result is
/// that of plain float distances, ties to the lower id, whatever rows are wanted together; the stats tell how many rows were certain at the
/// first attempt. `lists` makes the lists. Throws InvalidArgument if there is no GPU, lists are too long, rows have too many dimensions or
/// are wanted that there are not, Error if a GPU fails or has too little memory, Cancelled.
NeighborResult find_gpu_lists(const Rows& rows, RowRange wanted, std::size_t neighbors, const Progress& progress = {},
                              const GpuPlace& place = {}, const ListMaker& lists = {});
/// Of all rows.
NeighborResult find_gpu_lists(const Rows& rows, std::size_t neighbors, const Progress& progress = {});

/// That search for a NeighborCall; empty where there is no GPU, or lists are too long or rows of too many dimensions for one.
DeviceSearch gpu_search(std::size_t neighbors, std::size_t dimension, const GpuPlace& place = {});

}  // namespace smartmine
