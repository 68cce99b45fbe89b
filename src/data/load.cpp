#include "smartmine/data/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "smartmine/core/error.h"
#include "smartmine/data/cars196.h"
#include "smartmine/data/cub200.h"
#include "smartmine/data/folder.h"
#include "smartmine/data/glyphs.h"
#include "smartmine/data/omniglot.h"

namespace smartmine {
namespace {

struct Loader {
  const char* name;
  DataSplits (*load)(const std::filesystem::path& root);
  bool needs_root = true;
};

constexpr std::array<Loader, 5> kLoaders = {{{"glyphs", [](const std::filesystem::path&) { return make_glyphs(); }, false},
                                             {"omniglot", load_omniglot},
                                             {"cub200", load_cub200},
                                             {"cars196", load_cars196},
                                             {"folder", load_folder}}};

}  // namespace

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  for (const Loader& loader : kLoaders) names.emplace_back(loader.name);
  return names;
}

DataSplits load_dataset(const std::string& name, const std::filesystem::path& root) {
  for (const Loader& loader : kLoaders) {
    if (name != loader.name) continue;
    if (loader.needs_root && root.empty())
      throw InvalidArgument(fmt::format("data_root is empty; it must be the folder that holds {}", name));
    return loader.load(root);
  }
  throw InvalidArgument(fmt::format("dataset is '{}'; it must be one of {}", name, fmt::join(dataset_names(), ", ")));
}

}  // namespace smartmine
