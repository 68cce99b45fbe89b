// Sends made files through the fuzzer's own entry, so that its promises are held where there is no libFuzzer.
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "../../fuzz/read_anything.h"
#include "core/made_files.h"
#include "smartmine/core/random.h"

namespace smartmine {
namespace {

using testing::bytes_of;
using testing::npy;

bool accepted(std::uint8_t kind, const std::string& file) {
  std::string input(1, static_cast<char>(kind));
  input += file;
  return read_anything({reinterpret_cast<const std::uint8_t*>(input.data()), input.size()});
}

/// A good file for each of kFuzzNames but the last, for which none is good.
std::vector<std::string> good_files() {
  return {npy("<f8", "(2, 3)", std::string(48, '\1')),
          bytes_of<std::int32_t>({2}) + bytes_of({1.F, 2.F}) + bytes_of<std::int32_t>({2}) + bytes_of({3.F, 4.F}),
          bytes_of<std::uint32_t>({2, 3}) + bytes_of({1.F, 2.F, 3.F, 4.F, 5.F, 6.F}),
          npy("<i8", "(2, 2)", bytes_of<std::int64_t>({1, 2, 3, 4}), 2),
          bytes_of<std::int32_t>({2, 5, 6, 2, 7, 8}),
          npy("<i4", "(3,)", bytes_of<std::int32_t>({1, 2, 3}), 3)};
}

TEST(FuzzReplay, GoodFilesAreAccepted) {
  const auto files = good_files();
  ASSERT_EQ(files.size() + 1, kFuzzNames.size());
  for (std::size_t kind = 0; kind < files.size(); ++kind)
    EXPECT_TRUE(accepted(static_cast<std::uint8_t>(kind), files[kind])) << kFuzzNames[kind];
  EXPECT_FALSE(accepted(6, "1 2 3"));
  EXPECT_FALSE(read_anything({}));
}

TEST(FuzzReplay, EveryFileUnderEveryNameCutAnywhereIsReadOrRefused) {
  for (const std::string& file : good_files())
    for (std::uint8_t kind = 0; kind < kFuzzNames.size(); ++kind)
      for (std::size_t size = 0; size <= file.size(); ++size)
        EXPECT_NO_THROW(accepted(kind, file.substr(0, size))) << kFuzzNames[kind] << ' ' << size;
}

TEST(FuzzReplay, EveryByteChangedIsReadOrRefused) {
  const auto files = good_files();
  for (std::size_t kind = 0; kind < files.size(); ++kind) {
    for (std::size_t at = 0; at < files[kind].size(); ++at) {
      for (const int value : {0, 1, 0x7f, 0x80, 0xff, int{'0'}, int{'9'}, int{'('}, int{'\''}, int{'-'}}) {
        std::string damaged = files[kind];
        damaged[at] = static_cast<char>(value);
        EXPECT_NO_THROW(accepted(static_cast<std::uint8_t>(kind), damaged)) << kFuzzNames[kind] << ' ' << at << ' ' << value;
      }
    }
  }
}

TEST(FuzzReplay, ManyRandomDamagesAreReadOrRefused) {
  const auto files = good_files();
  Random random(7);
  for (int round = 0; round < 20000; ++round) {
    const auto kind = random.below(files.size());
    std::string damaged = files[kind];
    for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
      const auto at = static_cast<std::ptrdiff_t>(random.below(damaged.size()));
      switch (random.below(3)) {
        case 0:
          damaged[static_cast<std::size_t>(at)] = static_cast<char>(random.below(256));
          break;
        case 1:
          damaged.insert(damaged.begin() + at, static_cast<char>(random.below(256)));
          break;
        default:
          damaged.erase(damaged.begin() + at);
      }
      if (damaged.empty()) damaged = "x";
    }
    EXPECT_NO_THROW(accepted(static_cast<std::uint8_t>(kind), damaged)) << kFuzzNames[kind] << " in round " << round;
  }
}

}  // namespace
}  // namespace smartmine
