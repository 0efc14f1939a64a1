#include "main/bench_serving.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <istream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "kernels/error.h"
#include "main/bench_request.h"

namespace loci::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

class ServedSink : public TokenSink {
 public:
  ServedSink(const Clock::time_point& start, ServedResult& result) : start_(start), result_(result) {}
  void on_token(int32_t token, std::string_view, std::span<const TokenProb>) override {
    result_.tokens.push_back(token);
    result_.token_ms.push_back(now_ms());
  }
  void on_finish(std::string_view, const RequestStats& stats) override {
    result_.stats = stats;
    result_.finished_ms = now_ms();
    finished_ = true;
  }
  double now_ms() const { return std::chrono::duration<double, std::milli>(Clock::now() - start_).count(); }
  bool finished() const { return finished_; }
  void refuse() {
    result_.refused = finished_ = true;
    result_.finished_ms = now_ms();
  }

 private:
  const Clock::time_point& start_;
  ServedResult& result_;
  bool finished_ = false;
};

ServedRequest parse_request(const Json& line) {
  ServedRequest request;
  request.id = line.at("id").get<std::string>();
  request.prompt = line.at("prompt").get<std::vector<int32_t>>();
  request.max_tokens = line.at("max_tokens").get<int64_t>();
  request.at_ms = line.value("at_ms", 0.0);
  request.after = line.value("after", "");
  return request;
}

}  // namespace

std::vector<ServedRequest> read_workload(std::istream& in, const std::string& source) {
  std::vector<ServedRequest> requests;
  std::map<std::string, bool> known;
  std::string text;
  for (int64_t number = 1; std::getline(in, text); ++number) {
    if (text.empty()) continue;
    const auto refuse = [&](const std::string& what) {
      fail(ErrorKind::kInvalidInput, source, ": line ", number, ": ", what);
    };
    try {
      requests.push_back(parse_request(Json::parse(text)));
    } catch (const Json::exception& error) {
      refuse(error.what());
    }
    const ServedRequest& request = requests.back();
    if (request.max_tokens < 1) refuse(str("max_tokens: expected at least 1, found ", request.max_tokens));
    if (!std::isfinite(request.at_ms) || request.at_ms < 0) refuse("at_ms: expected a time from 0");
    if (!request.after.empty() && !known.contains(request.after)) {
      refuse("after: expected the id of an earlier line, found '" + request.after + "'");
    }
    if (!known.emplace(request.id, true).second) refuse("id: '" + request.id + "' is used twice");
  }
  if (requests.empty()) fail(ErrorKind::kInvalidInput, source, ": holds no requests");
  return requests;
}

std::vector<ServedResult> serve_workload(Engine& engine, const std::vector<ServedRequest>& requests,
                                         const Speculation& speculation) {
  std::vector<ServedResult> results(requests.size());
  std::map<std::string, size_t> index_of;
  const Clock::time_point start = Clock::now();
  std::deque<ServedSink> sinks;
  for (size_t i = 0; i < requests.size(); ++i) {
    results[i].id = requests[i].id;
    index_of[requests[i].id] = i;
    sinks.emplace_back(start, results[i]);
  }
  // When a request arrives, once that is known.
  const auto arrival_ms = [&](size_t i) -> std::optional<double> {
    if (requests[i].after.empty()) return requests[i].at_ms;
    const size_t before = index_of.at(requests[i].after);
    if (!sinks[before].finished()) return std::nullopt;
    return results[before].finished_ms + requests[i].at_ms;
  };
  std::vector<size_t> waiting(requests.size());
  for (size_t i = 0; i < waiting.size(); ++i) waiting[i] = i;
  bool busy = true;
  while (busy || !waiting.empty()) {
    const double now_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    double next_ms = now_ms + 1e9;
    std::vector<size_t> later;
    for (const size_t i : waiting) {
      const std::optional<double> arrival = arrival_ms(i);
      if (arrival && *arrival <= now_ms) {
        results[i].submitted_ms = *arrival;
        Request request = bench_request(requests[i].prompt, requests[i].max_tokens, sinks[i]);
        request.speculation = speculation;
        try {
          engine.submit(std::move(request));
        } catch (const QueueFull&) {
          sinks[i].refuse();
        }
        busy = true;
      } else {
        if (arrival) next_ms = std::min(next_ms, *arrival);
        later.push_back(i);
      }
    }
    waiting = std::move(later);
    if (busy) {
      busy = engine.step();
    } else if (!waiting.empty()) {
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(next_ms - now_ms));
    }
  }
  for (const ServedResult& result : results) {
    if (result.refused || result.stats.reason == FinishReason::kLimit) continue;
    const std::string& error = result.stats.error;
    fail(ErrorKind::kInternal, "request ", result.id, ": ", error.empty() ? "the context is full" : error);
  }
  return results;
}

std::string results_text(const std::vector<ServedResult>& results, const Metrics& metrics) {
  std::string text;
  int64_t n_prompt = 0, n_cached = 0, n_predicted = 0;
  double end_ms = 0;
  for (const ServedResult& result : results) {
    Json line;
    line["id"] = result.id;
    if (result.refused) line["refused"] = true;
    line["n_prompt"] = result.stats.n_prompt;
    line["n_cached"] = result.stats.n_cached;
    line["n_predicted"] = result.stats.n_predicted;
    line["submitted_ms"] = result.submitted_ms;
    line["finished_ms"] = result.finished_ms;
    line["token_ms"] = result.token_ms;
    line["tokens"] = result.tokens;
    text += line.dump() + "\n";
    n_prompt += result.stats.n_prompt;
    n_cached += result.stats.n_cached;
    n_predicted += result.stats.n_predicted;
    end_ms = std::max(end_ms, result.finished_ms);
  }
  Json summary;
  summary["n_requests"] = results.size();
  summary["n_refused"] = metrics.n_refused;
  summary["total_ms"] = end_ms;
  summary["n_prompt"] = n_prompt;
  summary["n_cached"] = n_cached;
  summary["n_predicted"] = n_predicted;
  summary["n_recomputed"] = metrics.n_recomputed_tokens;
  summary["n_preempted"] = metrics.n_preempted_recompute + metrics.n_preempted_swap;
  summary["n_preempted_recompute"] = metrics.n_preempted_recompute;
  summary["n_preempted_swap"] = metrics.n_preempted_swap;
  summary["n_evicted_pages"] = metrics.n_evicted_pages;
  summary["n_steps"] = metrics.n_steps;
  summary["kv_waste"] = metrics.kv_waste();
  summary["kv_waste_at_peak"] = metrics.kv_waste_at_peak();
  summary["kv_bytes_read"] = metrics.kv_bytes_read;
  summary["kv_bytes_per_token"] = metrics.kv_bytes_per_token();
  int64_t n_drafted = 0, n_accepted = 0;
  for (const ServedResult& result : results) {
    n_drafted += result.stats.speculation.n_drafted;
    n_accepted += result.stats.speculation.n_accepted;
  }
  summary["n_drafted"] = n_drafted;
  summary["n_accepted"] = n_accepted;
  return text + Json{{"summary", summary}}.dump() + "\n";
}

}  // namespace loci::cli
