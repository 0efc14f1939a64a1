// Writing GGUF v3 files: quantized models, tiny models for tests. Streams tensor data, so that a large model
// needs no second copy in memory.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gguf/metadata.h"
#include "kernels/dtype.h"

namespace loci::gguf {

class Writer {
 public:
  Writer();
  ~Writer();
  void set_u32(const std::string& key, uint32_t value);
  void set_i32(const std::string& key, int32_t value);
  void set_u64(const std::string& key, uint64_t value);
  void set_f32(const std::string& key, float value);
  void set_bool(const std::string& key, bool value);
  void set_string(const std::string& key, const std::string& value);
  void set_strings(const std::string& key, const std::vector<std::string>& values);
  void set_f32s(const std::string& key, const std::vector<float>& values);
  void set_i32s(const std::string& key, const std::vector<int32_t>& values);
  // Copies a pair as it was read, type and all. general.alignment is obeyed. A repeated key replaces its value.
  void set(const std::string& key, const Value& value);

  // Declares a tensor; `fill(bytes)` is called when its turn comes to be written.  ne[0] is the row length.
  // REQUIRES: a name of 1..64 bytes, used once; 1..4 dimensions above 0; ne[0] a multiple of the type's block.
  void add_tensor(const std::string& name, DType type, std::vector<int64_t> ne,
                  std::function<void(std::span<std::byte>)> fill);

  // Writes to a temporary file that takes the place of `path` when complete: a failed or interrupted write leaves
  // nothing at `path`.  `progress(tensor index, count, name)` may be empty.  Throws Error.
  void write(const std::string& path,
             const std::function<void(size_t, size_t, const std::string&)>& progress = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace loci::gguf
