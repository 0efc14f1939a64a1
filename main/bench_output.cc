#include "main/bench_output.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/device_list.h"
#include "kernels/error.h"

namespace loci::cli {
namespace {

// Invalid UTF-8 in a model's names is replaced, not thrown about.
constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double center = mean(values);
  double sum = 0;
  for (double value : values) sum += (value - center) * (value - center);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string model_type(const ModelInfo& model) { return model.architecture + " " + model.quantization; }

// "CPU avx512vnni" of "CPU avx512vnni, 2 threads": the threads have a column of their own.
std::string backend(const ModelInfo& model) { return model.backend.substr(0, model.backend.find(',')); }

std::string cpu_name() { return list_devices().front().name; }

// "0x0" when threads may run anywhere.
std::string cpu_mask(const std::vector<int>& cpus) {
  std::string digits(cpus.empty() ? 1 : static_cast<size_t>(cpus.back()) / 4 + 1, '0');
  for (const int cpu : cpus) {
    char& digit = digits[digits.size() - 1 - static_cast<size_t>(cpu) / 4];
    const int value = (digit <= '9' ? digit - '0' : digit - 'a' + 10) | 1 << cpu % 4;
    digit = "0123456789abcdef"[value];
  }
  return "0x" + digits;
}

// The row as ordered key and value; the keys are llama-bench's. Fields of devices that this build does not have
// hold what llama-bench prints for a CPU-only run.
nlohmann::ordered_json fields(const BenchRow& row) {
  nlohmann::ordered_json out;
  out["build_commit"] = "loci-" LOCI_VERSION;
  out["build_number"] = 0;
  out["cpu_info"] = cpu_name();
  out["gpu_info"] = "";
  out["backends"] = backend(row.model);
  out["model_filename"] = row.setup.model_path;
  out["model_type"] = model_type(row.model);
  out["model_size"] = row.model.file_bytes;
  out["model_n_params"] = row.model.n_params;
  out["n_batch"] = row.setup.n_batch;
  out["n_ubatch"] = row.setup.n_ubatch;
  out["n_threads"] = row.setup.n_threads;
  out["cpu_mask"] = cpu_mask(row.setup.placement.cpus);
  out["cpu_strict"] = row.setup.placement.strict;
  out["poll"] = row.setup.placement.poll;
  out["type_k"] = std::string(name(row.setup.k_format));
  out["type_v"] = std::string(name(row.setup.v_format));
  out["n_gpu_layers"] = 0;
  out["n_cpu_moe"] = 0;
  out["split_mode"] = "none";
  out["main_gpu"] = 0;
  out["no_kv_offload"] = true;
  out["flash_attn"] = true;
  out["devices"] = "none";
  out["tensor_split"] = "0.00";
  out["use_mmap"] = true;
  out["embeddings"] = false;
  out["no_op_offload"] = 1;
  out["n_prompt"] = row.test.n_prompt;
  out["n_gen"] = row.test.n_gen;
  out["n_depth"] = row.test.n_depth;
  out["test_time"] = row.test_time;
  out["avg_ns"] = static_cast<uint64_t>(row.avg_ns());
  out["stddev_ns"] = static_cast<uint64_t>(row.stddev_ns());
  out["avg_ts"] = row.avg_ts();
  out["stddev_ts"] = row.stddev_ts();
  out["bytes_per_token"] = row.bytes_per_token();
  out["kv_bytes_per_token"] = row.kv_bytes_per_token;
  out["read_gb_s"] = row.gb_per_s();
  out["gmac_s"] = row.gmacs_per_s();
  // Null where the ceiling was not measured, or the CPU has no such arithmetic.
  const auto known = [](double value) { return value > 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json(); };
  const cpu::Roofline roofline = row.roofline.value_or(cpu::Roofline{});
  out["read_share"] = known(row.read_share());
  out["mac_share"] = known(row.mac_share());
  out["peak_read_gb_s"] = known(roofline.read_bytes / 1e9);
  out["peak_int8_gmac_s"] = known(roofline.int8_macs / 1e9);
  out["peak_bf16_gmac_s"] = known(roofline.bf16_macs / 1e9);
  out["peak_f32_gmac_s"] = known(roofline.f32_macs / 1e9);
  return out;
}

nlohmann::ordered_json fields_with_samples(const BenchRow& row) {
  nlohmann::ordered_json out = fields(row);
  out["samples_ns"] = row.samples_ns;
  out["samples_ts"] = row.samples_ts();
  return out;
}

// A value of a JSON object as plain text.
std::string plain(const nlohmann::ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, kReplace);
}

std::string quoted(const std::string& text, char quote) {
  std::string out(1, quote);
  for (char c : text) {
    if (c == quote) out += quote;
    out += c;
  }
  return out + quote;
}

class JsonPrinter : public BenchPrinter {
 public:
  JsonPrinter(std::FILE* out, bool lines) : out_(out), lines_(lines) {}
  void begin() override {
    if (!lines_) std::fputs("[\n", out_);
  }
  void row(const BenchRow& row) override {
    const std::string text = fields_with_samples(row).dump(lines_ ? -1 : 2, ' ', false, kReplace);
    if (lines_) {
      std::fprintf(out_, "%s\n", text.c_str());
    } else {
      std::fprintf(out_, "%s%s", n_rows_++ > 0 ? ",\n" : "", text.c_str());
    }
    std::fflush(out_);
  }
  void end() override {
    if (!lines_) std::fputs("\n]\n", out_);
  }

 private:
  std::FILE* out_;
  bool lines_;
  int n_rows_ = 0;
};

class CsvPrinter : public BenchPrinter {
 public:
  explicit CsvPrinter(std::FILE* out) : out_(out) {}
  void row(const BenchRow& row) override {
    std::string names, values;
    const nlohmann::ordered_json all = fields(row);
    for (const auto& [key, value] : all.items()) {
      names += (names.empty() ? "" : ",") + key;
      values += (values.empty() ? "" : ",") + (value.is_null() ? std::string() : quoted(plain(value), '"'));
    }
    if (n_rows_++ == 0) std::fprintf(out_, "%s\n", names.c_str());
    std::fprintf(out_, "%s\n", values.c_str());
    std::fflush(out_);
  }

 private:
  std::FILE* out_;
  int n_rows_ = 0;
};

class SqlPrinter : public BenchPrinter {
 public:
  explicit SqlPrinter(std::FILE* out) : out_(out) {}
  void row(const BenchRow& row) override {
    std::string columns, names, values;
    const nlohmann::ordered_json all = fields(row);
    for (const auto& [key, value] : all.items()) {
      const bool is_real = value.is_number_float() || value.is_null();
      const char* type = is_real ? "REAL" : value.is_string() ? "TEXT" : "INTEGER";
      columns += (columns.empty() ? "  " : ",\n  ") + key + " " + type;
      names += (names.empty() ? "" : ", ") + key;
      const std::string text = value.is_boolean() ? (value.get<bool>() ? "1" : "0")
                               : value.is_null()  ? "NULL"
                                                  : plain(value);
      values += (values.empty() ? "" : ", ") + (value.is_string() ? quoted(text, '\'') : text);
    }
    if (n_rows_++ == 0) std::fprintf(out_, "CREATE TABLE IF NOT EXISTS llama_bench (\n%s\n);\n\n", columns.c_str());
    std::fprintf(out_, "INSERT INTO llama_bench (%s) VALUES (%s);\n", names.c_str(), values.c_str());
    std::fflush(out_);
  }

 private:
  std::FILE* out_;
  int n_rows_ = 0;
};

// The table: fixed columns, and those settings that differ from their defaults or among the setups.
class MarkdownPrinter : public BenchPrinter {
 public:
  MarkdownPrinter(const std::vector<BenchSetup>& setups, std::FILE* out) : out_(out) {
    std::set<int> batches{2048}, ubatches{512};
    std::set<KvFormat> k_formats{KvFormat::kF16}, v_formats{KvFormat::kF16};
    for (const BenchSetup& setup : setups) {
      batches.insert(setup.n_batch);
      ubatches.insert(setup.n_ubatch);
      k_formats.insert(setup.k_format);
      v_formats.insert(setup.v_format);
    }
    columns_ = {{"model", 34}, {"size", 10}, {"params", 10}, {"backend", 14}, {"threads", 7}};
    if (batches.size() > 1) columns_.push_back({"n_batch", 7});
    if (ubatches.size() > 1) columns_.push_back({"n_ubatch", 8});
    if (k_formats.size() > 1) columns_.push_back({"type_k", 6});
    if (v_formats.size() > 1) columns_.push_back({"type_v", 6});
    columns_.push_back({"test", 20});
    columns_.push_back({"t/s", 20});
    columns_.push_back({"MB/token", 8});
    columns_.push_back({"GB/s (of peak)", 15});
    columns_.push_back({"GMAC/s (of peak)", 16});
  }
  void begin() override {
    std::string head = "|", rule = "|";
    for (const Column& column : columns_) {
      const bool left = column.name == "model" || column.name == "backend";
      head += " " + padded(column.name, column.width, left) + " |";
      rule += " " + std::string(static_cast<size_t>(column.width) - 1, '-') + (left ? "- |" : ": |");
    }
    std::fprintf(out_, "%s\n%s\n", head.c_str(), rule.c_str());
  }
  void row(const BenchRow& row) override {
    std::string line = "|";
    for (const Column& column : columns_) {
      const bool left = column.name == "model" || column.name == "backend";
      line += " " + padded(value(row, column.name), column.width, left) + " |";
    }
    std::fprintf(out_, "%s\n", line.c_str());
    std::fflush(out_);
    if (!row.roofline) return;
    const std::string text = roofline_text(*row.roofline);
    if (std::find(rooflines_.begin(), rooflines_.end(), text) == rooflines_.end()) rooflines_.push_back(text);
  }
  void end() override {
    std::fprintf(out_, "\nbuild: loci %s\n", LOCI_VERSION);
    for (const std::string& text : rooflines_) std::fprintf(out_, "peak: %s\n", text.c_str());
  }

 private:
  struct Column {
    std::string name;
    int width;
  };

  static std::string padded(const std::string& text, int width, bool left) {
    size_t n_chars = 0;  // of UTF-8: all bytes but continuation bytes
    for (char c : text) n_chars += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    const size_t n_blanks = n_chars < static_cast<size_t>(width) ? static_cast<size_t>(width) - n_chars : 0;
    return left ? text + std::string(n_blanks, ' ') : std::string(n_blanks, ' ') + text;
  }
  static std::string value(const BenchRow& row, const std::string& column) {
    constexpr double kMiB = 1 << 20, kGiB = 1 << 30;
    const auto n_params = static_cast<double>(row.model.n_params);
    const auto n_bytes = static_cast<double>(row.model.file_bytes);
    if (column == "model") return model_type(row.model);
    if (column == "size")
      return n_bytes >= kGiB ? fixed(n_bytes / kGiB, 2) + " GiB" : fixed(n_bytes / kMiB, 2) + " MiB";
    if (column == "params") return n_params >= 1e9 ? fixed(n_params / 1e9, 2) + " B" : fixed(n_params / 1e6, 2) + " M";
    if (column == "backend") return backend(row.model);
    if (column == "threads") return std::to_string(row.setup.n_threads);
    if (column == "n_batch") return std::to_string(row.setup.n_batch);
    if (column == "n_ubatch") return std::to_string(row.setup.n_ubatch);
    if (column == "type_k") return std::string(name(row.setup.k_format));
    if (column == "type_v") return std::string(name(row.setup.v_format));
    if (column == "test") return row.test.name();
    if (column == "MB/token") return fixed(row.bytes_per_token() / 1e6, row.bytes_per_token() < 1e8 ? 2 : 1);
    const auto with_share = [&](double rate, double share) {
      return fixed(rate, 1) + (row.roofline ? " (" + fixed(100 * share, 0) + " %)" : "");
    };
    if (column == "GB/s (of peak)") return with_share(row.gb_per_s(), row.read_share());
    if (column == "GMAC/s (of peak)") return with_share(row.gmacs_per_s(), row.mac_share());
    return fixed(row.avg_ts(), 2) + " ± " + fixed(row.stddev_ts(), 2);
  }

  std::FILE* out_;
  std::vector<Column> columns_;
  std::vector<std::string> rooflines_;
};

}  // namespace

double BenchRow::avg_ns() const { return mean({samples_ns.begin(), samples_ns.end()}); }
double BenchRow::stddev_ns() const { return deviation({samples_ns.begin(), samples_ns.end()}); }
std::vector<double> BenchRow::samples_ts() const {
  std::vector<double> rates;
  for (uint64_t ns : samples_ns) {
    rates.push_back(1e9 * static_cast<double>(test.n_tokens()) / static_cast<double>(std::max<uint64_t>(ns, 1)));
  }
  return rates;
}
double BenchRow::avg_ts() const { return mean(samples_ts()); }
double BenchRow::stddev_ts() const { return deviation(samples_ts()); }
double BenchRow::bytes_per_token() const {
  return work.bytes / static_cast<double>(std::max<int64_t>(test.n_tokens(), 1));
}
// Bytes per nanosecond are gigabytes per second.
double BenchRow::gb_per_s() const { return work.bytes / std::max(avg_ns(), 1.0); }
double BenchRow::gmacs_per_s() const { return work.macs() / std::max(avg_ns(), 1.0); }
double BenchRow::read_share() const {
  return roofline ? 1e9 * work.read_seconds(*roofline) / std::max(avg_ns(), 1.0) : 0;
}
double BenchRow::mac_share() const {
  return roofline ? 1e9 * work.mac_seconds(*roofline) / std::max(avg_ns(), 1.0) : 0;
}

std::string roofline_text(const cpu::Roofline& roofline) {
  std::string text = roofline.isa + ", " + std::to_string(roofline.n_threads) +
                     (roofline.n_threads == 1 ? " thread" : " threads") + ": read " +
                     fixed(roofline.read_bytes / 1e9, 1) + " GB/s, int8 " + fixed(roofline.int8_macs / 1e9, 0);
  if (roofline.bf16_macs > 0) text += ", bf16 " + fixed(roofline.bf16_macs / 1e9, 0);
  return text + ", f32 " + fixed(roofline.f32_macs / 1e9, 0) + " GMAC/s";
}

std::unique_ptr<BenchPrinter> make_bench_printer(const std::string& format, const std::vector<BenchSetup>& setups,
                                                 std::FILE* out) {
  if (format == "md") return std::make_unique<MarkdownPrinter>(setups, out);
  if (format == "csv") return std::make_unique<CsvPrinter>(out);
  if (format == "json") return std::make_unique<JsonPrinter>(out, false);
  if (format == "jsonl") return std::make_unique<JsonPrinter>(out, true);
  if (format == "sql") return std::make_unique<SqlPrinter>(out);
  fail(ErrorKind::kInvalidInput, "unknown output format '", format, "'");
}

}  // namespace loci::cli
