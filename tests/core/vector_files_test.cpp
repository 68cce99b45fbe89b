#include "smartmine/core/vector_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/float16.h"
#include "core/made_files.h"
#include "core/vector_parsers.h"
#include "smartmine/core/error.h"
#include "smartmine/core/npy.h"

namespace smartmine {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::io_error;
using testing::npy;
using testing::save;
using ::testing::StartsWith;
using testing::TemporaryFolder;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> values_of(const Embeddings& embeddings) {
  const Rows& rows = embeddings.rows();
  return {rows.data(), rows.data() + rows.size() * rows.dimension()};
}

/// Saves `bytes` under `name` and hands the path to a reader.
class Readers : public ::testing::Test {
 protected:
  std::filesystem::path saved(const std::string& name, const std::string& bytes) {
    save(folder_ / name, bytes);
    return folder_ / name;
  }
  Embeddings embeddings(const std::string& name, const std::string& bytes) { return read_embeddings(saved(name, bytes)); }
  NeighborIds ids(const std::string& name, const std::string& bytes) { return read_ids(saved(name, bytes)); }
  std::vector<std::int64_t> labels(const std::string& bytes) { return read_labels(saved("l.npy", bytes)); }

  std::string refused_embeddings(const std::string& name, const std::string& bytes) {
    return checked(name, io_error([&] { embeddings(name, bytes); }));
  }
  std::string refused_ids(const std::string& name, const std::string& bytes) {
    return checked(name, io_error([&] { ids(name, bytes); }));
  }
  std::string refused_labels(const std::string& bytes) {
    return checked("l.npy", io_error([&] { labels(bytes); }));
  }

  TemporaryFolder folder_;

 private:
  std::string checked(const std::string& name, const std::string& message) {
    EXPECT_THAT(message, StartsWith((folder_ / name).string() + ": "));
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message;
  }
};

TEST(Float16, EveryHalfBecomesTheFloatOfTheSameValue) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const int fraction = static_cast<int>(bits & 1023);
    double expected = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) expected = fraction == 0 ? static_cast<double>(kInfinity) : std::numeric_limits<double>::quiet_NaN();
    if ((bits & 0x8000) != 0) expected = -expected;
    const float found = float_from_half(static_cast<std::uint16_t>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(found)) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(found), expected) << bits;
      ASSERT_EQ(std::signbit(found), (bits & 0x8000) != 0) << bits;
    }
  }
}

TEST_F(Readers, ReadFloat32NpyInPlace) {
  const Embeddings read = embeddings("e.npy", npy("<f4", "(2, 3)", bytes_of({1.F, 2.F, 3.F, 4.F, 5.F, 6.F})));
  EXPECT_EQ(read.rows().size(), 2U);
  EXPECT_EQ(read.rows().dimension(), 3U);
  EXPECT_THAT(values_of(read), ElementsAre(1, 2, 3, 4, 5, 6));

  const std::string bytes = npy("<f4", "(1, 2)", bytes_of({1.F, 2.F}));
  const std::vector<char> aligned(bytes.begin(), bytes.end());
  EXPECT_EQ(reinterpret_cast<const char*>(parse_embeddings({std::as_bytes(std::span(aligned)), "e.npy", {}}).in_place),
            aligned.data() + aligned.size() - 8);
}

TEST_F(Readers, CopyFloat32ThatIsNotAligned) {
  const std::string bytes = "?" + npy("<f4", "(1, 2)", bytes_of({1.F, 2.F}));
  const std::vector<char> shifted(bytes.begin(), bytes.end());
  const ParsedMatrix matrix = parse_embeddings({std::as_bytes(std::span(shifted)).subspan(1), "e.npy", {}});
  EXPECT_EQ(matrix.in_place, nullptr);
  EXPECT_THAT(matrix.converted.span(), ElementsAre(1, 2));

  const std::string fbin = "?" + bytes_of<std::uint32_t>({1, 2}) + bytes_of({3.F, 4.F});
  const std::vector<char> shifted_fbin(fbin.begin(), fbin.end());
  EXPECT_THAT(parse_embeddings({std::as_bytes(std::span(shifted_fbin)).subspan(1), "e.fbin", {}}).converted.span(), ElementsAre(3, 4));
}

TEST_F(Readers, ConvertFloat64AndFloat16) {
  EXPECT_THAT(values_of(embeddings("e.npy", npy("<f8", "(2, 2)", bytes_of({1.0, -2.5, 1e-300, 3e38})))),
              ElementsAre(1.F, -2.5F, 0.F, 3e38F));
  // one, -2, the smallest subnormal, the largest finite, infinity
  EXPECT_THAT(values_of(embeddings("e.npy", npy("<f2", "(5, 1)", bytes_of<std::uint16_t>({0x3c00, 0xc000, 1, 0x7bff, 0x7c00})))),
              ElementsAre(1.F, -2.F, 0x1p-24F, 65504.F, kInfinity));
}

TEST_F(Readers, LeaveNanAndInfinityForTheCheckOfRows) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Embeddings read = embeddings("e.npy", npy("<f8", "(2, 2)", bytes_of({1.0, 2.0, 3.0, nan})));
  EXPECT_THROW(check_rows(read.rows()), InvalidArgument);
  EXPECT_EQ(values_of(embeddings("e.npy", npy("<f8", "(1, 1)", bytes_of({-std::numeric_limits<double>::infinity()}))))[0], -kInfinity);
}

TEST_F(Readers, RefuseFloat64TooLargeForAFloat) {
  EXPECT_THAT(refused_embeddings("e.npy", npy("<f8", "(2, 2)", bytes_of({1.0, 2.0, 3.0, -1e39}))), HasSubstr("-1e+39 at row 1, column 1"));
}

TEST_F(Readers, ConvertMoreThanOneChunk) {
  // 3 chunks of 16 MiB of doubles, the last one short.
  constexpr std::size_t kRows = 5'000'000;
  std::string data(kRows * 8, '\0');
  for (std::size_t i = 0; i < kRows; ++i) {
    const auto value = static_cast<double>(i);
    std::memcpy(data.data() + i * 8, &value, 8);
  }
  const Embeddings read = embeddings("e.npy", npy("<f8", "(5000000, 1)", data));
  for (std::size_t i = 0; i < kRows; ++i) ASSERT_EQ(read.rows()[i][0], static_cast<float>(i));
}

TEST_F(Readers, TellNpyByItsContentWhateverTheEnding) {
  EXPECT_THAT(values_of(embeddings("e.fvecs", npy("<f4", "(1, 2)", bytes_of({1.F, 2.F})))), ElementsAre(1, 2));
  EXPECT_THAT(values_of(embeddings("noending", npy("<f4", "(1, 2)", bytes_of({1.F, 2.F})))), ElementsAre(1, 2));
}

TEST_F(Readers, RefuseUnknownFormats) {
  EXPECT_THAT(refused_embeddings("e.txt", "1 2 3"), HasSubstr("must be .npy, .fvecs or .fbin"));
  EXPECT_THAT(refused_embeddings("e.npy", "1 2 3"), HasSubstr("not a .npy file"));
  EXPECT_THAT(refused_ids("i.fvecs", "1 2 3"), HasSubstr("must be .npy or .ivecs"));
  EXPECT_THAT(io_error([&] { read_labels(saved("l.csv", "1,2,3")); }), HasSubstr("labels must be .npy"));
}

TEST_F(Readers, RefuseArraysThatAreNoMatrix) {
  EXPECT_THAT(refused_embeddings("e.npy", npy("<f4", "()", "abcd")), HasSubstr("shape (), embeddings need (rows, columns)"));
  EXPECT_THAT(refused_embeddings("e.npy", npy("<f4", "(1,)", "abcd")), HasSubstr("array.reshape(1, -1)"));
  EXPECT_THAT(refused_embeddings("e.npy", npy("<f4", "(1, 1, 1)", "abcd")), HasSubstr("shape (1, 1, 1)"));
  EXPECT_THAT(refused_ids("i.npy", npy("<i4", "(1,)", "abcd")), HasSubstr("shape (1,), ids need (rows, columns)"));
}

TEST_F(Readers, RefuseNoRowsNoColumnsAndTooManyColumns) {
  EXPECT_THAT(refused_embeddings("e.npy", npy("<f4", "(0, 3)", "")), HasSubstr("no rows"));
  EXPECT_THAT(refused_embeddings("e.npy", npy("<f4", "(3, 0)", "")), HasSubstr("dimension 0"));
  EXPECT_THAT(refused_embeddings("e.npy", npy("<f4", "(1, 65536)", std::string(4 * 65536, 'x'))), HasSubstr("dimension 65536"));
  EXPECT_EQ(embeddings("e.npy", npy("<f4", "(1, 65535)", std::string(4 * 65535, '\0'))).rows().dimension(), 65535U);
  EXPECT_THAT(refused_ids("i.npy", npy("<i4", "(0, 3)", "")), HasSubstr("0 rows of 3 ids"));
  EXPECT_THAT(refused_ids("i.npy", npy("<i4", "(3, 0)", "")), HasSubstr("3 rows of 0 ids"));
  EXPECT_THAT(refused_labels(npy("<i4", "(0,)", "")), HasSubstr("no labels"));
}

TEST_F(Readers, RefuseTheWrongKindOfNumber) {
  EXPECT_THAT(refused_embeddings("e.npy", npy("<i4", "(1, 1)", "abcd")),
              HasSubstr("holds int32, embeddings must be float16, float32 or float64"));
  EXPECT_THAT(refused_ids("i.npy", npy("<f4", "(1, 1)", "abcd")), HasSubstr("holds float32, ids must be whole numbers"));
  EXPECT_THAT(refused_labels(npy("<f8", "(1,)", "abcdefgh")), HasSubstr("holds float64, labels must be whole numbers"));
}

TEST_F(Readers, CallAMatrixWhatTheCallerCallsIt) {
  const auto refused = [&](const std::string& name, const std::string& bytes) {
    const std::string message = io_error([&] { read_embeddings(saved(name, bytes), "distances"); });
    EXPECT_EQ(message.find("embeddings"), std::string::npos) << message;
    return message;
  };
  EXPECT_THAT(refused("d.npy", npy("<f4", "(1,)", "abcd")), HasSubstr("shape (1,), distances need (rows, columns)"));
  EXPECT_THAT(refused("d.npy", npy("<f4", "(0, 3)", "")), HasSubstr("distances have no rows"));
  EXPECT_THAT(refused("d.npy", npy("<f4", "(3, 0)", "")), HasSubstr("distances have dimension 0"));
  EXPECT_THAT(refused("d.npy", npy("<i4", "(1, 1)", "abcd")), HasSubstr("holds int32, distances must be float16"));
  EXPECT_THAT(refused("d.npy", npy("<f8", "(1, 1)", bytes_of({1e39}))), HasSubstr("scale the distances"));
  EXPECT_THAT(refused("d.fbin", bytes_of<std::uint32_t>({0, 4})), HasSubstr("distances have no rows"));
  EXPECT_THAT(refused("d.txt", "1 2 3"), HasSubstr("distances must be .npy, .fvecs or .fbin"));
}

TEST_F(Readers, ReadFvecs) {
  const std::string row = bytes_of<std::int32_t>({2});
  const Embeddings read = embeddings("e.fvecs", row + bytes_of({1.F, 2.F}) + row + bytes_of({3.F, 4.F}) + row + bytes_of({5.F, 6.F}));
  EXPECT_EQ(read.rows().size(), 3U);
  EXPECT_THAT(values_of(read), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(Readers, RefuseDamagedFvecs) {
  const std::string row = bytes_of<std::int32_t>({2}) + bytes_of({1.F, 2.F});
  EXPECT_THAT(refused_embeddings("e.fvecs", ""), HasSubstr("empty"));
  EXPECT_THAT(refused_embeddings("e.fvecs", row + bytes_of<std::int32_t>({3}) + bytes_of({1.F, 2.F, 3.F})),
              HasSubstr("row 1 (at byte 12) has length 3, the rows before it 2"));
  EXPECT_THAT(refused_embeddings("e.fvecs", bytes_of<std::int32_t>({0})), HasSubstr("length 0"));
  EXPECT_THAT(refused_embeddings("e.fvecs", bytes_of<std::int32_t>({-1, 0})), HasSubstr("length -1"));
  EXPECT_THAT(refused_embeddings("e.fvecs", bytes_of<std::int32_t>({65536, 0})), HasSubstr("length 65536, which must be from 1 to 65535"));
  EXPECT_THAT(refused_embeddings("e.fvecs", bytes_of<std::int32_t>({0x7fffffff, 0})), HasSubstr("length 2147483647"));
  const std::string whole = row + row;
  for (std::size_t size = 1; size < whole.size(); ++size) {
    if (size == row.size()) continue;  // a whole file again
    EXPECT_THAT(refused_embeddings("e.fvecs", whole.substr(0, size)), HasSubstr("cut short")) << size;
  }
}

TEST_F(Readers, ReadFbin) {
  const Embeddings read = embeddings("e.fbin", bytes_of<std::uint32_t>({2, 3}) + bytes_of({1.F, 2.F, 3.F, 4.F, 5.F, 6.F}));
  EXPECT_EQ(read.rows().size(), 2U);
  EXPECT_THAT(values_of(read), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(Readers, RefuseDamagedFbin) {
  const std::string whole = bytes_of<std::uint32_t>({2, 3}) + bytes_of({1.F, 2.F, 3.F, 4.F, 5.F, 6.F});
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THAT(refused_embeddings("e.fbin", whole.substr(0, size)), HasSubstr("cut short")) << size;
  EXPECT_THAT(refused_embeddings("e.fbin", whole + "x"), HasSubstr("need 24 bytes after the .fbin header but 25 follow"));
  EXPECT_THAT(refused_embeddings("e.fbin", bytes_of<std::uint32_t>({0, 3})), HasSubstr("no rows"));
  EXPECT_THAT(refused_embeddings("e.fbin", bytes_of<std::uint32_t>({3, 0})), HasSubstr("dimension 0"));
  EXPECT_THAT(refused_embeddings("e.fbin", bytes_of<std::uint32_t>({1, 65536})), HasSubstr("dimension 65536"));
  EXPECT_THAT(refused_embeddings("e.fbin", bytes_of<std::uint32_t>({0x80000000U, 3})), HasSubstr("2147483648 rows"));
  EXPECT_THAT(refused_embeddings("e.fbin", bytes_of<std::uint32_t>({0x7fffffffU, 65535})), HasSubstr("cut short"));
}

TEST_F(Readers, ReadIdsOfAnyIntegerType) {
  const NeighborIds read = ids("i.npy", npy("<i4", "(2, 2)", bytes_of<std::int32_t>({1, 2, 0, 0x7fffffff})));
  EXPECT_EQ(read.rows, 2U);
  EXPECT_EQ(read.columns, 2U);
  EXPECT_THAT(read.ids.span(), ElementsAre(1U, 2U, 0U, 0x7fffffffU));
  EXPECT_THAT(ids("i.npy", npy("<i8", "(1, 2)", bytes_of<std::int64_t>({7, 0x7fffffff}))).ids.span(), ElementsAre(7U, 0x7fffffffU));
  EXPECT_THAT(ids("i.npy", npy("|u1", "(1, 2)", bytes_of<std::uint8_t>({7, 255}))).ids.span(), ElementsAre(7U, 255U));
  const std::string row = bytes_of<std::int32_t>({2});
  EXPECT_THAT(ids("i.ivecs", row + bytes_of<std::int32_t>({4, 5}) + row + bytes_of<std::int32_t>({6, 7})).ids.span(),
              ElementsAre(4U, 5U, 6U, 7U));
}

TEST_F(Readers, RefuseIdsThatAreNegativeOrTooLargeNamingThePlace) {
  EXPECT_THAT(refused_ids("i.npy", npy("<i4", "(2, 2)", bytes_of<std::int32_t>({1, 2, 0, -1}))), HasSubstr("id -1 at row 1, column 1"));
  EXPECT_THAT(refused_ids("i.npy", npy("<i8", "(2, 2)", bytes_of<std::int64_t>({1, 2, 1LL << 31, 0}))),
              HasSubstr("id 2147483648 at row 1, column 0"));
  EXPECT_THAT(refused_ids("i.npy", npy("<i8", "(1, 1)", bytes_of<std::int64_t>({1LL << 32}))),
              HasSubstr("id 4294967296 at row 0, column 0"));
  EXPECT_THAT(refused_ids("i.npy", npy("<u8", "(1, 1)", bytes_of<std::uint64_t>({~0ULL}))), HasSubstr("id 18446744073709551615"));
  EXPECT_THAT(refused_ids("i.npy", npy("|i1", "(1, 2)", bytes_of<std::int8_t>({0, -5}))), HasSubstr("id -5 at row 0, column 1"));
  EXPECT_THAT(refused_ids("i.ivecs", bytes_of<std::int32_t>({2, 0, -3})), HasSubstr("id -3 at row 0, column 1"));
  EXPECT_THAT(refused_ids("i.ivecs", bytes_of<std::int32_t>({2, 0})), HasSubstr("cut short"));
}

TEST_F(Readers, ReadLabelsOfAnyIntegerType) {
  EXPECT_THAT(labels(npy("<i8", "(3,)", bytes_of<std::int64_t>({-1, 0, std::numeric_limits<std::int64_t>::max()}))),
              ElementsAre(-1, 0, std::numeric_limits<std::int64_t>::max()));
  EXPECT_THAT(labels(npy("<i4", "(2, 1)", bytes_of<std::int32_t>({-7, 7}))), ElementsAre(-7, 7));
  EXPECT_THAT(labels(npy("<i2", "(2,)", bytes_of<std::int16_t>({-7, 7}))), ElementsAre(-7, 7));
  EXPECT_THAT(labels(npy("|i1", "(2,)", bytes_of<std::int8_t>({-7, 7}))), ElementsAre(-7, 7));
  EXPECT_THAT(labels(npy("|u1", "(1,)", bytes_of<std::uint8_t>({200}))), ElementsAre(200));
  EXPECT_THAT(labels(npy("<u2", "(1,)", bytes_of<std::uint16_t>({65535}))), ElementsAre(65535));
  EXPECT_THAT(labels(npy("<u4", "(1,)", bytes_of<std::uint32_t>({4000000000U}))), ElementsAre(4000000000));
  EXPECT_THAT(labels(npy("<u8", "(1,)", bytes_of<std::uint64_t>({5}))), ElementsAre(5));
}

TEST_F(Readers, RefuseLabelsThatAreNoList) {
  EXPECT_THAT(refused_labels(npy("<i4", "(1, 2)", std::string(8, 'x'))), HasSubstr("shape (1, 2), labels need (rows,)"));
  EXPECT_THAT(refused_labels(npy("<i4", "()", "abcd")), HasSubstr("shape ()"));
  EXPECT_THAT(refused_labels(npy("<u8", "(2,)", bytes_of<std::uint64_t>({1, 1ULL << 63}))),
              HasSubstr("label 9223372036854775808 at row 1"));
}

TEST_F(Readers, RefuseWhatIsNoReadableFile) {
  EXPECT_THAT(io_error([&] { read_embeddings(folder_ / "missing.npy"); }), HasSubstr("No such file or directory; check the path"));
  EXPECT_THAT(io_error([&] { read_embeddings(folder_.path()); }), HasSubstr("this is a folder"));
  EXPECT_THAT(io_error([&] { read_labels("/dev/null"); }), HasSubstr("device or a pipe"));
  ASSERT_EQ(::mkfifo((folder_ / "pipe.npy").c_str(), 0600), 0);
  EXPECT_THAT(io_error([&] { read_ids(folder_ / "pipe.npy"); }), HasSubstr("device or a pipe"));  // and does not wait for a writer
  EXPECT_THAT(refused_embeddings("empty.npy", ""), HasSubstr("the file is empty"));
}

TEST_F(Readers, GiveBackWhatWriteNpyWrote) {
  const std::vector<float> values = {0.5F, -1, 2, 3, 4, 1e-40F};
  write_npy(folder_ / "e.npy", values, {3, 2});
  EXPECT_EQ(values_of(read_embeddings(folder_ / "e.npy")), values);
  write_npy(folder_ / "l.npy", std::vector<std::int64_t>{3, -1}, {2});
  EXPECT_THAT(read_labels(folder_ / "l.npy"), ElementsAre(3, -1));
  write_npy(folder_ / "i.npy", std::vector<std::uint32_t>{3, 1}, {1, 2});
  EXPECT_THAT(read_ids(folder_ / "i.npy").ids.span(), ElementsAre(3U, 1U));
}

TEST_F(Readers, EmbeddingsOutliveTheirFileNameAndTheFirstOwner) {
  std::vector<Embeddings> kept;
  {
    Embeddings mapped = embeddings("e.npy", npy("<f4", "(1, 2)", bytes_of({1.F, 2.F})));
    Embeddings converted = embeddings("f.npy", npy("<f8", "(1, 2)", bytes_of({3.0, 4.0})));
    kept.push_back(mapped);
    kept.push_back(std::move(converted));
  }
  std::filesystem::remove(folder_ / "e.npy");
  EXPECT_THAT(values_of(kept[0]), ElementsAre(1, 2));
  EXPECT_THAT(values_of(kept[1]), ElementsAre(3, 4));
}

TEST(Embeddings, RefuseABufferOfAnotherSize) {
  EXPECT_THROW(Embeddings(Buffer<float>(5), 2, 3), InvalidArgument);
  EXPECT_THROW(Embeddings(Buffer<float>(7), 2, 3), InvalidArgument);
  EXPECT_THROW(Embeddings(Buffer<float>(0), 0, 3), InvalidArgument);
  EXPECT_THROW(Embeddings(Buffer<float>(6), 6, 0), InvalidArgument);
  EXPECT_EQ(Embeddings(Buffer<float>(6), 2, 3).rows().size(), 2U);
}

}  // namespace
}  // namespace smartmine
