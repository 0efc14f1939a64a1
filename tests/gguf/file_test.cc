// File on disk: what may be opened, split models, release; the writer against the reader; metadata look-ups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <span>

#include "gguf/gguf.h"
#include "gguf/mapped_file.h"
#include "gguf/printable.h"
#include "gguf/writer.h"
#include "kernels/error.h"
#include "tests/gguf/raw_gguf.h"
#include "tests/support/heap.h"

namespace loci::gguf::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string open_error(const std::string& path, const OpenOptions& options = {}) {
  try {
    File::open(path, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

RawGguf split_part(uint16_t number, uint16_t count, int32_t n_tensors, const std::string& tensor) {
  RawGguf raw = small_model();
  raw.pairs.push_back({"split.no", type_id(ValueType::kU16) + le(number)});
  raw.pairs.push_back({"split.count", type_id(ValueType::kU16) + le(count)});
  raw.pairs.push_back({"split.tensors.count", type_id(ValueType::kI32) + le(n_tensors)});
  raw.tensors.resize(1);
  raw.tensors[0].name = tensor;
  return raw;
}

TEST(FileOpen, MapsOrReads) {
  const TempDir dir;
  const std::string path = dir.write("m.gguf", small_model().bytes());
  for (const bool use_mmap : {true, false}) {
    const File file = File::open(path, {.use_mmap = use_mmap});
    EXPECT_EQ(file.path(), path);
    EXPECT_EQ(file.total_bytes(), static_cast<int64_t>(fs::file_size(path)));
    ASSERT_NE(file.find("b.weight"), nullptr);
    EXPECT_EQ(file.find("c.weight"), nullptr);
    float value;
    const TensorView& tensor = *file.find("a.weight");
    file.release(tensor);  // stays readable
    file.release_metadata();
    EXPECT_EQ(file.metadata().require_string("general.architecture"), "tiny");
    std::memcpy(&value, tensor.row(1), sizeof(value));
    EXPECT_EQ(value, 8.0f);
    value = 0;
    file.read(tensor.row(1), std::as_writable_bytes(std::span(&value, 1)));
    EXPECT_EQ(value, 8.0f);
  }
}

TEST(FileRead, SaysThatTheFileShrank) {
  const TempDir dir;
  const std::string path = dir.write("m.gguf", small_model().bytes());
  const File file = File::open(path);
  const TensorView& tensor = *file.find("a.weight");
  fs::resize_file(path, 64);
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.n_bytes()));
  try {
    file.read(tensor.data, bytes);
    ADD_FAILURE() << "read past the end";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(path), HasSubstr("file shrank")));
  }
}

// Reading here and there brings nothing into memory.
TEST(FileRead, MapsNothing) {
  RawGguf raw;
  constexpr uint64_t kFloats = 4 << 20;
  raw.tensors.push_back({.name = "wide.weight", .dims = {kFloats}});
  raw.data.assign(kFloats * sizeof(float), 'x');
  const TempDir dir;
  const File file = File::open(dir.write("wide.gguf", raw.bytes()));
  const TensorView& tensor = file.tensors()[0];
  const auto mapped_bytes = [] {
    std::ifstream in("/proc/self/status");
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("RssFile:")) return std::atoll(line.c_str() + 8) * 1024;
    }
    return -1LL;
  };
  file.release_metadata();
  const long long before = mapped_bytes();
  std::array<std::byte, 64> bytes{};
  for (int64_t at = 0; at < tensor.n_bytes(); at += 1 << 16) file.read(tensor.data + at, bytes);
  EXPECT_EQ(bytes[63], std::byte{'x'});
  EXPECT_LT(mapped_bytes() - before, 4 << 20) << "of 16 MiB";
}

TEST(FileOpen, SaysWhyAPathCannotBeOpened) {
  const TempDir dir;
  EXPECT_EQ(open_error(""), "model path: is empty");
  EXPECT_EQ(open_error(dir / "none.gguf"), (dir / "none.gguf") + ": not found");
  EXPECT_THAT(open_error(dir / "none/m.gguf"), EndsWith(": not found"));
  EXPECT_THAT(open_error(dir / ""), HasSubstr("is a directory"));
  EXPECT_THAT(open_error("/dev/null"), HasSubstr("is a device"));
  EXPECT_THAT(open_error("/dev/zero"), HasSubstr("is a device"));
  EXPECT_THAT(open_error(dir.write("empty.gguf", "")), EndsWith(": file is empty"));
  EXPECT_THAT(open_error(dir.write("plain", "x") + "/m.gguf"), HasSubstr("not a directory"));

  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(open_error(dir / "pipe"), HasSubstr("is a named pipe"));
  fs::create_symlink("nowhere", dir / "dangling");
  EXPECT_THAT(open_error(dir / "dangling"), HasSubstr("symbolic link to a file that does not exist"));
  fs::create_symlink("loop", dir / "loop");
  EXPECT_THAT(open_error(dir / "loop"), HasSubstr("form a loop"));
  EXPECT_THAT(open_error(dir / std::string(300, 'n')), HasSubstr("cannot be opened"));
  EXPECT_THAT(open_error(dir / "a\nb"), HasSubstr("a\\nb: not found"));
  if (::geteuid() != 0) {  // the superuser may read everything
    const std::string path = dir.write("secret.gguf", "GGUF");
    ::chmod(path.c_str(), 0);
    EXPECT_THAT(open_error(path), HasSubstr("no permission"));
  }
}

TEST(FileOpen, JoinsSplitModels) {
  const TempDir dir;
  const std::string first = dir.write("m-00001-of-00002.gguf", split_part(0, 2, 2, "a.weight").bytes());
  const std::string second = dir.write("m-00002-of-00002.gguf", split_part(1, 2, 2, "c.weight").bytes());
  const File file = File::open(first);
  EXPECT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.total_bytes(), static_cast<int64_t>(fs::file_size(first) + fs::file_size(second)));
  EXPECT_THAT(file.part_paths(), ::testing::ElementsAre(first, second));
  file.release(*file.find("c.weight"));
  EXPECT_THAT(open_error(second),
              AllOf(HasSubstr("part 2 of a model split into 2 files"), HasSubstr("open m-00001-of-00002.gguf")));
}

TEST(FileOpen, RefusesWrongSplits) {
  const TempDir dir;
  const std::string first = dir.write("m-00001-of-00002.gguf", split_part(0, 2, 2, "a.weight").bytes());
  EXPECT_THAT(open_error(first), AllOf(HasSubstr("m-00002-of-00002.gguf: not found"), HasSubstr("part 2 of 2")));

  dir.write("m-00002-of-00002.gguf", split_part(1, 3, 2, "c.weight").bytes());
  EXPECT_THAT(open_error(first), HasSubstr("expected split.no 1 and split.count 2, found 1 and 3"));
  dir.write("m-00002-of-00002.gguf", split_part(1, 2, 2, "a.weight").bytes());
  EXPECT_THAT(open_error(first), HasSubstr("tensor a.weight: found in two parts"));
  dir.write("m-00002-of-00002.gguf", "GGUF");
  EXPECT_THAT(open_error(first), HasSubstr("m-00002-of-00002.gguf: header: file is truncated"));

  EXPECT_THAT(open_error(dir.write("plain.gguf", split_part(0, 65535, 1, "a").bytes())),
              AllOf(HasSubstr("split.count is 65535"), HasSubstr("-00001-of-65535.gguf")));
  EXPECT_THAT(open_error(dir.write("n-00002-of-00005.gguf", split_part(0, 2, 1, "a").bytes())),
              HasSubstr("holds part 1 of 2, but is named as part 2 of 5"));
  EXPECT_THAT(open_error(dir.write("o.gguf", split_part(0, 1, 5, "a").bytes())),
              HasSubstr("split.tensors.count: expected 5 tensors in 1 part, found 1"));
}

TEST(FileOpen, AcceptsOnePartOfOne) {
  const TempDir dir;
  EXPECT_EQ(open_error(dir.write("m-00001-of-00001.gguf", split_part(0, 1, 1, "a").bytes())), "no error");
  EXPECT_EQ(open_error(dir.write("none.gguf", split_part(0, 0, 1, "a").bytes())), "no error");
  const File renamed = File::open(dir.write("m-00001-of-00004.gguf", small_model().bytes()));
  EXPECT_THAT(renamed.oddities(), ::testing::ElementsAre(HasSubstr("named as part 1 of 4")));
}

TEST(FileOpen, ReadsALongVocabularyQuickly) {
  RawGguf raw = small_model();
  std::string tokens;
  for (int i = 0; i < 262'144; ++i) tokens += packed_string("token" + std::to_string(i));
  raw.pairs.push_back({"tokenizer.ggml.tokens", array(ValueType::kString, 262'144, tokens)});
  const TempDir dir;
  const std::string path = dir.write("vocab.gguf", raw.bytes());
  const int64_t heap_before = loci::test::heap_bytes();
  const auto start = std::chrono::steady_clock::now();
  const File file = File::open(path);
  const auto spent = std::chrono::steady_clock::now() - start;
  EXPECT_LE(loci::test::heap_bytes() - heap_before, 16 << 10) << "the tokens stay in the file";
  EXPECT_EQ(file.metadata().find_strings("tokenizer.ggml.tokens")->back(), "token262143");
  EXPECT_LT(spent, std::chrono::seconds(1));
}

TEST(Metadata, ErrorsNameFileKeyAndTypes) {
  const TempDir dir;
  const std::string path = dir.write("m.gguf", small_model().bytes());
  const File file = File::open(path);
  const Metadata& metadata = file.metadata();
  const auto error_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of([&] { metadata.find_int("tiny.eps"); }), path + ": key tiny.eps: expected an integer, found f32");
  EXPECT_EQ(error_of([&] { metadata.find_strings("tiny.steps"); }),
            path + ": key tiny.steps: expected array of strings, found array of i32");
  EXPECT_EQ(error_of([&] { metadata.require_int("none"); }), path + ": key none is missing: expected an integer");
  EXPECT_THAT(error_of([&] { metadata.require_string("none"); }), HasSubstr("expected a string"));
  EXPECT_THAT(error_of([&] { metadata.find_bool("tiny.block_count"); }), HasSubstr("expected bool, found u32"));
  EXPECT_THAT(error_of([&] { metadata.find_float("tiny.flag"); }), HasSubstr("expected f32 or f64, found bool"));
  EXPECT_THAT(error_of([&] { metadata.find_ints("tiny.flag"); }), HasSubstr("expected array of integers, found bool"));
  EXPECT_EQ(metadata.find_int("none"), std::nullopt);
  EXPECT_EQ(metadata.find_strings("none"), std::nullopt);

  Metadata large;
  large.set("x", Value{ValueType::kU64, ValueType::kU64, ~uint64_t{0}});
  large.set("empty", Value{ValueType::kArray, ValueType::kU32, std::vector<int64_t>{}});
  EXPECT_THAT(error_of([&] { large.find_int("x"); }), HasSubstr("18446744073709551615"));
  EXPECT_TRUE(large.find_strings("empty")->empty());
  EXPECT_TRUE(large.find_floats("empty")->empty());
}

TEST(Writer, RoundTripsThroughTheReader) {
  const TempDir dir;
  Writer writer;
  writer.set_string("general.architecture", "tiny");
  writer.set_u32("u", 7);
  writer.set_i32("i", -7);
  writer.set_u64("big", ~uint64_t{0});
  writer.set_f32("f", 0.1f);
  writer.set_bool("b", true);
  writer.set_strings("s", {"x", "", "yz"});
  writer.set_f32s("fs", {0.5f, -1.0f});
  writer.set_i32s("is", {1, -2});
  writer.set_u32("u", 8);  // replaces
  writer.set_u32("general.alignment", 64);
  const auto fill_with = [](int value) {
    return [value](std::span<std::byte> bytes) { std::memset(bytes.data(), value, bytes.size()); };
  };
  writer.add_tensor("odd", DType::kF32, {3}, fill_with(1));
  writer.add_tensor("quantized", DType::kQ4_K, {256, 2, 3}, fill_with(2));
  writer.write(dir / "w.gguf");
  const File file = File::open(dir / "w.gguf");
  const Metadata& metadata = file.metadata();
  EXPECT_EQ(metadata.keys().size(), 10u);
  EXPECT_EQ(metadata.require_int("u"), 8);
  EXPECT_EQ(metadata.require_int("i"), -7);
  EXPECT_EQ(std::get<uint64_t>(metadata.find("big")->data), ~uint64_t{0});
  EXPECT_EQ(metadata.find_float("f"), static_cast<double>(0.1f));
  EXPECT_EQ(metadata.find_bool("b"), true);
  EXPECT_THAT(*metadata.find_strings("s"), ::testing::ElementsAre("x", "", "yz"));
  EXPECT_THAT(*metadata.find_floats("fs"), ::testing::ElementsAre(0.5, -1.0));
  EXPECT_THAT(*metadata.find_ints("is"), ::testing::ElementsAre(1, -2));
  EXPECT_EQ(file.find("quantized")->ne, (std::array<int64_t, 4>{256, 2, 3, 1}));
  EXPECT_EQ(file.find("quantized")->data[0], std::byte{2});
  EXPECT_EQ(file.find("odd")->data[11], std::byte{1});
  EXPECT_EQ((file.find("quantized")->data - file.find("odd")->data) % 64, 0);
  EXPECT_TRUE(file.oddities().empty());
}

TEST(Writer, CopiesPairsAsTheyWere) {
  const TempDir dir;
  const std::string original = small_model().bytes();
  const File source = File::open(dir.write("m.gguf", original));
  Writer writer;
  for (const std::string& key : source.metadata().keys()) writer.set(key, *source.metadata().find(key));
  for (const TensorView& tensor : source.tensors()) {
    const std::vector<int64_t> ne(tensor.ne.begin(), tensor.ne.begin() + (tensor.n_rows() > 1 ? 2 : 1));
    writer.add_tensor(tensor.name, tensor.type, ne,
                      [&](std::span<std::byte> bytes) { std::memcpy(bytes.data(), tensor.data, bytes.size()); });
  }
  writer.write(dir / "copy.gguf");
  std::ifstream copy(dir / "copy.gguf", std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(copy), {}), original);
}

TEST(Writer, LeavesNothingBehindWhenItFails) {
  const TempDir dir;
  Writer writer;
  writer.add_tensor("t", DType::kF32, {4}, [](std::span<std::byte>) { fail(ErrorKind::kInvalidInput, "no data"); });
  EXPECT_THROW(writer.write(dir / "w.gguf"), Error);
  EXPECT_TRUE(fs::is_empty(dir / ""));
  Writer empty;
  EXPECT_THROW(empty.write(dir / "none/w.gguf"), Error);
  EXPECT_THROW(empty.write("/dev/null"), Error);
  EXPECT_THROW(empty.write(dir / ""), Error);
}

TEST(Printable, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(printable("plain"), "plain");
  EXPECT_EQ(printable("\xe4\xbd\xa0"), "\xe4\xbd\xa0");
  EXPECT_EQ(printable("a\x1b[2J\x7f\n"), "a\\x1b[2J\\x7f\\n");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");                    // C1 control
  EXPECT_EQ(printable("\xc0\x80"), "\\xc0\\x80");                    // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
  EXPECT_EQ(printable("\xe4\xbd"), "\\xe4\\xbd");                    // cut short
  EXPECT_EQ(printable("\\"), "\\\\");
  EXPECT_EQ(printable(std::string(200, 'x'), 5), "xxxxx...");
  EXPECT_TRUE(is_printable("blk.0.\xc3\xa9"));
  EXPECT_FALSE(is_printable(std::string_view("a\0", 2)));
}

}  // namespace
}  // namespace loci::gguf::test
