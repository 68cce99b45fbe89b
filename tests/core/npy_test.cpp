#include "smartmine/core/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/made_files.h"
#include "smartmine/core/error.h"
#include "smartmine/graph/neighbors.h"

namespace smartmine {
namespace {

using testing::bytes_of;
using testing::contents;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::io_error;
using ::testing::IsEmpty;
using testing::npy;
using testing::npy_with;
using ::testing::StartsWith;
using testing::TemporaryFolder;

NpyHeader parse(const std::string& file) { return parse_npy_header(std::as_bytes(std::span(file)), "x.npy"); }

std::string refusal(const std::string& file) {
  const std::string message = io_error([&] { parse(file); });
  EXPECT_THAT(message, StartsWith("x.npy: "));
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message;
}

std::string refused_header(const std::string& dictionary) { return refusal(npy_with(dictionary, std::string(24, 'x'))); }

TEST(Npy, ReadsAllThreeVersions) {
  for (const int version : {1, 2, 3}) {
    const std::string file = npy("<f4", "(2, 3)", std::string(24, 'x'), version);
    const NpyHeader header = parse(file);
    EXPECT_EQ(header.type, NpyType::kFloat32);
    EXPECT_THAT(header.shape, ElementsAre(2U, 3U));
    EXPECT_EQ(header.values, 6U);
    EXPECT_EQ(header.data_offset, file.size() - 24);
  }
}

TEST(Npy, ReadsEveryKindOfNumber) {
  const std::vector<std::tuple<std::string, NpyType, std::size_t>> kinds = {
      {"<f2", NpyType::kFloat16, 2}, {"<f4", NpyType::kFloat32, 4}, {"<f8", NpyType::kFloat64, 8}, {"|i1", NpyType::kInt8, 1},
      {"<i2", NpyType::kInt16, 2},   {"<i4", NpyType::kInt32, 4},   {"<i8", NpyType::kInt64, 8},   {"|u1", NpyType::kUint8, 1},
      {"<u2", NpyType::kUint16, 2},  {"<u4", NpyType::kUint32, 4},  {"<u8", NpyType::kUint64, 8},  {"=f4", NpyType::kFloat32, 4}};
  for (const auto& [descr, type, bytes] : kinds) {
    EXPECT_EQ(parse(npy(descr, "(3,)", std::string(3 * bytes, 'x'))).type, type) << descr;
    EXPECT_THAT(refusal(npy(descr, "(3,)", std::string(3 * bytes - 1, 'x'))), HasSubstr(to_string(type)));
  }
}

TEST(Npy, TakesTheDictionaryInAnyPythonSpelling) {
  const std::string data(24, 'x');
  for (const std::string dictionary : {
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
           "{'shape':(2,3),'fortran_order':False,'descr':'<f4'}",
           "  { \"fortran_order\" : False ,\n\t\"descr\" : \"<f4\" , \"shape\" : ( 2 , 3 , ) , }  ",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }",
       })
    EXPECT_THAT(parse(npy_with(dictionary, data)).shape, ElementsAre(2U, 3U)) << dictionary;
}

TEST(Npy, ReadsScalarsVectorsAndEmptyShapes) {
  EXPECT_THAT(parse(npy("<f4", "()", "abcd")).shape, IsEmpty());
  EXPECT_EQ(parse(npy("<f4", "()", "abcd")).values, 1U);
  EXPECT_THAT(parse(npy("<f4", "(1,)", "abcd")).shape, ElementsAre(1U));
  EXPECT_EQ(parse(npy("<f4", "(0, 5)", "")).values, 0U);
  EXPECT_EQ(parse(npy("<f4", "(18446744073709551615, 0)", "")).values, 0U);
}

TEST(Npy, RefusesFortranOrderWithAHint) {
  const std::string message = refused_header("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }");
  EXPECT_THAT(message, HasSubstr("Fortran order"));
  EXPECT_THAT(message, HasSubstr("np.ascontiguousarray"));
}

TEST(Npy, RefusesBigEndianWithAHint) {
  EXPECT_THAT(refusal(npy(">f4", "(2, 3)", std::string(24, 'x'))),
              HasSubstr("big-endian ('>f4'), little-endian is needed; convert with array.astype('<f4')"));
}

TEST(Npy, RefusesOtherKindsOfValues) {
  for (const std::string descr : {"<c8", "|b1", "<M8[ns]", "<f3", "<f16", "f4", "|f4", "<", "", "<i", "<f4 ", "!f4"})
    EXPECT_THAT(refusal(npy(descr, "(2, 3)", std::string(24, 'x'))), HasSubstr("unsupported dtype '" + descr + "', expected float16"))
        << descr;
  for (const std::string descr : {"|O", "<U5", "|S4"})
    EXPECT_THAT(refusal(npy(descr, "(2, 3)", std::string(24, 'x'))), HasSubstr("('" + descr + "'), numbers are needed")) << descr;
  EXPECT_THAT(refused_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3), }"), HasSubstr("structured dtype"));
  EXPECT_THAT(refused_header("{'descr': ('<f4', (3,)), 'fortran_order': False, 'shape': (2, 3), }"), HasSubstr("structured dtype"));
}

TEST(Npy, KeepsMessagesShortAndPrintable) {
  const std::string message = refusal(npy("<\n\x01\xff" + std::string(5000, 'z'), "(2, 3)", std::string(24, 'x')));
  EXPECT_LT(message.size(), 200U);
  EXPECT_THAT(message, HasSubstr("'<???zzz"));
}

TEST(Npy, RefusesDamagedDictionaries) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "expected '{'"},
      {"{}", "'descr' is missing"},
      {"{'descr': '<f4'}", "'fortran_order' is missing"},
      {"{'descr': '<f4', 'fortran_order': False}", "'shape' is missing"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}", "unknown or repeated key 'more'"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", "unknown or repeated key 'descr'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)", "expected '}'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x", "something follows"},
      {"{'descr': '<f4' 'fortran_order': False, 'shape': (2, 3)}", "expected '}'"},
      {"{,}", "expected a key"},
      {"{'descr': '<f4',, 'fortran_order': False, 'shape': (2, 3)}", "expected a key"},
      {"{'descr' '<f4'}", "expected ':'"},
      {"{'descr': '<f4}", "not closed"},
      {"{'descr': <f4}", "expected a dtype"},
      {"{'de\\x73cr': '<f4'}", "backslash"},
      {"{'descr': '<f4', 'fortran_order': false}", "expected True or False"},
      {"{'descr': '<f4', 'fortran_order': 0}", "expected True or False"},
      {"{'shape': 6}", "expected '('"},
      {"{'shape': [2, 3]}", "expected '('"},
      {"{'shape': (6)}", "expected ','"},
      {"{'shape': (,)}", "whole number"},
      {"{'shape': (2,,3)}", "whole number"},
      {"{'shape': (2, x)}", "whole number"},
      {"{'shape': (2.5, 3)}", "expected ','"},
      {"{'shape': (2, 3.5)}", "expected ')'"},
      {"{'shape': (-2, 3)}", "negative"},
      {"{'shape': (2, -3)}", "negative"},
      {"{'shape': (2, 18446744073709551616)}", "too large"},
      {"{'shape': (2, 99999999999999999999999999999999999)}", "too large"},
      {"{'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}", "more than 32"},
  };
  for (const auto& [dictionary, expected] : cases) {
    const std::string message = refused_header(dictionary);
    EXPECT_THAT(message, HasSubstr(expected)) << dictionary;
    EXPECT_THAT(message, HasSubstr("damaged .npy header at byte ")) << dictionary;
  }
}

TEST(Npy, NamesTheByteWhereTheHeaderIsDamaged) {
  const std::string message = refused_header("{'descr': '<f4', 'fortran_order': Nope}");
  EXPECT_THAT(message, HasSubstr("at byte 44:"));  // 10 bytes of prefix, 34 of dictionary
}

TEST(Npy, RefusesHostileShapesWithoutReservingMemory) {
  for (const std::string shape :
       {"(1000000000000, 64)", "(4611686018427387904, 4)", "(4294967296, 4294967296)", "(18446744073709551615, 2)",
        "(18446744073709551615, 18446744073709551615, 18446744073709551615)", "(9223372036854775808,)"})
    EXPECT_THAT(refusal(npy("<f4", shape, std::string(24, 'x'))), HasSubstr(shape)) << shape;
}

TEST(Npy, RefusesDataShorterOrLongerThanTheShapeSays) {
  EXPECT_THAT(refusal(npy("<f4", "(2, 3)", std::string(23, 'x'))), HasSubstr("needs 24 bytes of data but 23 follow"));
  EXPECT_THAT(refusal(npy("<f4", "(2, 3)", std::string(25, 'x'))), HasSubstr("needs 24 bytes of data but 25 follow"));
}

TEST(Npy, RefusesAFileCutAtEveryByte) {
  for (const int version : {1, 2, 3}) {
    const std::string whole = npy("<f4", "(2, 3)", std::string(24, 'x'), version);
    ASSERT_NO_THROW(parse(whole));
    for (std::size_t size = 0; size < whole.size(); ++size) refusal(whole.substr(0, size));
  }
}

TEST(Npy, EveryByteReplacedByEveryValueIsRefusedOrStillFillsTheFile) {
  const std::string whole = npy("<f4", "(2, 3)", std::string(24, 'x'));
  std::size_t refused = 0;
  for (std::size_t at = 0; at < whole.size() - 24; ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(value);
      try {
        const NpyHeader header = parse(damaged);
        const bool four_bytes = header.type == NpyType::kFloat32 || header.type == NpyType::kInt32 || header.type == NpyType::kUint32;
        EXPECT_TRUE(four_bytes && header.values == 6 && header.data_offset == whole.size() - 24) << at << ' ' << value;
      } catch (const IoError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 10000U);
}

TEST(Npy, RefusesForeignFilesAndUnknownVersions) {
  EXPECT_THAT(refusal(""), HasSubstr("empty"));
  EXPECT_THAT(refusal("PK\x03\x04 a zip archive, as .npz is"), HasSubstr("not a .npy file"));
  EXPECT_THAT(refusal(std::string("\x93NUMPY\x04\x00", 8) + std::string(100, ' ')), HasSubstr("version 4.0, expected 1.0, 2.0 or 3.0"));
  EXPECT_THAT(refusal(std::string("\x93NUMPY\x00\x00", 8) + std::string(100, ' ')), HasSubstr("version 0.0"));
  EXPECT_THAT(refusal(std::string("\x93NUMPY\x01\x01", 8) + std::string(100, ' ')), HasSubstr("version 1.1"));
}

TEST(Npy, RefusesAHeaderLengthBeyondTheFile) {
  EXPECT_THAT(refusal(std::string("\x93NUMPY\x01\x00\xff\xff{}", 12)), HasSubstr("header of 65535 bytes"));
  EXPECT_THAT(refusal(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14)), HasSubstr("header of 4294967295 bytes"));
}

TEST(WriteNpy, WritesTheBytesNumpyWrites) {
  const TemporaryFolder folder;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  write_npy(folder / "a.npy", values, {2, 3});
  // What np.save wrote before it padded for growth: 118 bytes of text, so that the data starts at byte 128.
  std::string expected = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  expected += std::string(127 - expected.size(), ' ') + "\n" + bytes_of({1.F, 2.F, 3.F, 4.F, 5.F, 6.F});
  EXPECT_EQ(contents(folder / "a.npy"), expected);
}

TEST(WriteNpy, EveryTypeAndShapeReadsBack) {
  const TemporaryFolder folder;
  const auto check = [&](const auto& values, const std::vector<std::size_t>& shape, NpyType type) {
    write_npy(folder / "a.npy", values, shape);
    const std::string file = contents(folder / "a.npy");
    const NpyHeader header = parse(file);
    EXPECT_EQ(header.type, type);
    EXPECT_EQ(header.shape, shape);
    EXPECT_EQ(header.data_offset % 64, 0U);
    const auto bytes = std::as_bytes(std::span(values));
    const auto data = std::as_bytes(std::span(file)).subspan(header.data_offset);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), bytes.begin(), bytes.end()));
  };
  check(std::vector<float>{1.5F, -2, 0, 7}, {4}, NpyType::kFloat32);
  check(std::vector<std::int32_t>{1, -2, 3, 4}, {2, 2}, NpyType::kInt32);
  check(std::vector<std::int64_t>{1, -2, 3, 1LL << 40}, {1, 4}, NpyType::kInt64);
  check(std::vector<std::uint32_t>{0, 1, 2, 0x7fffffff}, {2, 1, 2}, NpyType::kInt32);
  check(std::vector<float>{}, {0, 3}, NpyType::kFloat32);
  check(std::vector<float>{1}, {}, NpyType::kFloat32);
  check(std::vector<float>{1}, std::vector<std::size_t>(30, 1), NpyType::kFloat32);  // a header of two blocks
}

TEST(WriteNpy, WritesNeighborIdsAsInt32) {
  const TemporaryFolder folder;
  NeighborLists lists(2, 1);
  lists.ids(0)[0] = 1;
  lists.ids(1)[0] = 0;
  write_npy(folder / "ids.npy", lists.all_ids(), {lists.size(), lists.neighbors()});
  const std::string file = contents(folder / "ids.npy");
  EXPECT_THAT(file, HasSubstr("'descr': '<i4'"));
  EXPECT_EQ(file.substr(file.size() - 8), bytes_of<std::int32_t>({1, 0}));
}

TEST(WriteNpy, RefusesIdsThatAreNoInt32AndShapesThatDoNotFit) {
  const TemporaryFolder folder;
  EXPECT_THROW(write_npy(folder / "a.npy", std::vector<std::uint32_t>{1, 0x80000000U}, {2}), InvalidArgument);
  EXPECT_THROW(write_npy(folder / "a.npy", std::vector<float>{1, 2}, {3}), InvalidArgument);
  EXPECT_THROW(write_npy(folder / "a.npy", std::vector<float>{1, 2}, {std::size_t{1} << 63, 2}), InvalidArgument);
  EXPECT_THAT(folder.names(), IsEmpty());
}

}  // namespace
}  // namespace smartmine
