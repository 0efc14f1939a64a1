// GET /metrics: figures in Prometheus' text format. Names are llama-server's, then vLLM's, behind --metrics-prefix.
#include <algorithm>
#include <cmath>
#include <sstream>

#include "server/endpoints/endpoints.h"

namespace loci::server {
namespace {

class MetricsText {
 public:
  explicit MetricsText(std::string prefix) : prefix_(std::move(prefix)) {}

  void counter(const std::string& name, double value, const std::string& help) { single(name, "counter", value, help); }
  void gauge(const std::string& name, double value, const std::string& help) { single(name, "gauge", value, help); }
  void begin(const std::string& name, const char* type, const std::string& help) {
    out_ << "# HELP " << prefix_ << name << ' ' << help << "\n# TYPE " << prefix_ << name << ' ' << type << '\n';
  }
  void sample(const std::string& name, const std::string& labels, double value) {
    out_ << prefix_ << name;
    if (!labels.empty()) out_ << '{' << labels << '}';
    out_ << ' ' << number(value) << '\n';
  }
  // `scale`: of a value to the unit in the name.
  void histogram(const std::string& name, const Histogram& values, double scale, const std::string& help) {
    constexpr int kBucketsPerLine = 4;  // a power of two
    begin(name, "histogram", help);
    int64_t n = 0;
    for (int i = 0; i < Histogram::kBuckets; ++i) {
      n += values.counts[static_cast<size_t>(i)];
      if ((i + 1) % kBucketsPerLine != 0 || i + 1 == Histogram::kBuckets) continue;
      sample(name + "_bucket", "le=\"" + number(Histogram::upper_bound(i) * scale) + "\"", static_cast<double>(n));
    }
    sample(name + "_bucket", "le=\"+Inf\"", static_cast<double>(values.n));
    sample(name + "_sum", "", values.sum * scale);
    sample(name + "_count", "", static_cast<double>(values.n));
  }
  std::string text() const { return out_.str(); }

 private:
  static std::string number(double value) {
    std::ostringstream out;
    if (value == std::floor(value) && std::abs(value) < 1e15) {
      out << static_cast<int64_t>(value);
    } else {
      out.precision(9);
      out << value;
    }
    return out.str();
  }
  void single(const std::string& name, const char* type, double value, const std::string& help) {
    begin(name, type, help);
    sample(name, "", value);
  }

  std::string prefix_;
  std::ostringstream out_;
};

std::string label(std::string_view text) {
  std::string out(text);
  std::replace(out.begin(), out.end(), ' ', '_');
  return out;
}

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

void write_tokens(MetricsText& text, const Metrics& m, const RequestFigures& figures) {
  const auto computed = static_cast<double>(m.n_prompt_tokens - m.n_cached_tokens);
  const auto generated = static_cast<double>(m.n_generated_tokens);
  text.counter("prompt_tokens_total", computed, "Prompt tokens that were computed.");
  text.counter("prompt_tokens_cached_total", static_cast<double>(m.n_cached_tokens),
               "Prompt tokens that were found in the cache.");
  text.counter("prompt_seconds_total", figures.prompt_ms / 1000, "Time that prompts took, over finished requests.");
  text.counter("tokens_predicted_total", generated, "Tokens that were generated.");
  text.counter("tokens_predicted_seconds_total", figures.predicted_ms / 1000,
               "Time that answers took, over finished requests.");
  text.counter("n_decode_total", static_cast<double>(m.n_steps), "Forward passes.");
  text.counter("n_tokens_max", static_cast<double>(figures.most_tokens), "Most tokens of one finished sequence.");
  text.gauge("prompt_tokens_seconds", ratio(1000 * figures.prompt_tokens.sum, figures.prompt_ms),
             "Prompt tokens per second, cached ones included, over finished requests.");
  text.gauge("predicted_tokens_seconds", ratio(1000 * figures.generated_tokens.sum, figures.predicted_ms),
             "Generated tokens per second, over finished requests.");
}

void write_requests(MetricsText& text, const Metrics& m, const StatusCounts& statuses) {
  text.gauge("requests_processing", static_cast<double>(m.n_running), "Sequences that run now.");
  text.gauge("requests_deferred", static_cast<double>(m.n_waiting), "Sequences that wait now.");
  text.gauge("num_requests_running", static_cast<double>(m.n_running), "Sequences that run now.");
  text.gauge("num_requests_waiting", static_cast<double>(m.n_waiting), "Sequences that wait now.");
  text.gauge("n_busy_slots_per_decode", ratio(static_cast<double>(m.n_decode_rows), static_cast<double>(m.n_steps)),
             "Sequences that a forward pass brings a token, on average.");
  text.begin("requests_total", "counter", "Answers by status code.");
  for (int code = 0; code < statuses.size(); ++code) {
    if (statuses.of(code) > 0) {
      text.sample("requests_total", "code=\"" + std::to_string(code) + "\"", static_cast<double>(statuses.of(code)));
    }
  }
  text.begin("request_success_total", "counter", "Finished sequences by the reason of their end.");
  for (int reason = 0; reason < Metrics::kFinishReasons; ++reason) {
    text.sample("request_success_total", "finished_reason=\"" + label(name(static_cast<FinishReason>(reason))) + "\"",
                static_cast<double>(m.n_finished[static_cast<size_t>(reason)]));
  }
}

void write_cache(MetricsText& text, const Metrics& m, const ModelInfo& info) {
  text.gauge("kv_blocks_used", static_cast<double>(m.pages_used), "K/V pages that live sequences hold.");
  text.gauge("kv_blocks_cached", static_cast<double>(m.pages_cached), "K/V pages kept for reuse.");
  text.gauge("kv_blocks_total", static_cast<double>(m.pages_total), "K/V pages in all.");
  text.gauge("kv_bytes", static_cast<double>(info.kv_bytes), "Bytes of all K/V pages.");
  text.gauge("kv_cache_usage_perc", ratio(static_cast<double>(m.pages_used), static_cast<double>(m.pages_total)),
             "Share of the K/V pages that live sequences hold, 0 to 1.");
  text.gauge("prefix_cache_hit_ratio",
             ratio(static_cast<double>(m.n_cached_tokens), static_cast<double>(m.n_prompt_tokens)),
             "Share of the prompt tokens that were found in the cache, 0 to 1.");
  text.counter("prefix_cache_queries_total", static_cast<double>(m.n_prompt_tokens), "Prompt tokens looked up.");
  text.counter("prefix_cache_hits_total", static_cast<double>(m.n_cached_tokens), "Prompt tokens found.");
  text.counter("evictions_total", static_cast<double>(m.n_evicted_pages), "K/V pages given up for others.");
  text.counter("num_preemptions_total", static_cast<double>(m.n_preempted_recompute + m.n_preempted_swap),
               "Sequences that made way for others.");
}

void write_speculation(MetricsText& text, const Metrics& m) {
  int64_t drafted = 0, accepted = 0;
  for (const int64_t n : m.n_drafted) drafted += n;
  for (const int64_t n : m.n_accepted) accepted += n;
  text.counter("spec_decode_num_draft_tokens_total", static_cast<double>(drafted), "Tokens drafted.");
  text.counter("spec_decode_num_accepted_tokens_total", static_cast<double>(accepted), "Drafted tokens accepted.");
  text.counter("spec_decode_num_drafts_total", static_cast<double>(m.n_drafted[0]), "Drafts.");
  text.begin("spec_decode_num_accepted_tokens_per_pos_total", "counter", "Drafted tokens accepted, by position.");
  for (size_t i = 0; i < m.n_accepted.size(); ++i) {
    text.sample("spec_decode_num_accepted_tokens_per_pos_total", "position=\"" + std::to_string(i) + "\"",
                static_cast<double>(m.n_accepted[i]));
  }
}

}  // namespace

void serve_metrics(Service& service, Exchange& exchange) {
  if (!service.settings().metrics) {
    fail(ErrorKind::kUnsupported, "This server does not support metrics endpoint. Start it with `--metrics`");
  }
  const Metrics m = service.engine_metrics();
  const RequestFigures figures = service.figures();
  MetricsText text(service.settings().metrics_prefix);
  write_tokens(text, m, figures);
  write_requests(text, m, service.statuses());
  write_cache(text, m, service.info());
  write_speculation(text, m);
  text.histogram("time_to_first_token_seconds", m.first_token_ms, 0.001, "From the request to its first token.");
  text.histogram("inter_token_latency_seconds", m.between_tokens_ms, 0.001, "Between two tokens of an answer.");
  text.histogram("request_queue_time_seconds", m.queue_ms, 0.001, "From the request to its first forward pass.");
  text.histogram("e2e_request_latency_seconds", figures.total_ms, 0.001, "From the request to its last token.");
  text.histogram("request_prompt_tokens", figures.prompt_tokens, 1, "Prompt tokens of a request.");
  text.histogram("request_generation_tokens", figures.generated_tokens, 1, "Generated tokens of a request.");
  exchange.set_header("Process-Start-Time-Unix", std::to_string(service.started()));
  exchange.send(200, "text/plain; version=0.0.4", text.text());
}

}  // namespace loci::server
