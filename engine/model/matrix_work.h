// MatrixWork: what multiplying by a model's weight matrices takes, for judging speed by what the machine could do.
#pragma once
#include <cstdint>

#include "engine/model/arch.h"
#include "gguf/gguf.h"

namespace loci {

struct MatrixWork {
  int64_t bytes = 0;           // read by one pass over them: panels take as many bytes as the file's blocks
  int64_t macs = 0;            // multiply-adds per row
  int64_t quantized_macs = 0;  // of these, with block-quantized weights
};

struct ModelWork {
  MatrixWork layers;  // all of them together
  MatrixWork head;    // the output head, which may be the embedding
};

// REQUIRES: a file that check_weights() accepts.
ModelWork count_matrices(const gguf::File& file, const ArchSpec& arch);

}  // namespace loci
