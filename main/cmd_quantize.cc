// loci quantize IN OUT TYPE: writes a model's matrices in another type. What is done to each tensor is decided by
// quantize_plan; rows are converted here, by several threads, each row the same whoever converts it.
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "gguf/printable.h"
#include "gguf/writer.h"
#include "kernels/error.h"
#include "kernels/log.h"
#include "kernels/quant/quant.h"
#include "main/cli.h"
#include "main/commands.h"
#include "main/quantize_plan.h"

namespace loci::cli {
namespace {

struct Flags {
  std::string in, out, type;
  std::string token_embedding, output;
  int n_threads = 0;
  PlanOptions plan;
};

std::optional<DType> packable_type(const std::string& flag, const std::string& type_name) {
  if (type_name.empty()) return std::nullopt;
  const auto type = dtype_from_name(type_name);
  if (!type || !can_quantize(*type)) {
    fail(ErrorKind::kInvalidInput, flag,
         ": expected a tensor type that can be written (F16, Q8_0, Q6_K, Q4_K, ...), found '",
         gguf::printable(type_name), "'");
  }
  return type;
}

// The output must be no part of the input, by whatever name or link it is reached.
void check_output(const gguf::File& file, const std::string& out) {
  struct stat target {};
  if (::stat(out.c_str(), &target) != 0) return;
  for (const std::string& part : file.part_paths()) {
    struct stat source {};
    if (::stat(part.c_str(), &source) == 0 && source.st_dev == target.st_dev && source.st_ino == target.st_ino) {
      fail(ErrorKind::kInvalidInput, out, ": is the model to be quantized itself: expected another output file");
    }
  }
}

// Why rows of `values` cannot be written as `target`, or empty. f16 is what scales are stored as, too.
std::string value_fault(const float* values, int64_t n, DType target) {
  const bool needs_half = target != DType::kF32 && target != DType::kBF16 && target != DType::kMXFP4;
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(values[i])) return str("element ", i, " is ", values[i]);
    if (needs_half && std::abs(values[i]) > 65504.0f) {
      return str("element ", i, " is ", values[i], ", beyond the 65504 that ", name(target), " can hold");
    }
  }
  return "";
}

// Converts tensors row by row. The calling thread works too and reports progress in bytes of the source.
class Converter {
 public:
  Converter(const std::string& file, int n_threads, ProgressBar& bar, int64_t total_bytes)
      : file_(file), n_threads_(n_threads), bar_(bar), total_bytes_(total_bytes) {}

  void convert(const TensorView& tensor, DType target, std::span<std::byte> out) {
    if (tensor.type == target) {
      std::memcpy(out.data(), tensor.data, out.size());
      if (target == DType::kF32 || target == DType::kF16 || target == DType::kBF16) check_plain(tensor);
    } else {
      convert_rows(tensor, target, out);
    }
    done_bytes_ += tensor.n_bytes();
    bar_.update(static_cast<double>(done_bytes_), static_cast<double>(total_bytes_), tensor.name);
  }

 private:
  struct Fault {
    std::mutex mutex;
    int64_t row = INT64_MAX;  // the first faulty row, whichever thread finds it
    std::string what;
  };

  void check_plain(const TensorView& tensor) const {
    std::vector<float> values(static_cast<size_t>(tensor.row_length()));
    for (int64_t row = 0; row < tensor.n_rows(); ++row) {
      dequantize_row(tensor.type, tensor.row(row), values.data(), tensor.row_length());
      if (const std::string what = value_fault(values.data(), tensor.row_length(), DType::kF32); !what.empty()) {
        fail_row(tensor, row, what);
      }
    }
  }

  void convert_rows(const TensorView& tensor, DType target, std::span<std::byte> out) {
    const int64_t n_rows = tensor.n_rows();
    const int64_t row_out = row_bytes(target, tensor.row_length());
    // Chunks of some 64 KiB values: enough to share out, seldom enough to ask for.
    const int64_t chunk = std::max<int64_t>(1, 65536 / tensor.row_length());
    std::atomic<int64_t> next{0};
    Fault fault;
    const auto work = [&](bool reports) {
      std::vector<float> values(static_cast<size_t>(tensor.row_length()));
      for (;;) {
        const int64_t first = next.fetch_add(chunk);
        if (first >= n_rows) return;
        for (int64_t row = first; row < std::min(first + chunk, n_rows); ++row) {
          dequantize_row(tensor.type, tensor.row(row), values.data(), tensor.row_length());
          std::string what = value_fault(values.data(), tensor.row_length(), target);
          if (!what.empty()) {
            const std::lock_guard lock(fault.mutex);
            if (row < fault.row) fault.row = row, fault.what = std::move(what);
            next = n_rows;  // chunks taken before are finished, so the first fault is found
            break;
          }
          quantize_row(target, values.data(), out.data() + row * row_out, tensor.row_length());
        }
        if (reports) {
          const double share = static_cast<double>(std::min(first + chunk, n_rows)) / static_cast<double>(n_rows);
          bar_.update(static_cast<double>(done_bytes_) + share * static_cast<double>(tensor.n_bytes()),
                      static_cast<double>(total_bytes_), tensor.name);
        }
      }
    };
    {
      std::vector<std::jthread> threads;
      const int64_t n_chunks = (n_rows + chunk - 1) / chunk;
      for (int i = 1; i < std::min<int64_t>(n_threads_, n_chunks); ++i) threads.emplace_back(work, false);
      work(true);
    }
    if (!fault.what.empty()) fail_row(tensor, fault.row, fault.what);
  }

  [[noreturn]] void fail_row(const TensorView& tensor, int64_t row, const std::string& what) const {
    fail(ErrorKind::kInvalidInput, gguf::printable(file_, 4096), ": tensor ", gguf::printable(tensor.name),
         ": expected finite weights, but in row ", row, " ", what);
  }

  const std::string& file_;
  int n_threads_;
  ProgressBar& bar_;
  int64_t total_bytes_;
  int64_t done_bytes_ = 0;
};

void copy_metadata(const gguf::File& file, const QuantMix& mix, gguf::Writer& writer) {
  const gguf::Metadata& metadata = file.metadata();
  for (const std::string& key : metadata.keys()) {
    if (key.starts_with("split.")) continue;  // the output is one file
    writer.set(key, *metadata.find(key));
  }
  writer.set_u32("general.quantization_version", 2);
  writer.set_u32("general.file_type", static_cast<uint32_t>(file_type(mix)));
}

std::vector<int64_t> trimmed_shape(const TensorView& tensor) {
  std::vector<int64_t> ne(tensor.ne.begin(), tensor.ne.end());
  while (ne.size() > 1 && ne.back() == 1) ne.pop_back();
  return ne;
}

// Fallbacks told once per kind: small models have one for nearly every tensor.
void tell_fallbacks(const gguf::File& file, const std::vector<PlannedTensor>& plan) {
  std::map<std::string, std::pair<size_t, std::string>> notes;  // note -> how many tensors, the first one's name
  for (size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].note.empty()) continue;
    auto& [count, first] = notes[plan[i].note];
    if (count++ == 0) first = file.tensors()[i].name;
  }
  for (const auto& [note, tensors] : notes) {
    const auto& [count, first] = tensors;
    log_warn(gguf::printable(first), count > 1 ? str(" and ", count - 1, " more tensors") : std::string(), ": ", note);
  }
}

void tell_summary(const gguf::File& file, const std::vector<PlannedTensor>& plan, const std::string& out,
                  double seconds) {
  std::map<DType, std::pair<int64_t, int64_t>> types;  // tensors, bytes
  int64_t bytes_before = 0, bytes_after = 0, n_elements = 0;
  for (size_t i = 0; i < plan.size(); ++i) {
    const TensorView& tensor = file.tensors()[i];
    const int64_t bytes = row_bytes(plan[i].target, tensor.row_length()) * tensor.n_rows();
    ++types[plan[i].target].first;
    types[plan[i].target].second += bytes;
    bytes_before += tensor.n_bytes();
    bytes_after += bytes;
    n_elements += tensor.n_elements();
  }
  for (const auto& [type, sum] : types) {
    char line[96];
    std::snprintf(line, sizeof line, "  %-8s %5lld tensors  %s", std::string(name(type)).c_str(),
                  static_cast<long long>(sum.first), bytes_text(static_cast<double>(sum.second)).c_str());
    log_info(line);
  }
  char rate[96];
  std::snprintf(rate, sizeof rate, "%.2f to %.2f bits per weight, %.1f s",
                8.0 * static_cast<double>(bytes_before) / static_cast<double>(n_elements),
                8.0 * static_cast<double>(bytes_after) / static_cast<double>(n_elements), seconds);
  log_info("weights: ", bytes_text(static_cast<double>(bytes_before)), " to ",
           bytes_text(static_cast<double>(bytes_after)), ", ", rate);
  log_info("written: ", gguf::printable(out, 4096));
}

int default_threads() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

}  // namespace

int cmd_quantize(const std::vector<std::string>& args) {
  const auto app = make_app("quantize", "Converts the weights of a GGUF model to a smaller type.");
  Flags flags;
  app->add_option("input", flags.in, "model to read (first part of a split one), or an alias")
      ->required()
      ->type_name("IN");
  app->add_option("output", flags.out, "file to write")->required()->type_name("OUT");
  app->add_option("type", flags.type, "target type: " + mix_names())->required()->type_name("TYPE");
  app->add_option("-t,--threads", flags.n_threads, "threads; 0: one per processor")
      ->check(CLI::Range(0, 4096))
      ->type_name("N");
  app->add_flag("--pure", flags.plan.pure, "every matrix the same type, without the mix's exceptions");
  app->add_flag("--allow-requantize", flags.plan.allow_requantize,
                "accept sources that are quantized already (quality suffers)");
  app->add_option("--token-embedding-type", flags.token_embedding, "type of token_embd.weight")->type_name("T");
  app->add_option("--output-tensor-type", flags.output, "type of the output head")->type_name("T");
  if (!parse(*app, args)) return 0;

  const QuantMix* mix = find_mix(flags.type);
  if (mix == nullptr) {
    fail(ErrorKind::kInvalidInput, "unknown type '", gguf::printable(flags.type), "': expected one of ", mix_names());
  }
  flags.plan.token_embedding = packable_type("--token-embedding-type", flags.token_embedding);
  flags.plan.output = packable_type("--output-tensor-type", flags.output);
  if (flags.out.empty()) fail(ErrorKind::kInvalidInput, "output path: is empty");
  if (flags.in.empty()) fail(ErrorKind::kInvalidInput, "model path: is empty");

  const auto start = std::chrono::steady_clock::now();
  const gguf::File file = gguf::File::open(resolve_model(flags.in));
  check_output(file, flags.out);
  if (file.tensors().empty()) fail(ErrorKind::kInvalidInput, file.path(), ": holds no tensors");
  const std::vector<PlannedTensor> plan = plan_quantization(file, *mix, flags.plan);
  tell_fallbacks(file, plan);

  int64_t total_bytes = 0;
  for (const TensorView& tensor : file.tensors()) total_bytes += tensor.n_bytes();
  {
    ProgressBar bar("quantizing");
    Converter converter(file.path(), flags.n_threads > 0 ? flags.n_threads : default_threads(), bar, total_bytes);
    gguf::Writer writer;
    copy_metadata(file, *mix, writer);
    for (size_t i = 0; i < plan.size(); ++i) {
      const TensorView& tensor = file.tensors()[i];
      const DType target = plan[i].target;
      writer.add_tensor(tensor.name, target, trimmed_shape(tensor), [&, target](std::span<std::byte> out) {
        converter.convert(tensor, target, out);
        file.release(tensor);
      });
    }
    writer.write(flags.out);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  tell_summary(file, plan, flags.out, seconds);
  return 0;
}

}  // namespace loci::cli
