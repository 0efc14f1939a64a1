// What `loci perplexity --kl-divergence` prints, in llama.cpp's form.
#pragma once
#include <cstdint>

#include "engine/eval/divergence.h"

namespace loci::cli {

void print_divergence_header();
void print_divergence_line(int64_t chunk, const Divergence& divergence);
void print_divergence_report(const Divergence& divergence);

}  // namespace loci::cli
