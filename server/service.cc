#include "server/service.h"

#include <algorithm>
#include <random>
#include <utility>

#include "engine/model/arch.h"
#include "kernels/check.h"

namespace loci::server {

Service::Service(Engine& engine, ServiceSettings settings)
    : engine_(engine), settings_(std::move(settings)), thread_(engine) {
  LOCI_CHECK(!settings_.aliases.empty(), "a model without a name");
  std::random_device device;
  id_state_ = (static_cast<uint64_t>(device()) << 32) | device();
}

int64_t Service::embedding_size() const { return engine_.arch().dim; }

std::string Service::make_id(const std::string& prefix) {
  constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::mt19937_64 generator;
  {
    const std::lock_guard lock(id_mutex_);
    generator.seed(id_state_ += 0x9e3779b97f4a7c15);
  }
  std::string id = prefix;
  for (int i = 0; i < 32; ++i) id += kLetters[generator() % kLetters.size()];
  return id;
}

ResponseStamp Service::stamp(const std::string& id_prefix) {
  return {make_id(id_prefix), std::time(nullptr), model_name(), settings_.fingerprint};
}

void Service::note_finished(const RequestStats& stats, double total_ms) {
  const std::lock_guard lock(figures_mutex_);
  figures_.total_ms.add(total_ms);
  figures_.prompt_tokens.add(static_cast<double>(stats.n_prompt));
  figures_.generated_tokens.add(static_cast<double>(stats.n_predicted));
  figures_.prompt_ms += stats.prompt_ms;
  figures_.predicted_ms += stats.predicted_ms;
  figures_.most_tokens = std::max(figures_.most_tokens, stats.n_prompt + stats.n_predicted);
}

RequestFigures Service::figures() const {
  const std::lock_guard lock(figures_mutex_);
  return figures_;
}

}  // namespace loci::server
