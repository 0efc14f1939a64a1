#include "tests/support/tiny_model.h"

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include "kernels/error.h"
#include "kernels/quant/quant.h"

namespace loci::test {
namespace {

// The printable stand-in of each byte in byte-level BPE vocabularies.
std::string byte_text(int byte) {
  const auto is_itself = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
  };
  int code = byte;
  if (!is_itself(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += is_itself(b) ? 0 : 1;
  }
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

void set_vocabulary(gguf::Writer& writer) {
  std::vector<std::string> tokens, merges;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(byte_text(byte));
  const std::string space = byte_text(' ');
  const std::pair<std::string, std::string> pairs[] = {{"t", "h"},     {"th", "e"}, {"i", "n"},
                                                       {space, "the"}, {"e", "r"},  {"a", "n"}};
  for (const auto& [left, right] : pairs) {
    merges.push_back(left + " " + right);
    tokens.push_back(left + right);
  }
  std::vector<int32_t> types(tokens.size(), 1);
  for (const char* special : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    tokens.emplace_back(special);
    types.push_back(3);
  }
  writer.set_string("tokenizer.ggml.model", "gpt2");
  writer.set_string("tokenizer.ggml.pre", "qwen2");
  writer.set_strings("tokenizer.ggml.tokens", tokens);
  writer.set_i32s("tokenizer.ggml.token_type", types);
  writer.set_strings("tokenizer.ggml.merges", merges);
  writer.set_u32("tokenizer.ggml.bos_token_id", kTinyEndOfText);
  writer.set_u32("tokenizer.ggml.eos_token_id", kTinyImEnd);
  writer.set_bool("tokenizer.ggml.add_bos_token", false);
  writer.set_string("tokenizer.chat_template",
                    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}"
                    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");
}

class ModelWriter {
 public:
  explicit ModelWriter(const TinyModel& model) : model_(model), random_(model.seed) {}

  void write(const std::string& path) {
    set_keys();
    set_vocabulary(writer_);
    if (model_.keys) model_.keys(writer_);
    add_tensors();
    writer_.write(path);
  }

 private:
  void set_keys() {
    const std::string& arch = model_.arch;
    writer_.set_string("general.architecture", arch);
    writer_.set_string("general.name", "tiny " + arch);
    writer_.set_u32(arch + ".context_length", static_cast<uint32_t>(model_.n_ctx));
    writer_.set_u32(arch + ".embedding_length", static_cast<uint32_t>(model_.dim));
    writer_.set_u32(arch + ".block_count", static_cast<uint32_t>(model_.n_layers));
    writer_.set_u32(arch + ".feed_forward_length", static_cast<uint32_t>(model_.ffn_dim));
    writer_.set_u32(arch + ".attention.head_count", static_cast<uint32_t>(model_.n_heads));
    writer_.set_u32(arch + ".attention.head_count_kv", static_cast<uint32_t>(model_.n_kv_heads));
    writer_.set_u32(arch + ".attention.key_length", static_cast<uint32_t>(model_.head_dim));
    writer_.set_u32(arch + ".attention.value_length", static_cast<uint32_t>(model_.head_dim));
    writer_.set_f32(arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
    writer_.set_f32(arch + ".rope.freq_base", 10000.0f);
    if (model_.window > 0) writer_.set_u32(arch + ".attention.sliding_window", static_cast<uint32_t>(model_.window));
  }

  void add(const std::string& name, std::vector<int64_t> ne, DType type, float mean, float sigma) {
    int64_t n = 1;
    for (const int64_t d : ne) n *= d;
    // Box-Muller on raw generator output: the same values with every standard library.
    std::vector<float> values(static_cast<size_t>(n));
    for (float& value : values) {
      const double u = (random_() + 1.0) / 4294967297.0, v = random_() / 4294967296.0;
      value = mean + sigma * static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v));
    }
    if (name == "rope_freqs.weight") {
      for (float& value : values) value = 1 + std::abs(value);
    }
    if (model_.wanted && !model_.wanted(name)) return;
    if (model_.edit) model_.edit(name, values);
    const int64_t row = ne[0];
    writer_.add_tensor(name, type, std::move(ne), [values, type, row](std::span<std::byte> bytes) {
      const int64_t n_rows = static_cast<int64_t>(values.size()) / row;
      for (int64_t r = 0; r < n_rows; ++r) {
        std::byte* to = bytes.data() + r * row_bytes(type, row);
        if (type == DType::kF32) {
          std::memcpy(to, values.data() + r * row, static_cast<size_t>(row) * sizeof(float));
        } else {
          quantize_row(type, values.data() + r * row, to, row);
        }
      }
    });
  }
  void vector(const std::string& name, int n, float mean, float sigma) { add(name, {n}, DType::kF32, mean, sigma); }
  // Rows scaled so that outputs stay of order one.
  void matrix(const std::string& name, int cols, int rows) {
    add(name, {cols, rows}, model_.type, 0, 1 / std::sqrt(static_cast<float>(cols)));
  }

  void add_tensors() {
    const TinyModel& m = model_;
    const bool is_gemma = m.arch == "gemma3";
    const int q_dim = m.n_heads * m.head_dim, kv_dim = m.n_kv_heads * m.head_dim;
    add("token_embd.weight", {m.dim, kTinyVocab}, m.type, 0,
        is_gemma ? 1 / std::sqrt(static_cast<float>(m.dim)) : 1.0f);
    if (m.rope_freqs) {
      add("rope_freqs.weight", {m.head_dim / 2}, DType::kF32, 0, 1);
    }
    for (int i = 0; i < m.n_layers; ++i) {
      const std::string prefix = str("blk.", i, ".");
      vector(prefix + "attn_norm.weight", m.dim, 1, 0.1f);
      if (m.fused_qkv) {
        matrix(prefix + "attn_qkv.weight", m.dim, q_dim + 2 * kv_dim);
      } else {
        matrix(prefix + "attn_q.weight", m.dim, q_dim);
        matrix(prefix + "attn_k.weight", m.dim, kv_dim);
        matrix(prefix + "attn_v.weight", m.dim, kv_dim);
      }
      if (m.biases || m.arch == "qwen2") {
        if (m.fused_qkv) {
          vector(prefix + "attn_qkv.bias", q_dim + 2 * kv_dim, 0, 0.5f);
        } else {
          vector(prefix + "attn_q.bias", q_dim, 0, 0.5f);
          vector(prefix + "attn_k.bias", kv_dim, 0, 0.5f);
          vector(prefix + "attn_v.bias", kv_dim, 0, 0.5f);
        }
      }
      if (is_gemma || m.arch == "qwen3") {
        vector(prefix + "attn_q_norm.weight", m.head_dim, 1, 0.1f);
        vector(prefix + "attn_k_norm.weight", m.head_dim, 1, 0.1f);
      }
      matrix(prefix + "attn_output.weight", q_dim, m.dim);
      if (m.biases) vector(prefix + "attn_output.bias", m.dim, 0, 0.2f);
      if (is_gemma) {
        vector(prefix + "post_attention_norm.weight", m.dim, 1, 0.1f);
        vector(prefix + "post_ffw_norm.weight", m.dim, 1, 0.1f);
      }
      vector(prefix + "ffn_norm.weight", m.dim, 1, 0.1f);
      matrix(prefix + "ffn_gate.weight", m.dim, m.ffn_dim);
      matrix(prefix + "ffn_up.weight", m.dim, m.ffn_dim);
      matrix(prefix + "ffn_down.weight", m.ffn_dim, m.dim);
      if (m.biases) vector(prefix + "ffn_down.bias", m.dim, 0, 0.2f);
    }
    vector("output_norm.weight", m.dim, 1, 0.1f);
    if (!m.tied) add("output.weight", {m.dim, kTinyVocab}, m.type, 0, 2 / std::sqrt(static_cast<float>(m.dim)));
  }

  const TinyModel& model_;
  std::mt19937 random_;
  gguf::Writer writer_;
};

struct TemporaryDirectory {
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "loci-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) fail(ErrorKind::kInternal, "cannot make a directory like ", pattern);
    path = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

}  // namespace

void write_tiny_model(const TinyModel& model, const std::string& path) { ModelWriter(model).write(path); }

std::string temporary_path(const std::string& name) {
  static const TemporaryDirectory directory;
  static int count = 0;
  return (directory.path / str(count++, "-", name)).string();
}

std::string tiny_model_file(const TinyModel& model) {
  const std::string path = temporary_path(model.arch + ".gguf");
  write_tiny_model(model, path);
  return path;
}

std::vector<int32_t> random_tokens(int n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>(random() % kTinyEndOfText));
  return tokens;
}

}  // namespace loci::test
