#include "engine/model/matrix_work.h"

#include <cstdlib>
#include <string>

namespace loci {
namespace {

void add(const TensorView& tensor, MatrixWork& work) {
  work.bytes += tensor.n_bytes();
  work.macs += tensor.n_elements();
  if (traits(tensor.type).block_elements > 1) work.quantized_macs += tensor.n_elements();
}

}  // namespace

ModelWork count_matrices(const gguf::File& file, const ArchSpec& arch) {
  ModelWork work;
  const int n_layers = static_cast<int>(arch.layers.size());
  for (const TensorView& tensor : file.tensors()) {
    const bool in_trunk = tensor.name.starts_with("blk.") && std::atoi(tensor.name.c_str() + 4) < n_layers;
    if (in_trunk && tensor.n_rows() > 1) add(tensor, work.layers);
  }
  const TensorView* head = file.find("output.weight");
  if (head == nullptr) head = file.find("token_embd.weight");
  if (head != nullptr) add(*head, work.head);
  return work;
}

}  // namespace loci
