#include "smartmine/data/image_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "smartmine/core/error.h"
#include "smartmine/core/parallel.h"

namespace smartmine {
namespace {

using Pixels = std::shared_ptr<const std::vector<std::uint8_t>>;

/// Images smaller than this all told are copied faster than workers are woken.
constexpr std::size_t kCopyAlone = std::size_t{1} << 20;

void check_range(const char* field, std::size_t value, std::size_t low, std::size_t high) {
  if (value < low || value > high) throw InvalidArgument(fmt::format("{} is {}; it must be {} to {}", field, value, low, high));
}

}  // namespace

void ImageStoreOptions::validate() const {
  constexpr std::size_t kMostSide = 16384;
  check_range("width", width, 1, kMostSide);
  check_range("height", height, 1, kMostSide);
  if (channels != 1 && channels != 3) throw InvalidArgument(fmt::format("channels is {}; it must be 1 or 3", channels));
  check_range("threads", threads, 0, 4096);
  DecodeOptions decode;
  decode.max_pixels = max_pixels;
  decode.validate();
}

/// Everything but the public face.
class ImageStore::Work {
 public:
  Work(Dataset dataset, const ImageStoreOptions& options)
      : dataset_(std::move(dataset)),
        options_(options),
        entries_(dataset_.size()),
        image_bytes_(options.width * options.height * options.channels) {
    room_ = options_.cache_bytes / image_bytes_;
    // The thread that calls get works too, but is away between calls, when announced images are decoded.
    const unsigned workers = std::max(1U, resolve_threads(options_.threads) - 1);
    try {
      for (unsigned i = 0; i < workers; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      // No more threads to be had; the caller's own does what is left to do.
    }
  }

  ~Work() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    work_arrived_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  void get(std::span<const std::size_t> items, std::uint8_t* out);
  void prefetch(std::span<const std::size_t> items);
  void check_all(const Progress& progress, const CheckShare* share);
  ImageStoreStats stats() const;

  const Dataset& dataset() const { return dataset_; }
  const ImageStoreOptions& options() const { return options_; }
  std::span<const BadImage> bad_images() const { return bad_images_; }
  std::size_t image_bytes() const { return image_bytes_; }

 private:
  enum class Holding : std::uint8_t { kNothing, kLoading, kUntilGot, kForGood };

  struct Entry {
    Pixels pixels;
    Holding holding = Holding::kNothing;
    std::uint64_t announcement = 0;  // the latest prefetch that asked for it
  };

  /// A call of get, cut into images. Lives on the caller's stack; the queue holds it while there are images to start.
  struct Request {
    std::span<const std::size_t> items;
    std::uint8_t* out = nullptr;
    std::size_t next = 0;      // first image nobody has started on
    std::size_t finished = 0;  // images done, well or badly
    std::size_t first_bad = 0;
    std::exception_ptr failure;
  };

  void work();
  std::vector<std::string> reasons_against(const Progress& progress, const CheckShare* share);
  void serve_next(Request& request, std::unique_lock<std::mutex>& lock);
  Pixels load(std::size_t item, bool until_got, std::unique_lock<std::mutex>& lock);
  Pixels decode(std::size_t item) const;
  /// Takes back an announcement and lets go of what was held for it.
  static void forget(Entry& entry) {
    entry.announcement = 0;
    if (entry.holding != Holding::kUntilGot) return;
    entry.pixels.reset();
    entry.holding = Holding::kNothing;
  }
  void check_item(std::size_t item) const {
    if (item >= dataset_.size()) throw InvalidArgument(fmt::format("item is {}; it must be 0 to {}", item, dataset_.size() - 1));
  }

  Dataset dataset_;
  const ImageStoreOptions options_;
  std::vector<Entry> entries_;
  std::size_t image_bytes_;
  std::size_t room_ = 0;  // images the cache may hold
  std::vector<BadImage> bad_images_;

  mutable std::mutex mutex_;  // guards everything below, and the entries
  std::condition_variable work_arrived_;
  std::condition_variable image_loaded_;
  std::condition_variable request_finished_;
  std::deque<Request*> requests_;  // those with images to start, oldest first; they go before prefetching
  std::deque<std::size_t> to_prefetch_;
  std::deque<std::vector<std::size_t>> announced_;  // the latest two calls of prefetch
  std::uint64_t announcements_ = 0;
  std::size_t loading_ = 0;  // images being decoded now
  std::size_t kept_ = 0;
  std::size_t served_ = 0;
  std::size_t decoded_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

Pixels ImageStore::Work::decode(std::size_t item) const {
  DecodeOptions decode;
  decode.enough_width = options_.width;
  decode.enough_height = options_.height;
  decode.max_pixels = options_.max_pixels;
  const Image full = dataset_.image(item, decode);
  Image image = options_.resize == ResizeMode::kSquash ? resize(full, options_.width, options_.height)
                                                       : resize_to_cover(full, options_.width, options_.height);
  return std::make_shared<const std::vector<std::uint8_t>>(options_.channels == 1 ? grey(image) : std::move(image.pixels));
}

/// The pixels of an image, from the entry if they are there, else decoded with the lock given up meanwhile. Keeps them if there is room, or
/// `until_got`. Two threads never decode the same image at once.
Pixels ImageStore::Work::load(std::size_t item, bool until_got, std::unique_lock<std::mutex>& lock) {
  Entry& entry = entries_[item];
  image_loaded_.wait(lock, [&] { return entry.holding != Holding::kLoading; });
  if (entry.pixels) return entry.pixels;
  entry.holding = Holding::kLoading;
  ++loading_;
  lock.unlock();
  Pixels pixels;
  std::exception_ptr failure;
  try {
    pixels = decode(item);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  --loading_;
  entry.holding = Holding::kNothing;
  if (!failure) {
    ++decoded_;
    if (kept_ < room_) {
      ++kept_;
      entry.holding = Holding::kForGood;
      entry.pixels = pixels;
    } else if (until_got && entry.announcement != 0) {
      entry.holding = Holding::kUntilGot;
      entry.pixels = pixels;
    }
  }
  image_loaded_.notify_all();
  if (failure) std::rethrow_exception(failure);
  return pixels;
}

/// Starts and finishes the next image of a request.
void ImageStore::Work::serve_next(Request& request, std::unique_lock<std::mutex>& lock) {
  const std::size_t place = request.next++;
  if (request.next == request.items.size()) requests_.erase(std::find(requests_.begin(), requests_.end(), &request));
  std::exception_ptr failure;
  try {
    const Pixels pixels = load(request.items[place], false, lock);
    lock.unlock();
    std::memcpy(request.out + place * image_bytes_, pixels->data(), image_bytes_);
    lock.lock();
  } catch (...) {
    failure = std::current_exception();  // thrown by load, with the lock held
  }
  if (failure && (!request.failure || place < request.first_bad)) {
    request.failure = failure;
    request.first_bad = place;
  }
  if (++request.finished == request.items.size()) request_finished_.notify_all();  // the request may be gone once the lock is
}

void ImageStore::Work::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    work_arrived_.wait(lock, [&] { return stop_ || !requests_.empty() || !to_prefetch_.empty(); });
    if (stop_) return;
    if (!requests_.empty()) {
      serve_next(*requests_.front(), lock);
      continue;
    }
    const std::size_t item = to_prefetch_.front();
    to_prefetch_.pop_front();
    if (entries_[item].holding != Holding::kNothing || entries_[item].announcement == 0) continue;
    try {
      load(item, true, lock);
    } catch (const std::exception&) {
      // get will meet it again and report it.
    }
  }
}

void ImageStore::Work::get(std::span<const std::size_t> items, std::uint8_t* out) {
  for (const std::size_t item : items) check_item(item);
  if (items.empty()) return;
  std::unique_lock<std::mutex> lock(mutex_);
  const bool at_hand =
      std::all_of(items.begin(), items.end(), [&](std::size_t item) { return entries_[item].holding == Holding::kForGood; });
  if (at_hand && items.size() * image_bytes_ <= kCopyAlone) {
    served_ += items.size();
    lock.unlock();  // what is kept for good stays where it is
    for (std::size_t i = 0; i < items.size(); ++i) std::memcpy(out + i * image_bytes_, entries_[items[i]].pixels->data(), image_bytes_);
    return;
  }
  Request request;
  request.items = items;
  request.out = out;
  requests_.push_back(&request);
  work_arrived_.notify_all();
  while (request.next < items.size()) serve_next(request, lock);
  request_finished_.wait(lock, [&] { return request.finished == items.size(); });
  for (const std::size_t item : items) forget(entries_[item]);
  if (request.failure) std::rethrow_exception(request.failure);
  served_ += items.size();
}

void ImageStore::Work::prefetch(std::span<const std::size_t> items) {
  for (const std::size_t item : items) check_item(item);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++announcements_;
    for (const std::size_t item : items) {
      entries_[item].announcement = announcements_;
      to_prefetch_.push_back(item);
    }
    announced_.emplace_back(items.begin(), items.end());
    if (announced_.size() > 2) {  // nobody came for these
      for (const std::size_t item : announced_.front())
        if (entries_[item].announcement + 2 <= announcements_) forget(entries_[item]);
      announced_.pop_front();
    }
  }
  work_arrived_.notify_all();
}

/// What is wrong with images, by item; empty: nothing.
std::vector<std::string> ImageStore::Work::reasons_against(const Progress& progress, const CheckShare* share) {
  std::vector<std::string> reasons(dataset_.size());
  parallel_for(
      dataset_.size(), 1, options_.threads,
      [&](std::size_t begin, std::size_t end, unsigned) {
        for (std::size_t i = begin; i < end; ++i) {
          if (share != nullptr && (i < share->begin || i >= share->end)) {
            std::error_code none;
            const std::filesystem::path path = dataset_.path(i);
            if (!path.empty() && !std::filesystem::exists(path, none)) reasons[i] = fmt::format("{}: no such file", path.string());
            continue;
          }
          try {
            std::unique_lock<std::mutex> lock(mutex_);
            load(i, false, lock);
          } catch (const IoError& error) {
            reasons[i] = error.what();
          }
        }
      },
      progress, "images");
  if (share != nullptr) share->merge(reasons);
  return reasons;
}

void ImageStore::Work::check_all(const Progress& progress, const CheckShare* share) {
  {  // What was announced counts the items as they are now.
    std::unique_lock<std::mutex> lock(mutex_);
    to_prefetch_.clear();
    announced_.clear();
    image_loaded_.wait(lock, [&] { return loading_ == 0; });
    for (Entry& entry : entries_) forget(entry);
  }
  const std::vector<std::string> reasons = reasons_against(progress, share);
  std::vector<std::size_t> good;
  std::vector<BadImage> bad;
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    if (reasons[i].empty())
      good.push_back(i);
    else
      bad.push_back({dataset_.id(i), reasons[i]});
  }
  if (bad.empty()) return;
  if (!options_.skip_bad_images)
    throw IoError(bad.size() == 1 ? bad[0].reason : fmt::format("{} (and {} more bad images)", bad[0].reason, bad.size() - 1));
  if (good.empty()) throw IoError(fmt::format("{} (and no other image of {} is good)", bad[0].reason, dataset_.name()));

  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Entry> entries;
  for (const std::size_t item : good) entries.push_back(std::move(entries_[item]));
  entries_ = std::move(entries);
  dataset_ = dataset_.select(good);
  bad_images_.insert(bad_images_.end(), bad.begin(), bad.end());
}

ImageStoreStats ImageStore::Work::stats() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {served_, decoded_, kept_, kept_ * image_bytes_};
}

ImageStore::ImageStore(Dataset dataset, const ImageStoreOptions& options) {
  options.validate();
  work_ = std::make_unique<Work>(std::move(dataset), options);
}

ImageStore::~ImageStore() = default;

void ImageStore::check_all(const Progress& progress, const CheckShare* share) { work_->check_all(progress, share); }
std::span<const BadImage> ImageStore::bad_images() const { return work_->bad_images(); }
const Dataset& ImageStore::dataset() const { return work_->dataset(); }
const ImageStoreOptions& ImageStore::options() const { return work_->options(); }
std::size_t ImageStore::image_bytes() const { return work_->image_bytes(); }
void ImageStore::get(std::span<const std::size_t> items, std::uint8_t* out) { work_->get(items, out); }
void ImageStore::prefetch(std::span<const std::size_t> items) { work_->prefetch(items); }
ImageStoreStats ImageStore::stats() const { return work_->stats(); }

}  // namespace smartmine
