// loci quantize: which type each tensor gets, and the command itself on small models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <random>

#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "kernels/error.h"
#include "kernels/log.h"
#include "kernels/quant/quant.h"
#include "main/commands.h"
#include "main/quantize_plan.h"

namespace loci::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Shape {
  std::string name;
  std::vector<int64_t> ne;
};

// Eight layers of a llama, rows of `dim` or `ffn`.
std::vector<Shape> llama_shapes(int64_t dim, int64_t ffn, bool head) {
  std::vector<Shape> shapes = {{"token_embd.weight", {dim, 4}}, {"output_norm.weight", {dim}}};
  if (head) shapes.push_back({"output.weight", {dim, 4}});
  for (int layer = 0; layer < 8; ++layer) {
    const std::string prefix = str("blk.", layer, ".");
    shapes.push_back({prefix + "attn_norm.weight", {dim}});
    for (const char* role : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
      shapes.push_back({prefix + role + ".weight", {dim, 4}});
    }
    shapes.push_back({prefix + "ffn_up.weight", {dim, 4}});
    shapes.push_back({prefix + "ffn_down.weight", {ffn, 4}});
    shapes.push_back({prefix + "ffn_gate_inp.weight", {dim, 4}});
  }
  return shapes;
}

class Quantize : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "loci-quantize-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    set_log_level(LogLevel::kError);
  }
  void TearDown() override {
    set_log_level(LogLevel::kInfo);
    fs::remove_all(folder_);
  }

  // Normal values; with `odd`, element 5 of the first matrix is that.
  std::string write(const std::string& name, DType type, const std::vector<Shape>& shapes, float odd = 0) {
    gguf::Writer writer;
    writer.set_string("general.architecture", "llama");
    writer.set_u32("llama.attention.head_count", 8);
    writer.set_u32("llama.attention.head_count_kv", 2);
    writer.set_strings("tokenizer.ggml.tokens", {"a", "b", "c", "d"});
    writer.set_u32("split.count", 1);
    bool first = true;
    for (const Shape& shape : shapes) {
      const bool matrix = shape.ne.size() > 1;
      const DType stored = matrix ? type : DType::kF32;
      const float special = matrix && first ? odd : 0;
      if (matrix) first = false;
      writer.add_tensor(shape.name, stored, shape.ne, [=](std::span<std::byte> out) {
        int64_t n = 1;
        for (const int64_t dim : shape.ne) n *= dim;
        std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(shape.name)));
        std::normal_distribution<float> normal(0, 0.05f);
        std::vector<float> values(static_cast<size_t>(n));
        for (float& value : values) value = normal(random);
        if (special != 0) values[5] = special;
        quantize_row(stored, values.data(), out.data(), n);
      });
    }
    const std::string path = folder_ + "/" + name;
    writer.write(path);
    return path;
  }

  std::map<std::string, std::string> plan(const std::string& path, std::string_view mix,
                                          const PlanOptions& options = {}) {
    const gguf::File file = gguf::File::open(path);
    const std::vector<PlannedTensor> planned = plan_quantization(file, *find_mix(mix), options);
    std::map<std::string, std::string> types;
    for (size_t i = 0; i < planned.size(); ++i) types[file.tensors()[i].name] = loci::name(planned[i].target);
    return types;
  }

  std::string error_of(const std::vector<std::string>& args) {
    try {
      cmd_quantize(args);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  static std::string bytes_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string folder_;
};

TEST_F(Quantize, NamesMixesInAnyCase) {
  EXPECT_EQ(name(*find_mix("q4_k_m")), "Q4_K_M");
  EXPECT_EQ(name(*find_mix("Q4_K")), "Q4_K_M");
  EXPECT_EQ(file_type(*find_mix("Q6_K")), 18);
  EXPECT_EQ(find_mix("Q9"), nullptr);
  EXPECT_EQ(find_mix(""), nullptr);
  EXPECT_THAT(mix_names(), AllOf(HasSubstr("Q2_K"), HasSubstr("BF16")));
}

TEST_F(Quantize, MediumMixSpreadsTheBetterType) {
  const auto types = plan(write("m.gguf", DType::kF16, llama_shapes(256, 512, true)), "Q4_K_M");
  // Eight layers: the first, the last, and 3 and 6 counted from the second.
  for (const int layer : {0, 3, 6, 7}) {
    EXPECT_EQ(types.at(str("blk.", layer, ".attn_v.weight")), "Q6_K") << layer;
    EXPECT_EQ(types.at(str("blk.", layer, ".ffn_down.weight")), "Q6_K") << layer;
  }
  for (const int layer : {1, 2, 4, 5}) EXPECT_EQ(types.at(str("blk.", layer, ".attn_v.weight")), "Q4_K") << layer;
  EXPECT_EQ(types.at("blk.0.attn_q.weight"), "Q4_K");
  EXPECT_EQ(types.at("token_embd.weight"), "Q4_K");
  EXPECT_EQ(types.at("output.weight"), "Q6_K");
  EXPECT_EQ(types.at("output_norm.weight"), "F32");
  EXPECT_EQ(types.at("blk.0.ffn_gate_inp.weight"), "F32");  // a router
}

TEST_F(Quantize, OtherMixes) {
  const std::string path = write("m.gguf", DType::kF32, llama_shapes(256, 512, false));
  EXPECT_EQ(plan(path, "Q4_K_M").at("token_embd.weight"), "Q6_K");  // serves as the head
  EXPECT_EQ(plan(path, "Q8_0").at("token_embd.weight"), "Q8_0");
  EXPECT_EQ(plan(path, "Q3_K_M").at("blk.1.attn_v.weight"), "Q5_K");
  EXPECT_EQ(plan(path, "Q3_K_M").at("blk.2.attn_v.weight"), "Q4_K");
  EXPECT_EQ(plan(path, "Q3_K_L").at("blk.5.attn_output.weight"), "Q5_K");
  EXPECT_EQ(plan(path, "Q3_K_S").at("blk.0.attn_v.weight"), "Q3_K");
  EXPECT_EQ(plan(path, "Q4_K_S").at("blk.3.attn_v.weight"), "Q5_K");
  EXPECT_EQ(plan(path, "Q4_K_S").at("blk.4.attn_v.weight"), "Q4_K");
  EXPECT_EQ(plan(path, "Q2_K").at("blk.0.attn_v.weight"), "Q4_K");  // four heads share it
  EXPECT_EQ(plan(path, "Q2_K").at("blk.0.ffn_down.weight"), "Q3_K");
  EXPECT_EQ(plan(path, "F16").at("blk.0.attn_v.weight"), "F16");
  EXPECT_EQ(plan(path, "F16").at("blk.0.attn_norm.weight"), "F32");
  PlanOptions options;
  options.pure = true;
  EXPECT_EQ(plan(path, "Q4_K_M", options).at("token_embd.weight"), "Q4_K");
  options.token_embedding = DType::kBF16;
  EXPECT_EQ(plan(path, "Q4_K_M", options).at("token_embd.weight"), "BF16");
  options.output = DType::kQ8_0;
  EXPECT_EQ(plan(path, "Q4_K_M", options).at("token_embd.weight"), "Q8_0");
}

TEST_F(Quantize, FallsBackWhenRowsDoNotDivide) {
  const std::pair<const char*, const char*> rows_of_32[] = {
      {"Q4_K_S", "Q5_0"},   {"Q5_K_S", "Q5_1"}, {"Q6_K", "Q8_0"}, {"Q3_K_S", "Q4_0"}, {"Q2_K_S", "Q4_0"},
      {"IQ4_XS", "IQ4_NL"}, {"TQ1_0", "Q4_0"},  {"Q4_0", "Q4_0"}, {"MXFP4", "MXFP4"}};
  const std::string path = write("m.gguf", DType::kF32, llama_shapes(96, 96, true));
  for (const auto& [mix, type] : rows_of_32) EXPECT_EQ(plan(path, mix).at("blk.7.attn_q.weight"), type) << mix;
  const std::string odd = write("odd.gguf", DType::kF32, llama_shapes(40, 40, true));
  EXPECT_EQ(plan(odd, "Q4_K_M").at("blk.7.attn_q.weight"), "F16");
  EXPECT_EQ(plan(odd, "Q8_0").at("blk.7.attn_q.weight"), "F16");
  const gguf::File file = gguf::File::open(odd);
  EXPECT_THAT(plan_quantization(file, *find_mix("Q4_K_M"), {})[0].note,
              AllOf(HasSubstr("rows of 40"), HasSubstr("F16 instead of Q4_K")));
}

TEST_F(Quantize, WritesWhatItPlanned) {
  const std::string source = write("m.gguf", DType::kF32, llama_shapes(256, 512, true));
  const std::string out = folder_ + "/out.gguf";
  for (const char* mix : {"Q4_K_M", "Q3_K_M", "Q2_K", "Q8_0", "Q4_0", "IQ4_XS", "F16", "BF16"}) {
    ASSERT_EQ(cmd_quantize({source, out, mix, "-t", "2"}), 0);
    const gguf::File before = gguf::File::open(source), after = gguf::File::open(out);
    EXPECT_EQ(after.metadata().require_int("general.file_type"), file_type(*find_mix(mix)));
    EXPECT_EQ(after.metadata().require_int("general.quantization_version"), 2);
    EXPECT_FALSE(after.metadata().has("split.count"));
    EXPECT_THAT(*after.metadata().find_strings("tokenizer.ggml.tokens"), ::testing::ElementsAre("a", "b", "c", "d"));
    ASSERT_EQ(after.tensors().size(), before.tensors().size());
    const auto types = plan(source, mix);
    for (const TensorView& tensor : before.tensors()) {
      const TensorView& packed = *after.find(tensor.name);
      EXPECT_EQ(loci::name(packed.type), types.at(tensor.name)) << tensor.name;
      std::vector<float> a(static_cast<size_t>(tensor.n_elements())), b(a.size());
      dequantize_row(tensor.type, tensor.data, a.data(), tensor.n_elements());
      dequantize_row(packed.type, packed.data, b.data(), tensor.n_elements());
      double error = 0;
      for (size_t i = 0; i < a.size(); ++i) error += (a[i] - b[i]) * (a[i] - b[i]);
      EXPECT_LT(std::sqrt(error / static_cast<double>(a.size())), 0.05 * 0.32) << mix << " " << tensor.name;
    }
  }
}

TEST_F(Quantize, DoesNotDependOnThreads) {
  std::vector<Shape> shapes = llama_shapes(256, 512, true);
  shapes.push_back({"blk.0.ffn_gate.weight", {256, 1000}});  // several chunks
  const std::string source = write("m.gguf", DType::kF16, shapes);
  ASSERT_EQ(cmd_quantize({source, folder_ + "/1.gguf", "Q4_K_M", "-t", "1"}), 0);
  ASSERT_EQ(cmd_quantize({source, folder_ + "/3.gguf", "Q4_K_M", "-t", "3"}), 0);
  EXPECT_EQ(bytes_of(folder_ + "/1.gguf"), bytes_of(folder_ + "/3.gguf"));
}

TEST_F(Quantize, RefusesWeightsThatAreNotNumbers) {
  const std::string out = folder_ + "/out.gguf";
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::string source = write("m.gguf", DType::kF32, llama_shapes(256, 512, true), odd);
    for (const char* mix : {"Q4_K_M", "Q8_0", "F16", "F32"}) {
      EXPECT_THAT(error_of({source, out, mix}), AllOf(HasSubstr("tensor token_embd.weight"), HasSubstr("row 0")))
          << mix;
    }
  }
  const std::string large = write("m.gguf", DType::kF32, llama_shapes(256, 512, true), 1e6f);
  EXPECT_THAT(error_of({large, out, "F16"}), HasSubstr("beyond the 65504"));
  EXPECT_EQ(error_of({large, out, "BF16"}), "no error");
  fs::remove(out);
  EXPECT_THAT(error_of({large, out, "Q4_0"}), HasSubstr("beyond the 65504"));
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(Quantize, RefusesQuantizedSources) {
  const std::string out = folder_ + "/out.gguf";
  const std::string source = write("m.gguf", DType::kQ4_0, llama_shapes(256, 512, true));
  EXPECT_THAT(error_of({source, out, "Q4_K_M"}),
              AllOf(HasSubstr("tensor token_embd.weight"), HasSubstr("found Q4_0"), HasSubstr("--allow-requantize")));
  EXPECT_EQ(error_of({source, out, "Q4_K_M", "--allow-requantize"}), "no error");
  EXPECT_EQ(error_of({write("q8.gguf", DType::kQ8_0, llama_shapes(256, 512, true)), out, "Q4_K_M"}), "no error");
}

TEST_F(Quantize, RefusesToOverwriteItsInput) {
  const std::string source = write("m.gguf", DType::kF16, llama_shapes(256, 512, true));
  const std::string before = bytes_of(source);
  fs::create_symlink("m.gguf", folder_ + "/link.gguf");
  fs::create_hard_link(source, folder_ + "/hard.gguf");
  for (const char* name : {"/m.gguf", "/link.gguf", "/hard.gguf", "/../"}) {
    EXPECT_NE(error_of({source, folder_ + name, "Q8_0"}), "no error") << name;
  }
  EXPECT_EQ(bytes_of(source), before);
}

TEST_F(Quantize, RefusesBadArguments) {
  const std::string source = write("m.gguf", DType::kF16, llama_shapes(256, 512, true));
  const std::string out = folder_ + "/out.gguf";
  EXPECT_THAT(error_of({source, out, "Q9_K"}), AllOf(HasSubstr("'Q9_K'"), HasSubstr("Q4_K_M")));
  EXPECT_THAT(error_of({source, out, "Q8_0", "--output-tensor-type", "IQ2_XS"}), HasSubstr("--output-tensor-type"));
  EXPECT_THAT(error_of({source, out}), HasSubstr("type"));
  EXPECT_THAT(error_of({folder_ + "/none.gguf", out, "Q8_0"}), HasSubstr("none.gguf"));
  EXPECT_THAT(error_of({source, "", "Q8_0"}), HasSubstr("output path"));
  EXPECT_THAT(error_of({source, folder_ + "/none/out.gguf", "Q8_0"}), HasSubstr("No such file"));
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace loci::cli
