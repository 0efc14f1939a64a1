// Any bytes as a GGUF file: they are read or refused with an Error. What is read is then looked up, described and
// turned into a tokenizer, as loading a model would.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engine/model/arch.h"
#include "engine/text/tokenizer.h"
#include "gguf/parse.h"
#include "kernels/error.h"

namespace {

template <typename Fn>
void attempt(Fn&& fn) {
  try {
    fn();
  } catch (const loci::Error&) {  // the only way to refuse
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
    look_up(part.metadata);
    attempt([&] { loci::read_arch(part.metadata); });
    attempt([&] {
      const auto tokenizer = loci::Tokenizer::from_metadata(part.metadata);
      attempt([&] { tokenizer->decode(tokenizer->encode("Hello, wörld \xff<s>", true, true), true); });
    });
  });
  return 0;
}
