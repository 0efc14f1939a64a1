// Any bytes as a GGUF file: they are read or refused with an Error. What is read is then looked up, described and
// turned into a tokenizer, as loading a model would.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/model/arch.h"
#include "engine/text/tokenizer.h"
#include "gguf/parse.h"
#include "kernels/error.h"
#include "kernels/quant/quant.h"

namespace {

template <typename Fn>
void attempt(Fn&& fn) {
  try {
    fn();
  } catch (const loci::Error& error) {  // the only way to refuse: one line that a terminal cannot misread
    for (const char* c = error.what(); *c != '\0'; ++c) {
      if (static_cast<unsigned char>(*c) < 0x20 || *c == 0x7f) __builtin_trap();
    }
  }
}

void look_up(const loci::gguf::Metadata& metadata) {
  for (const std::string& key : metadata.keys()) {
    attempt([&] { metadata.find_int(key); });
    attempt([&] { metadata.find_float(key); });
    attempt([&] { metadata.find_bool(key); });
    attempt([&] { metadata.find_string(key); });
    attempt([&] { metadata.find_ints(key); });
    attempt([&] { metadata.find_floats(key); });
    attempt([&] { metadata.find_strings(key); });
  }
}

// First and last row of every tensor.
void read_rows(const loci::gguf::Part& part) {
  for (const loci::TensorView& tensor : part.tensors) {
    if (!loci::traits(tensor.type).can_dequantize || tensor.row_length() > 1 << 16) continue;
    std::vector<float> values(static_cast<size_t>(tensor.row_length()));
    loci::dequantize_row(tensor.type, tensor.row(0), values.data(), tensor.row_length());
    loci::dequantize_row(tensor.type, tensor.row(tensor.n_rows() - 1), values.data(), tensor.row_length());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  attempt([&] {
    const auto bytes = std::as_bytes(std::span(data, size));
    const loci::gguf::Part part = loci::gguf::parse_part(bytes, "fuzz.gguf");
    for (const loci::TensorView& tensor : part.tensors) {
      const bool inside = tensor.data >= bytes.data() && tensor.n_bytes() >= 0 &&
                          tensor.data + tensor.n_bytes() <= bytes.data() + bytes.size();
      if (!inside) __builtin_trap();
    }
    read_rows(part);
    look_up(part.metadata);
    attempt([&] { loci::read_arch(part.metadata); });
    attempt([&] {
      const auto tokenizer = loci::Tokenizer::from_metadata(part.metadata);
      attempt([&] { tokenizer->decode(tokenizer->encode("Hello, wörld \xff<s>", true, true), true); });
    });
  });
  return 0;
}
