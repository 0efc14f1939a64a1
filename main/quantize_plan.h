// Which type each tensor of a model gets when it is quantized: the mixes that people know by llama.cpp's names.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"
#include "kernels/dtype.h"

namespace loci::cli {

struct QuantMix;  // one name such as Q4_K_M and its rules

// nullptr for an unknown name; letter case does not matter.
const QuantMix* find_mix(std::string_view name);
std::string mix_names();  // "F32, F16, ...", for messages
std::string_view name(const QuantMix& mix);
int64_t file_type(const QuantMix& mix);  // general.file_type

struct PlanOptions {
  bool pure = false;                     // all matrices the mix's base type
  std::optional<DType> token_embedding;  // for token_embd.weight
  std::optional<DType> output;           // for the head
  bool allow_requantize = false;         // sources that are quantized already, Q8_0 apart
};

struct PlannedTensor {
  DType target;
  std::string note;  // why another type than the mix asks for, or empty
};

// One entry per tensor of `file`, in its order. Throws Error naming the tensor when a source may not or cannot be
// converted.
std::vector<PlannedTensor> plan_quantization(const gguf::File& file, const QuantMix& mix, const PlanOptions& options);

}  // namespace loci::cli
