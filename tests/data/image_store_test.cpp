#include "smartmine/data/image_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "core/made_files.h"
#include "data/made_images.h"
#include "smartmine/core/error.h"

namespace smartmine {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Pictures of one colour each, counted as they are drawn.
Dataset counted(std::size_t items, const std::shared_ptr<std::atomic<int>>& drawn) {
  DatasetContents contents;
  contents.name = "counted";
  contents.classes = {{0, "a"}, {1, "b"}};
  for (std::size_t i = 0; i < items; ++i) contents.items.push_back({"item " + std::to_string(i), static_cast<std::int64_t>(i % 2), i});
  contents.draw = [drawn](std::uint64_t drawing) {
    ++*drawn;
    return Image(6, 5, static_cast<std::uint8_t>(drawing));
  };
  return Dataset(std::move(contents));
}

/// Files 0.png, 1.png, ... of different sizes below `folder`.
Dataset files(const TemporaryFolder& folder, std::size_t count) {
  DatasetContents contents;
  contents.name = "files";
  contents.root = folder.path();
  contents.classes = {{0, "a"}};
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = std::to_string(i) + ".png";
    write_png(folder / name, noise(10 + i % 7, 9 + i % 5, i));
    contents.items.push_back({name, 0, 0});
  }
  return Dataset(std::move(contents));
}

ImageStoreOptions small(std::size_t channels = 3) {
  ImageStoreOptions options;
  options.width = 6;
  options.height = 5;
  options.channels = channels;
  options.threads = 3;
  return options;
}

std::vector<std::uint8_t> got(ImageStore& store, const std::vector<std::size_t>& items) {
  std::vector<std::uint8_t> out(items.size() * store.image_bytes(), 77);
  store.get(items, out.data());
  return out;
}

std::vector<std::size_t> first(std::size_t count) {
  std::vector<std::size_t> items(count);
  std::iota(items.begin(), items.end(), 0);
  return items;
}

TEST(ImageStore, ServesResizedImagesInTheOrderAsked) {
  const TemporaryFolder folder;
  const Dataset dataset = files(folder, 20);
  for (const ResizeMode mode : {ResizeMode::kSquash, ResizeMode::kCover})
    for (const std::size_t channels : {1, 3}) {
      ImageStoreOptions options = small(channels);
      options.resize = mode;
      ImageStore store(dataset, options);
      const std::vector<std::size_t> items = {7, 3, 3, 19, 0};
      const auto out = got(store, items);
      for (std::size_t i = 0; i < items.size(); ++i) {
        const Image full = dataset.image(items[i]);
        const Image image = mode == ResizeMode::kSquash ? resize(full, 6, 5) : resize_to_cover(full, 6, 5);
        const auto expected = channels == 1 ? grey(image) : image.pixels;
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out.begin() + static_cast<std::ptrdiff_t>(i * store.image_bytes()))) << i;
      }
    }
}

TEST(ImageStore, TheNumberOfThreadsChangesNothing) {
  const TemporaryFolder folder;
  const Dataset dataset = files(folder, 60);
  std::vector<std::uint8_t> expected;
  for (const unsigned threads : {1, 2, 8}) {
    for (const std::size_t cache : {std::size_t{0}, std::size_t{1000}, std::size_t{1} << 20}) {
      ImageStoreOptions options = small();
      options.threads = threads;
      options.cache_bytes = cache;
      ImageStore store(dataset, options);
      for (int round = 0; round < 2; ++round) {
        const auto out = got(store, first(60));
        if (expected.empty()) expected = out;
        EXPECT_EQ(out, expected) << threads << ' ' << cache;
      }
    }
  }
}

TEST(ImageStore, DecodesEveryImageOnceIfAllFit) {
  const auto drawn = std::make_shared<std::atomic<int>>(0);
  ImageStore store(counted(50, drawn), small());
  for (int round = 0; round < 3; ++round) got(store, first(50));
  EXPECT_EQ(*drawn, 50);
  EXPECT_EQ(store.stats().decoded, 50U);
  EXPECT_EQ(store.stats().served, 150U);
  EXPECT_EQ(store.stats().cached_images, 50U);
}

TEST(ImageStore, KeepsNoMoreThanItsBytes) {
  const auto drawn = std::make_shared<std::atomic<int>>(0);
  ImageStoreOptions options = small();
  options.cache_bytes = 20 * 90 + 89;  // twenty images and not quite another
  ImageStore store(counted(50, drawn), options);
  got(store, first(50));
  EXPECT_EQ(store.stats().cached_images, 20U);
  EXPECT_EQ(store.stats().cached_bytes, 1800U);
  got(store, first(50));
  EXPECT_EQ(*drawn, 80);
  options.cache_bytes = 0;
  ImageStore none(counted(5, drawn), options);
  got(none, first(5));
  EXPECT_EQ(none.stats().cached_bytes, 0U);
}

TEST(ImageStore, PrefetchedImagesAreNotDecodedAgain) {
  const auto drawn = std::make_shared<std::atomic<int>>(0);
  ImageStoreOptions options = small();
  options.cache_bytes = 0;
  ImageStore store(counted(30, drawn), options);
  store.prefetch(std::vector<std::size_t>{1, 2, 3});
  while (store.stats().decoded < 3) std::this_thread::yield();
  const auto out = got(store, {3, 2, 1});
  EXPECT_EQ(*drawn, 3);
  EXPECT_EQ(out[0], 3);
  EXPECT_EQ(out[2 * 90], 1);
  got(store, {1});  // given away above
  EXPECT_EQ(*drawn, 4);
}

TEST(ImageStore, HoldsTheTwoLatestAnnouncementsOnly) {
  const auto drawn = std::make_shared<std::atomic<int>>(0);
  ImageStoreOptions options = small();
  options.cache_bytes = 0;
  ImageStore store(counted(30, drawn), options);
  for (std::size_t call = 0; call < 3; ++call) {
    store.prefetch(std::vector<std::size_t>{2 * call, 2 * call + 1});
    while (store.stats().decoded < 2 * call + 2) std::this_thread::yield();
  }
  EXPECT_EQ(*drawn, 6);
  got(store, {2, 3, 4, 5});
  EXPECT_EQ(*drawn, 6);
  got(store, {0, 1});
  EXPECT_EQ(*drawn, 8);
}

TEST(ImageStore, ManyThreadsMayAskAtOnce) {
  const TemporaryFolder folder;
  const Dataset dataset = files(folder, 40);
  ImageStoreOptions options = small();
  options.cache_bytes = 15 * 90;
  ImageStore store(dataset, options);
  ImageStore quiet(dataset, small());
  const auto expected = got(quiet, first(40));
  std::atomic<int> wrong{0};
  std::vector<std::thread> askers;
  for (std::uint64_t asker = 0; asker < 4; ++asker)
    askers.emplace_back([&, asker] {
      Random random(asker);
      for (int round = 0; round < 40; ++round) {
        std::vector<std::size_t> items(1 + random.below(12));
        for (std::size_t& item : items) item = random.below(40);
        if (random.below(2) == 0) store.prefetch(items);
        std::vector<std::uint8_t> out(items.size() * 90);
        store.get(items, out.data());
        for (std::size_t i = 0; i < items.size(); ++i)
          if (!std::equal(out.begin() + static_cast<std::ptrdiff_t>(i * 90), out.begin() + static_cast<std::ptrdiff_t>(i * 90 + 90),
                          expected.begin() + static_cast<std::ptrdiff_t>(items[i] * 90)))
            ++wrong;
      }
    });
  for (std::thread& asker : askers) asker.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ImageStore, MayGoAwayWhilePrefetching) {
  const auto drawn = std::make_shared<std::atomic<int>>(0);
  for (int round = 0; round < 20; ++round) {
    ImageStore store(counted(200, drawn), small());
    store.prefetch(first(200));
  }
  SUCCEED();
}

TEST(ImageStore, ABadImageIsNamedInTheOrderAsked) {
  const TemporaryFolder folder;
  const Dataset dataset = files(folder, 10);
  save(folder / "4.png", "");
  save(folder / "8.png", contents(folder / "8.png").substr(0, 60));
  ImageStore store(dataset, small());
  store.prefetch(first(10));
  for (int round = 0; round < 3; ++round) {
    EXPECT_THAT(io_error([&] { got(store, {1, 8, 4, 2}); }), HasSubstr("8.png: cannot decode this PNG: it ends too early"));
    EXPECT_THAT(io_error([&] { got(store, first(10)); }), HasSubstr("4.png: the file is empty"));
  }
  EXPECT_NO_THROW(got(store, {0, 1, 2, 3, 5, 6, 7, 9}));
}

TEST(ImageStore, CheckAllNamesTheFirstBadImageAndCountsTheOthers) {
  const TemporaryFolder folder;
  const Dataset dataset = files(folder, 10);
  ImageStore good(dataset, small());
  good.check_all();
  EXPECT_EQ(good.dataset().size(), 10U);
  EXPECT_EQ(good.stats().decoded, 10U);
  save(folder / "4.png", "");
  ImageStore one(dataset, small());
  EXPECT_THAT(io_error([&] { one.check_all(); }), AllOf(HasSubstr("4.png: the file is empty"), ::testing::Not(HasSubstr("more"))));
  save(folder / "8.png", "nonsense");
  ImageStore two(dataset, small());
  EXPECT_THAT(io_error([&] { two.check_all(); }), AllOf(HasSubstr("4.png: the file is empty"), HasSubstr("and 1 more bad image")));
}

TEST(ImageStore, CheckAllDropsAndListsBadImagesWhenTold) {
  const TemporaryFolder folder;
  const Dataset dataset = files(folder, 10);
  ImageStore whole(dataset, small());
  const auto expected = got(whole, {0, 1, 2, 3, 5, 6, 7, 9});
  save(folder / "4.png", "");
  save(folder / "8.png", "nonsense");
  for (const std::size_t cache : {std::size_t{0}, std::size_t{400}, std::size_t{1} << 20}) {
    ImageStoreOptions options = small();
    options.skip_bad_images = true;
    options.cache_bytes = cache;
    ImageStore store(dataset, options);
    store.prefetch(first(10));
    store.check_all();
    ASSERT_EQ(store.bad_images().size(), 2U);
    EXPECT_EQ(store.bad_images()[0].id, "4.png");
    EXPECT_THAT(store.bad_images()[1].reason, HasSubstr("8.png: is neither a JPEG nor a PNG"));
    EXPECT_EQ(store.dataset().size(), 8U);
    EXPECT_EQ(store.dataset().id(4), "5.png");
    EXPECT_EQ(got(store, first(8)), expected);
    EXPECT_THROW(got(store, {8}), InvalidArgument);
  }
  for (int i = 0; i < 10; ++i) save(folder / (std::to_string(i) + ".png"), "");
  ImageStoreOptions options = small();
  options.skip_bad_images = true;
  ImageStore store(dataset, options);
  EXPECT_THAT(io_error([&] { store.check_all(); }), HasSubstr("0.png: the file is empty"));
}

TEST(ImageStore, CheckAllReportsProgressAndCanBeCancelled) {
  const auto drawn = std::make_shared<std::atomic<int>>(0);
  ImageStoreOptions options = small();
  options.threads = 1;  // the calling thread reports, and so has to do the work
  ImageStore store(counted(50, drawn), options);
  EXPECT_THROW(store.check_all([](const ProgressEvent& event) { return event.done < 5; }), Cancelled);
  EXPECT_NO_THROW(store.check_all());
  EXPECT_EQ(*drawn, 50);
}

TEST(ImageStore, RefusesBadOptionsAndItems) {
  const auto drawn = std::make_shared<std::atomic<int>>(0);
  ImageStoreOptions options = small();
  options.channels = 2;
  EXPECT_THROW(ImageStore(counted(3, drawn), options), InvalidArgument);
  options = small();
  options.width = 0;
  EXPECT_THROW(ImageStore(counted(3, drawn), options), InvalidArgument);
  options = small();
  options.max_pixels = 0;
  EXPECT_THROW(ImageStore(counted(3, drawn), options), InvalidArgument);
  ImageStore store(counted(3, drawn), small());
  EXPECT_THROW(got(store, {3}), InvalidArgument);
  EXPECT_THROW(store.prefetch(std::vector<std::size_t>{3}), InvalidArgument);
  EXPECT_NO_THROW(got(store, {}));
}

}  // namespace
}  // namespace smartmine
