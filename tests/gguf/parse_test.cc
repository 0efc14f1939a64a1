// parse_part on well-formed bytes and on bytes with one thing wrong: the message names key or tensor and the fault.
#include "gguf/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "kernels/error.h"
#include "tests/gguf/raw_gguf.h"

namespace loci::gguf::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string error_of(std::string_view bytes) {
  try {
    parse_part(as_bytes(bytes), "m.gguf");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string error_after(const std::function<void(RawGguf&)>& change) {
  RawGguf raw = small_model();
  change(raw);
  return error_of(raw.bytes());
}

Part parse_after(std::string& storage, const std::function<void(RawGguf&)>& change) {
  RawGguf raw = small_model();
  change(raw);
  storage = raw.bytes();
  return parse_part(as_bytes(storage), "m.gguf");
}

TEST(Parse, ReadsEveryKindOfValue) {
  const std::string bytes = small_model().bytes();
  const Part part = parse_part(as_bytes(bytes), "m.gguf");
  const Metadata& metadata = part.metadata;
  EXPECT_EQ(part.version, 3u);
  EXPECT_EQ(metadata.keys().size(), 8u);
  EXPECT_EQ(metadata.keys()[1], "tiny.block_count");
  EXPECT_EQ(metadata.require_string("general.architecture"), "tiny");
  EXPECT_EQ(metadata.require_int("tiny.block_count"), 1);
  EXPECT_EQ(metadata.find_float("tiny.eps"), 0.5);
  EXPECT_EQ(metadata.find_bool("tiny.flag"), true);
  EXPECT_EQ(metadata.require_int("tiny.big"), int64_t{1} << 60);
  EXPECT_THAT(*metadata.find_strings("tiny.names"), ::testing::ElementsAre("a", "", "bc"));
  EXPECT_THAT(*metadata.find_ints("tiny.steps"), ::testing::ElementsAre(-1, 7));
  EXPECT_THAT(*metadata.find_floats("tiny.scores"), ::testing::ElementsAre(1.5, -2.0));
  EXPECT_TRUE(part.oddities.empty());
}

TEST(Parse, PlacesTensors) {
  const std::string bytes = small_model().bytes();
  const Part part = parse_part(as_bytes(bytes), "m.gguf");
  ASSERT_EQ(part.tensors.size(), 2u);
  EXPECT_EQ(part.tensors[0].name, "a.weight");
  EXPECT_EQ(part.tensors[0].ne, (std::array<int64_t, 4>{8, 2, 1, 1}));
  EXPECT_EQ(part.tensors[0].n_bytes(), 64);
  float last;
  std::memcpy(&last, part.tensors[0].row(1) + 28, sizeof(last));
  EXPECT_EQ(last, 15.0f);
  EXPECT_EQ(part.tensors[1].type, DType::kQ8_0);
  EXPECT_EQ(part.tensors[1].data - part.tensors[0].data, 64);
}

TEST(Parse, AcceptsVersionTwoAndVocabularyAlone) {
  std::string storage;
  EXPECT_EQ(parse_after(storage, [](RawGguf& raw) { raw.version = 2; }).version, 2u);
  EXPECT_TRUE(parse_after(storage, [](RawGguf& raw) { raw.tensors.clear(), raw.data.clear(); }).tensors.empty());
}

TEST(Parse, AcceptsBinaryStringValues) {
  std::string storage;
  const std::string value("\0\xff\x1b", 3);
  const Part part = parse_after(storage, [&](RawGguf& raw) { raw.pairs.push_back({"raw", text(value)}); });
  EXPECT_EQ(part.metadata.require_string("raw"), value);
}

TEST(Parse, HonoursAlignment) {
  std::string storage;
  const Part part = parse_after(storage, [](RawGguf& raw) {
    raw.pairs.push_back({"general.alignment", u32(64)});
    raw.alignment = 64;
    raw.tensors[1].offset = 64;
  });
  EXPECT_EQ((part.tensors[0].data - as_bytes(storage).data()) % 64, 0);
}

TEST(Parse, NotesOddities) {
  std::string storage;
  const auto oddities = [&](const std::function<void(RawGguf&)>& change) {
    return parse_after(storage, change).oddities;
  };
  EXPECT_THAT(oddities([](RawGguf& raw) { raw.data += "tail"; }),
              ::testing::ElementsAre("4 bytes after the last tensor"));
  EXPECT_THAT(oddities([](RawGguf& raw) { raw.tensors[1].offset = 96, raw.data.insert(64, 32, '\0'); }),
              ::testing::ElementsAre("gap of 32 bytes before tensor b.weight"));
  EXPECT_THAT(oddities([](RawGguf& raw) { raw.pairs[3].second.back() = 9; }),
              ::testing::ElementsAre(HasSubstr("bool stored as 9")));
}

TEST(ParseRefuses, OtherFiles) {
  EXPECT_THAT(error_of(""), HasSubstr("not a GGUF file"));
  EXPECT_THAT(error_of("GGU"), HasSubstr("not a GGUF file"));
  EXPECT_THAT(error_of("\x1b[2J"), HasSubstr("found '\\x1b[2J'"));
  EXPECT_THAT(error_of("version https://git-lfs\noid sha256:0"), HasSubstr("Git LFS pointer"));
  EXPECT_THAT(error_of("<!DOCTYPE html>"), HasSubstr("HTML"));
  EXPECT_THAT(error_of("tjgg\3\0\0\0"), HasSubstr("older than GGUF"));
}

TEST(ParseRefuses, Versions) {
  EXPECT_THAT(error_after([](RawGguf& raw) { raw.version = 1; }), HasSubstr("version 1 is not supported"));
  EXPECT_THAT(error_after([](RawGguf& raw) { raw.version = 0; }), HasSubstr("expected GGUF version 2 or 3, found 0"));
  EXPECT_THAT(error_after([](RawGguf& raw) { raw.version = 4; }), HasSubstr("found 4"));
  EXPECT_THAT(error_after([](RawGguf& raw) { raw.version = 0x03000000; }), HasSubstr("big-endian"));
}

TEST(ParseRefuses, CountsBeyondTheFile) {
  for (const uint64_t count : {uint64_t{1} << 32, uint64_t{500'000'000}, uint64_t{INT64_MAX}, ~uint64_t{0}}) {
    EXPECT_THAT(error_after([&](RawGguf& raw) { raw.n_pairs = count; }),
                AllOf(HasSubstr(str("metadata count ", count)), HasSubstr("does not fit")));
    EXPECT_THAT(error_after([&](RawGguf& raw) { raw.n_tensors = count; }),
                AllOf(HasSubstr(str("tensor count ", count)), HasSubstr("does not fit")));
  }
  EXPECT_THAT(error_after([](RawGguf& raw) { raw.n_tensors = 3; }), HasSubstr("tensor info 2 of 3"));
  EXPECT_THAT(error_after([](RawGguf& raw) { raw.n_pairs = 7; }), HasSubstr("tensor tiny.scores"));
}

TEST(ParseRefuses, Keys) {
  EXPECT_THAT(error_after([](RawGguf& raw) {
                raw.pairs.push_back({"tiny.block_count", u32(2)});
              }),
              AllOf(HasSubstr("key tiny.block_count (index 8)"), HasSubstr("duplicate"), HasSubstr("index 1")));
  EXPECT_THAT(error_after([](RawGguf& raw) { raw.pairs[2].first = ""; }),
              HasSubstr("metadata key 2 of 8: key is empty"));
  EXPECT_THAT(error_after([](RawGguf& raw) { raw.pairs[2].first = "x\xff\x1b[2J"; }), HasSubstr("'x\\xff\\x1b[2J'"));
  EXPECT_THAT(error_after([](RawGguf& raw) { raw.pairs[2].first = std::string(70000, 'k'); }),
              HasSubstr("expected a key of at most 65535 bytes, found 70000"));
}

TEST(ParseRefuses, Values) {
  const auto error_with = [](const std::string& value) {
    return error_after([&](RawGguf& raw) { raw.pairs.push_back({"x", value}); });
  };
  EXPECT_THAT(error_with(le<uint32_t>(13) + le<uint32_t>(0)),
              AllOf(HasSubstr("key x (index 8)"), HasSubstr("found 13")));
  EXPECT_THAT(error_with(array(ValueType::kArray, 1, u32(7))), HasSubstr("arrays of arrays"));
  EXPECT_THAT(error_with(array(static_cast<ValueType>(99), 1, "")), HasSubstr("array element type"));
  for (const ValueType type : {ValueType::kU8, ValueType::kF32, ValueType::kF64, ValueType::kString}) {
    for (const uint64_t count : {uint64_t{100'000}, uint64_t{1} << 61, uint64_t{1} << 63, ~uint64_t{0}}) {
      EXPECT_THAT(error_with(array(type, count, "")), AllOf(HasSubstr(str("array of ", count)), HasSubstr("not fit")));
    }
  }
  EXPECT_THAT(error_with(type_id(ValueType::kString) + le(~uint64_t{0})), HasSubstr("18446744073709551615 bytes"));
  EXPECT_THAT(error_with(array(ValueType::kString, 1, le(uint64_t{1} << 40))), HasSubstr("array string"));
  EXPECT_THAT(error_with(array(ValueType::kU64, 1, le(~uint64_t{0}))), HasSubstr("less than 2^63"));
}

TEST(ParseRefuses, ArraysLargeInMemory) {
  RawGguf raw = small_model();
  raw.pairs.push_back({"x", array(ValueType::kU8, (1 << 24) + 1, std::string((1 << 24) + 1, '\0'))});
  EXPECT_THAT(error_of(raw.bytes()), HasSubstr("more than 16777216 elements"));
}

TEST(ParseRefuses, NestedArraysOfAnyDepth) {
  std::string nested;
  for (int i = 0; i < 100'000; ++i) nested += type_id(ValueType::kArray) + le<uint64_t>(1);
  const std::string value = type_id(ValueType::kArray) + nested;
  EXPECT_THAT(error_after([&](RawGguf& raw) { raw.pairs.push_back({"x", value}); }), HasSubstr("arrays of arrays"));
}

TEST(ParseRefuses, TensorNames) {
  EXPECT_THAT(error_after([](RawGguf& raw) { raw.tensors[1].name = ""; }), HasSubstr("tensor info 1 of 2"));
  EXPECT_THAT(error_after([](RawGguf& raw) { raw.tensors[1].name = "a.weight"; }),
              AllOf(HasSubstr("tensor a.weight"), HasSubstr("duplicate")));
  EXPECT_THAT(error_after([](RawGguf& raw) { raw.tensors[1].name = "b\x07"; }), HasSubstr("'b\\x07'"));
  EXPECT_THAT(error_after([](RawGguf& raw) { raw.tensors[1].name = std::string(65, 'n'); }), HasSubstr("found 65"));
}

TEST(ParseRefuses, Shapes) {
  const auto error_with = [](std::vector<uint64_t> dims, uint32_t type = 0, std::optional<uint32_t> n_dims = {}) {
    return error_after(
        [&](RawGguf& raw) { raw.tensors[1].dims = dims, raw.tensors[1].type = type, raw.tensors[1].n_dims = n_dims; });
  };
  EXPECT_THAT(error_with({}), AllOf(HasSubstr("tensor b.weight"), HasSubstr("1 to 4 dimensions, found 0")));
  EXPECT_THAT(error_with({8, 1, 1, 1, 1}), HasSubstr("found 5"));
  EXPECT_THAT(error_with({8, 1}, 0, 0xffffffff), HasSubstr("found 4294967295"));
  EXPECT_THAT(error_with({0, 4}), HasSubstr("above 0, found [0, 4]"));
  EXPECT_THAT(error_with({4, 0}), HasSubstr("above 0, found [4, 0]"));
  EXPECT_THAT(error_with({48}, 8), AllOf(HasSubstr("multiple of 32"), HasSubstr("Q8_0"), HasSubstr("[48]")));
  EXPECT_THAT(error_with({4, (1 << 30) - 1, (1 << 30) + 1}), HasSubstr("overflows"));
  EXPECT_THAT(error_with({uint64_t{1} << 63, 2}), HasSubstr("overflows"));
  EXPECT_THAT(error_with({uint64_t{1} << 62}), HasSubstr("overflows"));
  EXPECT_THAT(error_with({uint64_t{1} << 32, uint64_t{1} << 32, uint64_t{1} << 32}), HasSubstr("overflows"));
}

TEST(ParseRefuses, Types) {
  const auto error_with = [](uint32_t type) { return error_after([&](RawGguf& raw) { raw.tensors[1].type = type; }); };
  EXPECT_THAT(error_with(31), AllOf(HasSubstr("tensor b.weight"), HasSubstr("31 (Q4_0_4_4) was retired")));
  for (const uint32_t id : {4, 5, 32, 33, 36, 37, 38}) EXPECT_THAT(error_with(id), HasSubstr("retired"));
  for (const uint32_t id : {43u, 1000u, 0xffffffffu}) {
    EXPECT_THAT(error_with(id), HasSubstr(str("unknown tensor type ", id)));
  }
}

TEST(ParseRefuses, Offsets) {
  const auto error_with = [](uint64_t offset) {
    return error_after([&](RawGguf& raw) { raw.tensors[1].offset = offset; });
  };
  EXPECT_THAT(error_with(33), AllOf(HasSubstr("tensor b.weight"), HasSubstr("multiple of the alignment 32, found 33")));
  EXPECT_THAT(error_with(32), AllOf(HasSubstr("lies within tensor a.weight"), HasSubstr("ends at 64")));
  for (const uint64_t offset : {uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{31}, uint64_t{128}}) {
    EXPECT_THAT(error_with(offset), HasSubstr("truncated or corrupt"));
  }
}

TEST(ParseRefuses, Alignment) {
  for (const uint32_t alignment : {0u, 1u, 4u, 24u, 1u << 21, 0xffffffffu}) {
    EXPECT_THAT(error_after([&](RawGguf& raw) {
                  raw.pairs.push_back({"general.alignment", u32(alignment)});
                }),
                AllOf(HasSubstr("general.alignment"), HasSubstr(str("found ", alignment))));
  }
  EXPECT_THAT(error_after([](RawGguf& raw) {
                raw.pairs.push_back({"general.alignment", text("32")});
              }),
              HasSubstr("expected an integer, found string"));
}

TEST(ParseRefuses, GluedFiles) {
  const std::string bytes = small_model().bytes();
  EXPECT_THAT(error_of(bytes + bytes), HasSubstr("second GGUF file"));
  RawGguf unpadded = small_model();
  unpadded.data.resize(unpadded.data.size() - 30);
  EXPECT_THAT(error_of(unpadded.bytes() + bytes), HasSubstr("second GGUF file"));
}

TEST(ParseRefuses, EveryTruncation) {
  RawGguf raw = small_model();
  raw.data.resize(98);  // without the padding at the end, every byte is needed
  const std::string bytes = raw.bytes();
  ASSERT_EQ(error_of(bytes), "no error");
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<char> exact(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));  // ASan sees its end
    EXPECT_THAT(error_of({exact.data(), size}), StartsWith("m.gguf: ")) << "size " << size;
  }
}

TEST(ParseSurvives, RandomDamage) {
  const std::string bytes = small_model().bytes();
  std::mt19937 random(7);
  int n_refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<char> damaged(bytes.begin(), bytes.end());
    const int n_changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < n_changes; ++i) {
      char& byte = damaged[random() % damaged.size()];
      byte = random() % 2 == 0 ? static_cast<char>(byte ^ (1 << random() % 8)) : static_cast<char>(random());
    }
    const std::string message = error_of({damaged.data(), damaged.size()});
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_EQ(message.find('\x1b'), std::string::npos);
    n_refused += message != "no error";
  }
  EXPECT_GT(n_refused, 1000);
}

}  // namespace
}  // namespace loci::gguf::test
