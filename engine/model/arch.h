// ArchSpec: an architecture described as data. archs/<name>.cc reads it from GGUF metadata; weights and decoder
// branch on its fields, never on its name. A model that needs new arithmetic gets a new field here.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config.h"
#include "gguf/metadata.h"
#include "kernels/backend.h"

namespace loci {

// One way of rotating q and k. Layers with the same RopeSpec share the angles of a step.
//   angle of pair i at position p = p * base^(-2i / n_rot) / factor_i * freq_scale      (factor_i: rope_freqs or 1)
// YaRN (Peng et al. 2023, arXiv:2309.00071) when ext_factor != 0: docs/gguf.md section 6.
struct RopeSpec {
  int n_rot = 0;  // rotated dimensions of a head, even
  double freq_base = 10000;
  double freq_scale = 1;   // 1 / context stretch
  double ext_factor = 0;   // YaRN: share of extrapolation in the ramp, 0 = linear scaling alone
  double attn_factor = 1;  // multiplies cos and sin
  double beta_fast = 32, beta_slow = 1;
  int64_t original_ctx = 0;  // tokens, YaRN
  bool overridable = true;   // --rope-* flags apply (false: windowed layers with a base of their own)

  bool operator==(const RopeSpec&) const = default;
};

enum class Presence { kAbsent, kOptional, kRequired };

struct LayerSpec {
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;  // of q, k and v
  int ffn_dim = 0;
  int window = 0;   // tokens a row sees, itself included; 0: all
  int rope = 0;     // index into ArchSpec::ropes
  float scale = 0;  // multiplies q.k
};

// Invariants (checked by `validate`): every count is at least 1, n_heads a multiple of n_kv_heads, n_rot even and at
// most head_dim, layers not empty, every float finite.
struct ArchSpec {
  std::string name;
  int64_t dim = 0;          // width of the residual stream
  int64_t vocab_size = 0;   // rows of embedding and head
  int64_t n_ctx_train = 0;  // tokens
  int n_layers_file = 0;    // block_count, appended multi-token-prediction layers included
  float norm_eps = 0;
  float embedding_scale = 1;
  float attn_softcap = 0;   // > 0: c * tanh(score / c)
  float final_softcap = 0;  // the same for logits
  Activation activation = Activation::kSilu;
  RopePairing pairing = RopePairing::kAdjacent;
  Presence qkv_bias = Presence::kOptional;
  Presence qk_norm = Presence::kAbsent;  // per-head RMS norm of q and k before rope
  bool post_norms = false;               // norm the output of attention and of ffn before the residual add
  bool rope_freqs = false;               // the file may hold rope_freqs.weight, a divisor per frequency
  std::vector<RopeSpec> ropes;
  std::vector<LayerSpec> layers;  // the trunk alone

  int max_heads() const;
  int max_head_dim() const;
  int max_ffn_dim() const;
};

struct ArchEntry {
  std::string_view name;  // general.architecture
  ArchSpec (*read)(const gguf::Metadata& metadata);
};
std::span<const ArchEntry> arch_list();

// Reads the spec of the model that `metadata` describes. Throws Error naming file, key, expectation and value.
ArchSpec read_arch(const gguf::Metadata& metadata);

// Applies the --rope-* flags to the ropes they may change. Throws Error naming flag and value.
void apply_rope_overrides(const RopeOverrides& overrides, ArchSpec& arch);

// Angles of one rope for rows at `positions`, computed in double. `freq_factors`: [n_rot / 2] divisors, or empty.
void fill_rope_angles(const RopeSpec& rope, std::span<const float> freq_factors, std::span<const int32_t> positions,
                      RopeAngles& angles);

}  // namespace loci
