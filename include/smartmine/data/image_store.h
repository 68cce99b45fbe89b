#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "smartmine/core/progress.h"
#include "smartmine/data/dataset.h"

namespace smartmine {

/// How an image is brought to the store's size.
enum class ResizeMode {
  kSquash,  ///< All of it, whatever its shape.
  kCover,   ///< The largest centred part of the right shape.
};

/// Options for an ImageStore.
struct ImageStoreOptions {
  std::size_t width = 256;
  std::size_t height = 256;
  std::size_t channels = 3;  ///< 3: RGB, 1: grey.
  ResizeMode resize = ResizeMode::kSquash;
  std::size_t cache_bytes = std::size_t{2} << 30;       ///< Most memory for images kept; 0 keeps none.
  unsigned threads = 0;                                 ///< 0: all cores. Never changes the result.
  bool skip_bad_images = false;                         ///< `check_all` drops bad images instead of throwing.
  std::size_t max_pixels = DecodeOptions().max_pixels;  ///< Larger images are bad.
  void validate() const;                                ///< Throws InvalidArgument naming the field, its value and the allowed range.
};

/// An image that could not be decoded.
struct BadImage {
  std::string id;
  std::string reason;  ///< One line with the path.
};

/// What a store has done so far.
struct ImageStoreStats {
  std::size_t served = 0;         ///< Images copied out by `get`.
  std::size_t decoded = 0;        ///< Images decoded or drawn, for `get`, `prefetch` and `check_all`.
  std::size_t cached_images = 0;  ///< Images kept now.
  std::size_t cached_bytes = 0;
};

/// For several processes that check one data set together: this one decodes the items from `begin` to `end`; of the others it looks only
/// whether their files are there.
struct CheckShare {
  std::size_t begin = 0;
  std::size_t end = 0;
  /// Puts together what each process found wrong, by item, so that all have the same; empty: nothing is.
  std::function<void(std::vector<std::string>& reasons)> merge;
};

/// The images of a data set at one size, decoded by worker threads and kept while there is room. The first images to come are the ones
/// kept: with every epoch in another order no choice does better, and none is decoded twice if all fit. All calls are safe from several
/// threads except `check_all`, which must run alone.
class ImageStore {
 public:
  explicit ImageStore(Dataset dataset, const ImageStoreOptions& options = {});
  ~ImageStore();
  ImageStore(const ImageStore&) = delete;
  ImageStore& operator=(const ImageStore&) = delete;

  /// Decodes every image once, keeping those there is room for; what a first epoch would do anyway. With skip_bad_images, bad ones are
  /// dropped: the data set shrinks, its items move up, and nobody meets a bad image afterwards. Otherwise throws IoError naming the first
  /// bad image and how many more there are. Throws IoError if no image is left. With a `share`, all processes call it.
  void check_all(const Progress& progress = {}, const CheckShare* share = nullptr);
  /// Those dropped by `check_all`, in the order of the data set.
  std::span<const BadImage> bad_images() const;

  /// The data set whose items `get` counts: the one given, less what `check_all` dropped.
  const Dataset& dataset() const;
  const ImageStoreOptions& options() const;
  /// Bytes of one image: height * width * channels.
  std::size_t image_bytes() const;

  /// Fills `out` with the images of `items`, one after the other, each height x width x channels. Decodes what is not at hand on all worker
  /// threads. Throws IoError naming the first bad image in the order of `items`.
  void get(std::span<const std::size_t> items, std::uint8_t* out);

  /// Starts decoding images that will be asked for soon and returns at once. Beyond the cache, the images of the two latest calls are held
  /// until they are got. A bad image is left for `get` to report.
  void prefetch(std::span<const std::size_t> items);

  ImageStoreStats stats() const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace smartmine
