#include "engine/model/weights.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <set>

#include "engine/memory.h"
#include "gguf/printable.h"
#include "kernels/check.h"
#include "kernels/error.h"
#include "kernels/log.h"
#include "kernels/quant/quant.h"

namespace loci {
namespace {

// Where each role's tensor lies in the file. Unset views have data == nullptr.
struct LayerTensors {
  TensorView attn_norm, post_attn_norm, ffn_norm, post_ffn_norm, q_norm, k_norm, sinks;
  TensorView q_bias, k_bias, v_bias, o_bias, down_bias;
  TensorView q, k, v, o, gate, up, down;
};

struct ModelTensors {
  TensorView embedding, output_norm, output, rope_freqs;
  std::vector<LayerTensors> layers;
  std::vector<std::string> unused;
};

std::string shape_text(const std::array<int64_t, 4>& ne, size_t at_least) {
  size_t rank = 4;
  while (rank > at_least && ne[rank - 1] == 1) --rank;
  std::string text = "[";
  for (size_t i = 0; i < rank; ++i) text += str(i == 0 ? "" : ", ", ne[i]);
  return text + "]";
}

// Looks tensors up by name and remembers which ones were used.
class Resolver {
 public:
  explicit Resolver(const gguf::File& file) : file_(file) {}

  // [n] or [cols, rows] in the file's order. `required` false: an unset view when there is no such tensor.
  TensorView vector(const std::string& name, int64_t n, bool required) {
    return tensor(name, {n, 1, 1, 1}, 1, required);
  }
  TensorView matrix(const std::string& name, int64_t cols, int64_t rows, bool required) {
    return tensor(name, {cols, rows, 1, 1}, 2, required);
  }
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  const std::set<std::string, std::less<>>& used() const { return used_; }

 private:
  TensorView tensor(const std::string& name, std::array<int64_t, 4> ne, size_t rank, bool required) {
    const TensorView* found = file_.find(name);
    if (found == nullptr) {
      if (!required) return {};
      fail(ErrorKind::kInvalidInput, file_.path(), ": tensor ", name, ": expected ", shape_text(ne, rank),
           ", found no such tensor");
    }
    if (found->ne != ne) {
      fail(ErrorKind::kInvalidInput, file_.path(), ": tensor ", name, ": expected ", shape_text(ne, rank), ", found ",
           shape_text(found->ne, 1));
    }
    if (!traits(found->type).can_dequantize) {
      fail(ErrorKind::kUnsupported, file_.path(), ": tensor ", name, ": type ", loci::name(found->type),
           " can be read but not computed with");
    }
    used_.insert(name);
    return *found;
  }

  const gguf::File& file_;
  std::set<std::string, std::less<>> used_;
};

// Rows [first, first + n) of a fused matrix or elements of a fused bias.
TensorView slice(const TensorView& whole, int64_t first, int64_t n) {
  TensorView part = whole;
  const bool is_vector = whole.ne[1] == 1;
  part.data += is_vector ? first * row_bytes(whole.type, 1) : first * whole.row_stride_bytes();
  part.ne[is_vector ? 0 : 1] = n;
  return part;
}

void resolve_qkv(Resolver& resolver, const ArchSpec& arch, const LayerSpec& spec, const std::string& prefix,
                 LayerTensors& out) {
  const int64_t q_dim = int64_t{spec.n_heads} * spec.head_dim;
  const int64_t kv_dim = int64_t{spec.n_kv_heads} * spec.head_dim;
  const bool want_bias = arch.qkv_bias != Presence::kAbsent;
  const bool need_bias = arch.qkv_bias == Presence::kRequired;
  if (resolver.has(prefix + "attn_qkv.weight") && !resolver.has(prefix + "attn_q.weight")) {
    const TensorView fused = resolver.matrix(prefix + "attn_qkv.weight", arch.dim, q_dim + 2 * kv_dim, true);
    out.q = slice(fused, 0, q_dim);
    out.k = slice(fused, q_dim, kv_dim);
    out.v = slice(fused, q_dim + kv_dim, kv_dim);
    if (!want_bias) return;
    const TensorView bias = resolver.vector(prefix + "attn_qkv.bias", q_dim + 2 * kv_dim, need_bias);
    if (bias.data == nullptr) return;
    if (traits(bias.type).block_elements != 1) {
      fail(ErrorKind::kUnsupported, "tensor ", bias.name, ": expected a plain float type, found ", name(bias.type));
    }
    out.q_bias = slice(bias, 0, q_dim);
    out.k_bias = slice(bias, q_dim, kv_dim);
    out.v_bias = slice(bias, q_dim + kv_dim, kv_dim);
    return;
  }
  out.q = resolver.matrix(prefix + "attn_q.weight", arch.dim, q_dim, true);
  out.k = resolver.matrix(prefix + "attn_k.weight", arch.dim, kv_dim, true);
  out.v = resolver.matrix(prefix + "attn_v.weight", arch.dim, kv_dim, true);
  if (!want_bias) return;
  out.q_bias = resolver.vector(prefix + "attn_q.bias", q_dim, need_bias);
  out.k_bias = resolver.vector(prefix + "attn_k.bias", kv_dim, need_bias);
  out.v_bias = resolver.vector(prefix + "attn_v.bias", kv_dim, need_bias);
}

// What is left over is skipped, unless its name says that the result depends on it.
void collect_unused(const gguf::File& file, const ArchSpec& arch, const Resolver& resolver, ModelTensors& out) {
  const int n_layers = static_cast<int>(arch.layers.size());
  for (const TensorView& tensor : file.tensors()) {
    const std::string& name = tensor.name;
    if (resolver.used().contains(name)) continue;
    const bool in_trunk = name.starts_with("blk.") && std::atoi(name.c_str() + 4) < n_layers;
    const bool changes_result = name.ends_with(".bias") || name.ends_with(".scale") || name.ends_with("_norm.weight") ||
                                name.ends_with("_exps.weight") || name.ends_with("_inp.weight");
    if ((in_trunk && changes_result) || name == "output.bias") {
      fail(ErrorKind::kUnsupported, file.path(), ": tensor ", gguf::printable(name), ": not part of a ", arch.name,
           " model as this program knows it; without it the output would be wrong");
    }
    out.unused.push_back(name);
  }
}

ModelTensors resolve(const gguf::File& file, const ArchSpec& arch) {
  Resolver resolver(file);
  ModelTensors out;
  out.embedding = resolver.matrix("token_embd.weight", arch.dim, arch.vocab_size, true);
  out.output_norm = resolver.vector("output_norm.weight", arch.dim, true);
  out.output = resolver.matrix("output.weight", arch.dim, arch.vocab_size, false);
  if (arch.rope_freqs) out.rope_freqs = resolver.vector("rope_freqs.weight", arch.ropes[0].n_rot / 2, false);
  for (size_t i = 0; i < arch.layers.size(); ++i) {
    const LayerSpec& spec = arch.layers[i];
    const std::string prefix = str("blk.", i, ".");
    const int64_t q_dim = int64_t{spec.n_heads} * spec.head_dim;
    LayerTensors layer;
    layer.attn_norm = resolver.vector(prefix + "attn_norm.weight", arch.dim, true);
    resolve_qkv(resolver, arch, spec, prefix, layer);
    if (arch.qk_norm != Presence::kAbsent) {
      const bool required = arch.qk_norm == Presence::kRequired;
      layer.q_norm = resolver.vector(prefix + "attn_q_norm.weight", spec.head_dim, required);
      layer.k_norm = resolver.vector(prefix + "attn_k_norm.weight", spec.head_dim, required);
    }
    layer.sinks = resolver.vector(prefix + "attn_sinks.weight", spec.n_heads, false);
    layer.o = resolver.matrix(prefix + "attn_output.weight", q_dim, arch.dim, true);
    layer.o_bias = resolver.vector(prefix + "attn_output.bias", arch.dim, false);
    layer.ffn_norm = resolver.vector(prefix + "ffn_norm.weight", arch.dim, true);
    if (arch.post_norms) {
      layer.post_attn_norm = resolver.vector(prefix + "post_attention_norm.weight", arch.dim, true);
      layer.post_ffn_norm = resolver.vector(prefix + "post_ffw_norm.weight", arch.dim, true);
    }
    layer.gate = resolver.matrix(prefix + "ffn_gate.weight", arch.dim, spec.ffn_dim, true);
    layer.up = resolver.matrix(prefix + "ffn_up.weight", arch.dim, spec.ffn_dim, true);
    layer.down = resolver.matrix(prefix + "ffn_down.weight", spec.ffn_dim, arch.dim, true);
    layer.down_bias = resolver.vector(prefix + "ffn_down.bias", arch.dim, false);
    out.layers.push_back(std::move(layer));
  }
  collect_unused(file, arch, resolver, out);
  return out;
}

std::vector<float> floats(const gguf::File& file, const TensorView& tensor) {
  if (tensor.data == nullptr) return {};
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.n_bytes()));
  file.read(tensor.data, bytes);
  std::vector<float> values(static_cast<size_t>(tensor.n_elements()));
  dequantize_row(tensor.type, bytes.data(), values.data(), tensor.n_elements());
  return values;
}

// Converts matrices one by one, reporting progress by bytes.
class Loader {
 public:
  Loader(const gguf::File& file, Backend& backend, const WeightOptions& options, const LoadProgress& progress,
         Weights& out)
      : file_(file), backend_(backend), options_(options), progress_(progress), out_(out) {}

  void set_total(int64_t bytes) { total_ = bytes; }

  std::vector<float> vector(const TensorView& tensor) {
    if (tensor.data == nullptr) return {};
    out_.bytes += tensor.n_elements() * static_cast<int64_t>(sizeof(float));
    out_.n_params += tensor.n_elements();
    return floats(file_, tensor);
  }

  std::unique_ptr<PackedWeight> matrix(const TensorView& tensor) {
    step(tensor);
    std::unique_ptr<PackedWeight> packed =
        backend_.prepare(tensor, [this](std::span<const std::byte> bytes) { file_.release(bytes); });
    if (packed->reads_source()) packed = backend_.prepare(rows(tensor));
    out_.bytes += static_cast<int64_t>(packed->bytes());
    out_.n_params += tensor.n_elements();
    done_ += tensor.n_bytes();
    return packed;
  }

  // What is read where it lies: in the file, or, if nothing may read that later, in a copy.
  TensorView rows(const TensorView& tensor) {
    TensorView view = options_.keep_mapped ? tensor : copy(tensor);
    out_.sources.push_back(view);
    return view;
  }

 private:
  TensorView copy(const TensorView& tensor) {
    const auto bytes = static_cast<size_t>(tensor.n_bytes());
    auto memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    file_.read(tensor.data, {memory.get(), bytes});
    TensorView view = tensor;
    view.data = memory.get();
    out_.copies.push_back(std::move(memory));
    out_.bytes += tensor.n_bytes();
    return view;
  }
  void step(const TensorView& tensor) {
    if (progress_ && !progress_(done_, total_, tensor.name)) fail(ErrorKind::kInvalidInput, "interrupted");
  }

  const gguf::File& file_;
  Backend& backend_;
  const WeightOptions& options_;
  const LoadProgress& progress_;
  Weights& out_;
  int64_t done_ = 0, total_ = 0;
};

void check_rope_freqs(const gguf::File& file, const std::vector<float>& factors) {
  for (size_t i = 0; i < factors.size(); ++i) {
    if (!std::isfinite(factors[i]) || factors[i] <= 0) {
      fail(ErrorKind::kInvalidInput, file.path(), ": tensor rope_freqs.weight: expected numbers above 0, found ",
           factors[i], " at index ", i);
    }
  }
}

}  // namespace

std::vector<std::string> check_weights(const gguf::File& file, const ArchSpec& arch) {
  ModelTensors tensors = resolve(file, arch);
  check_rope_freqs(file, floats(file, tensors.rope_freqs));
  return std::move(tensors.unused);
}

Weights load_weights(const gguf::File& file, const ArchSpec& arch, Backend& backend, const WeightOptions& options,
                     const LoadProgress& progress) {
  const ModelTensors tensors = resolve(file, arch);
  for (const std::string& name : tensors.unused)
    log_debug(file.path(), ": tensor ", gguf::printable(name), " is not used");
  if (!tensors.unused.empty() && tensors.layers.size() == static_cast<size_t>(arch.n_layers_file)) {
    log_info(file.path(), ": ", tensors.unused.size(), " tensor(s) not used by ", arch.name,
             ", skipped: ", gguf::printable(tensors.unused[0]), tensors.unused.size() > 1 ? ", ..." : "");
  }
  Weights weights;
  Loader loader(file, backend, options, progress, weights);
  const bool tied = tensors.output.data == nullptr;
  const TensorView& head = tied ? tensors.embedding : tensors.output;
  std::vector<const TensorView*> matrices;
  for (const LayerTensors& t : tensors.layers) {
    for (const TensorView* m : {&t.q, &t.k, &t.v, &t.o, &t.gate, &t.up, &t.down}) matrices.push_back(m);
  }
  matrices.push_back(&head);
  int64_t total = 0;
  for (const TensorView* matrix : matrices) total += matrix->n_bytes();
  loader.set_total(total);
  backend.expect(matrices);

  if (!tied) {
    weights.embedding = loader.rows(tensors.embedding);
    if (options.keep_mapped) weights.embedding_file = &file;
    weights.n_params += tensors.embedding.n_elements();
  }
  weights.output_norm = loader.vector(tensors.output_norm);
  weights.rope_freqs = loader.vector(tensors.rope_freqs);
  check_rope_freqs(file, weights.rope_freqs);
  for (const LayerTensors& t : tensors.layers) {
    LayerWeights layer;
    layer.attn_norm = loader.vector(t.attn_norm);
    layer.post_attn_norm = loader.vector(t.post_attn_norm);
    layer.ffn_norm = loader.vector(t.ffn_norm);
    layer.post_ffn_norm = loader.vector(t.post_ffn_norm);
    layer.q_norm = loader.vector(t.q_norm);
    layer.k_norm = loader.vector(t.k_norm);
    layer.sinks = loader.vector(t.sinks);
    layer.q_bias = loader.vector(t.q_bias);
    layer.k_bias = loader.vector(t.k_bias);
    layer.v_bias = loader.vector(t.v_bias);
    layer.o_bias = loader.vector(t.o_bias);
    layer.down_bias = loader.vector(t.down_bias);
    layer.q = loader.matrix(t.q);
    layer.k = loader.matrix(t.k);
    layer.v = loader.matrix(t.v);
    layer.o = loader.matrix(t.o);
    layer.gate = loader.matrix(t.gate);
    layer.up = loader.matrix(t.up);
    layer.down = loader.matrix(t.down);
    weights.layers.push_back(std::move(layer));
  }
  weights.head = loader.matrix(head);
  if (progress && !progress(total, total, "done")) fail(ErrorKind::kInvalidInput, "interrupted");
  return weights;
}

std::string lock_weights(const Weights& weights, const std::string& path, Backend& backend) {
  int error = backend.lock_weights();
  int64_t bytes = weights.bytes;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (const TensorView& source : weights.sources) {
    const uintptr_t start = reinterpret_cast<uintptr_t>(source.data) / page * page;
    const uintptr_t end = reinterpret_cast<uintptr_t>(source.data) + static_cast<uintptr_t>(source.n_bytes());
    if (weights.copies.empty()) bytes += source.n_bytes();  // else counted as memory already
    if (error == 0 && ::mlock(reinterpret_cast<const void*>(start), end - start) != 0) error = errno;
  }
  if (error == 0) return "";
  rlimit limit{};
  const bool known = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  std::string text = str("cannot lock the ", bytes_text(bytes), " of weights of ", gguf::printable(path, 4096),
                         " in memory: ", std::strerror(error));
  if (known) {
    text += str("; the limit is ", limit.rlim_cur / 1024,
                " KiB: raise it with 'ulimit -l' or memlock in /etc/security/limits.conf");
  }
  return text;
}

}  // namespace loci
