// quant_tool: raw rows through the quantizers, for scripts/check_quants.py, which compares them with the gguf package.
//   quant_tool list                          one line per type: id name block_elements block_bytes dequantize quantize
//   quant_tool dequantize TYPE IN OUT        blocks to f32
//   quant_tool quantize TYPE IN OUT          f32 to blocks
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "kernels/quant/quant.h"

namespace loci {
namespace {

std::vector<char> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(ErrorKind::kNotFound, path, ": cannot be opened");
  return {std::istreambuf_iterator<char>(in), {}};
}

void list_types() {
  for (uint32_t id = 0; id < 64; ++id) {
    const DTypeTraits* type = find_dtype(id);
    if (type == nullptr) continue;
    std::printf("%u %s %lld %lld %d %d\n", id, std::string(type->name).c_str(),
                static_cast<long long>(type->block_elements), static_cast<long long>(type->block_bytes),
                type->can_dequantize ? 1 : 0, can_quantize(type->type) ? 1 : 0);
  }
}

void convert(const std::string& action, const std::string& type_name, const std::string& in, const std::string& out) {
  const auto type = dtype_from_name(type_name);
  if (!type) fail(ErrorKind::kInvalidInput, "unknown type ", type_name);
  const std::vector<char> bytes = read_file(in);
  std::vector<char> result;
  if (action == "dequantize") {
    const auto n = static_cast<int64_t>(bytes.size()) / traits(*type).block_bytes * traits(*type).block_elements;
    std::vector<float> values(static_cast<size_t>(n));
    dequantize_row(*type, reinterpret_cast<const std::byte*>(bytes.data()), values.data(), n);
    result.resize(values.size() * sizeof(float));
    std::memcpy(result.data(), values.data(), result.size());
  } else {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    const auto n = static_cast<int64_t>(values.size());
    result.resize(static_cast<size_t>(row_bytes(*type, n)));
    quantize_row(*type, values.data(), reinterpret_cast<std::byte*>(result.data()), n);
  }
  std::ofstream file(out, std::ios::binary);
  file.write(result.data(), static_cast<std::streamsize>(result.size()));
  if (!file) fail(ErrorKind::kInvalidInput, out, ": cannot be written");
}

}  // namespace
}  // namespace loci

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  try {
    if (args.size() == 1 && args[0] == "list") {
      loci::list_types();
    } else if (args.size() == 4 && (args[0] == "dequantize" || args[0] == "quantize")) {
      loci::convert(args[0], args[1], args[2], args[3]);
    } else {
      std::fputs("usage: quant_tool list | dequantize TYPE IN OUT | quantize TYPE IN OUT\n", stderr);
      return 1;
    }
  } catch (const loci::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
