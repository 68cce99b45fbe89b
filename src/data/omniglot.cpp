#include "smartmine/data/omniglot.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "data/image_files.h"
#include "smartmine/core/error.h"

namespace smartmine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHint = "give the folder that holds images_background and images_evaluation";

fs::path find_root(const fs::path& root) {
  require_folder(root, kHint);
  std::error_code ignored;
  for (const char* below : {"", "python", "omniglot", "omniglot/python", "omniglot-py"}) {
    const fs::path candidate = *below == '\0' ? root : root / below;
    if (fs::is_directory(candidate / "images_background", ignored) || fs::is_directory(candidate / "images_evaluation", ignored))
      return candidate;
  }
  throw IoError(fmt::format("{}: there is no images_background in this folder; {}", root.string(), kHint));
}

DatasetContents read_half(const fs::path& root, const char* half, std::int64_t first_label) {
  require_folder(root / half, kHint);
  DatasetContents contents;
  contents.name = "omniglot";
  contents.root = root;
  contents.notes = "Omniglot: the characters of images_background train, those of images_evaluation test.";
  ListingCounts counts;
  for (const std::string& alphabet : folders_in(root / half))
    for (const ImageFolder& character : image_folders(root / half / alphabet, counts)) {
      const std::string name = alphabet + "/" + character.name;
      if (character.images.empty())
        throw IoError(fmt::format("{}: there is no image in this folder; unpack the data set again", (root / half / name).string()));
      const std::int64_t label = first_label + static_cast<std::int64_t>(contents.classes.size());
      contents.classes.push_back({label, name});
      for (const std::string& image : character.images) contents.items.push_back({fmt::format("{}/{}/{}", half, name, image), label, 0});
    }
  if (contents.classes.size() < 2)
    throw IoError(fmt::format("{}: found {} characters in folders alphabet/character; at least 2 are needed", (root / half).string(),
                              contents.classes.size()));
  return contents;
}

}  // namespace

DataSplits load_omniglot(const fs::path& given_root) {
  const fs::path root = find_root(given_root);
  DatasetContents train = read_half(root, "images_background", 0);
  train.split = "train";
  DatasetContents test = read_half(root, "images_evaluation", static_cast<std::int64_t>(train.classes.size()));
  test.split = "test";
  return {Dataset(std::move(train)), Dataset(std::move(test)), std::nullopt};
}

}  // namespace smartmine
