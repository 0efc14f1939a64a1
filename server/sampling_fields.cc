#include "server/sampling_fields.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <variant>

namespace loci::server {
namespace {

using P = SamplingParams;
using Member = std::variant<float P::*, int32_t P::*, int64_t P::*, bool P::*>;

struct Field {
  const char* name;
  Member member;
};

constexpr Field kFields[] = {
    {"temperature", &P::temperature},
    {"dynatemp_range", &P::dynatemp_range},
    {"dynatemp_exponent", &P::dynatemp_exponent},
    {"top_k", &P::top_k},
    {"top_p", &P::top_p},
    {"min_p", &P::min_p},
    {"typical_p", &P::typical_p},
    {"top_n_sigma", &P::top_n_sigma},
    {"xtc_probability", &P::xtc_probability},
    {"xtc_threshold", &P::xtc_threshold},
    {"repeat_last_n", &P::repeat_last_n},
    {"repeat_penalty", &P::repeat_penalty},
    {"presence_penalty", &P::presence_penalty},
    {"frequency_penalty", &P::frequency_penalty},
    {"dry_multiplier", &P::dry_multiplier},
    {"dry_base", &P::dry_base},
    {"dry_allowed_length", &P::dry_allowed_length},
    {"dry_penalty_last_n", &P::dry_penalty_last_n},
    {"mirostat", &P::mirostat},
    {"mirostat_tau", &P::mirostat_tau},
    {"mirostat_eta", &P::mirostat_eta},
    {"adaptive_target", &P::adaptive_target},
    {"adaptive_decay", &P::adaptive_decay},
    {"min_keep", &P::min_keep},
    {"seed", &P::seed},
    {"ignore_eos", &P::ignore_eos},
};

// check() of the whole, its complaint put on the field that brought it in.
void check_field(const char* name, const SamplingParams& params, int32_t vocab_size) {
  const std::string wrong = check(params, vocab_size);
  if (wrong.empty()) return;
  const size_t colon = wrong.find(": ");
  reject_field(name, colon == std::string::npos ? wrong : wrong.substr(colon + 2));
}

void read_field(const BodyFields& body, const Field& field, SamplingParams& params) {
  std::visit(
      [&](auto member) {
        using T = std::decay_t<decltype(params.*member)>;
        if constexpr (std::is_same_v<T, bool>) {
          if (const auto value = body.boolean(field.name)) params.*member = *value;
        } else if constexpr (std::is_same_v<T, float>) {
          if (const auto value = body.number(field.name)) params.*member = static_cast<float>(*value);
        } else {
          const auto value = body.integer(field.name, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
          if (value) params.*member = static_cast<T>(*value);
        }
      },
      field.member);
}

// A number, or false for "never".
float read_bias(const Json& value) {
  if (value.is_boolean() && !value.get<bool>()) return -std::numeric_limits<float>::infinity();
  if (value.is_number()) return static_cast<float>(value.get<double>());
  reject_field("logit_bias", "expected a number or false as bias, found ", excerpt(value));
}

int32_t checked_id(int64_t id, int32_t vocab_size) {
  if (id < 0 || id >= vocab_size) {
    reject_field("logit_bias", "expected a token id from 0 to ", vocab_size - 1, ", found ", id);
  }
  return static_cast<int32_t>(id);
}

// {"15043": 1, " Hello": false} or [[15043, 1], [" Hello", false]]. A text stands for each of its tokens, unless it is
// the key of an object and spells a number.
void read_logit_bias(const Json& json, const Tokenizer& tokenizer, SamplingParams& params) {
  const int32_t vocab_size = tokenizer.vocab_size();
  params.logit_bias.clear();
  const auto add_text = [&](const std::string& text, float bias) {
    for (const int32_t id : tokenizer.encode(text, false, true)) params.logit_bias.emplace_back(id, bias);
  };
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      int64_t id = -1;
      const auto end = std::from_chars(key.data(), key.data() + key.size(), id);
      if (end.ec == std::errc() && end.ptr == key.data() + key.size()) {
        params.logit_bias.emplace_back(checked_id(id, vocab_size), read_bias(value));
      } else {
        add_text(key, read_bias(value));
      }
    }
    return;
  }
  if (!json.is_array()) reject_field("logit_bias", "expected an object or a list, found ", excerpt(json));
  for (const Json& pair : json) {
    if (!pair.is_array() || pair.size() != 2) {
      reject_field("logit_bias", "expected pairs of token and bias, found ", excerpt(pair));
    }
    if (pair[0].is_string()) {
      add_text(pair[0].get<std::string>(), read_bias(pair[1]));
    } else if (pair[0].is_number_integer()) {
      const bool fits = !pair[0].is_number_unsigned() || pair[0].get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
      params.logit_bias.emplace_back(checked_id(fits ? pair[0].get<int64_t>() : -1, vocab_size), read_bias(pair[1]));
    } else {
      reject_field("logit_bias", "expected a token id or a text, found ", excerpt(pair[0]));
    }
  }
}

std::vector<std::string> read_strings(const char* name, const Json& list) {
  std::vector<std::string> out;
  for (const Json& item : list) {
    if (!item.is_string()) reject_field(name, "expected strings, found ", excerpt(item));
    out.push_back(item.get<std::string>());
  }
  return out;
}

// "edskypmxt", or names in a list.
std::vector<std::string> read_samplers(const Json& json) {
  if (json.is_array()) return read_strings("samplers", json);
  if (!json.is_string()) reject_field("samplers", "expected a list of names or a string, found ", excerpt(json));
  try {
    return samplers_from_letters(json.get<std::string>());
  } catch (const Error& error) {
    const std::string what = error.what();
    reject_field("samplers", what.substr(std::min(what.size(), what.find(": ") + 2)));
  }
}

}  // namespace

SamplingParams read_sampling(const BodyFields& body, const SamplingParams& defaults, const Tokenizer& tokenizer) {
  SamplingParams params = defaults;
  const int32_t vocab_size = tokenizer.vocab_size();
  for (const Field& field : kFields) {
    if (body.find(field.name) == nullptr) continue;
    read_field(body, field, params);
    // Customary ways to say "off".
    if (params.top_k < 0) params.top_k = 0;
    if (params.temperature < 0) params.temperature = 0;
    check_field(field.name, params, vocab_size);
  }
  if (const Json* bias = body.find("logit_bias")) {
    read_logit_bias(*bias, tokenizer, params);
    check_field("logit_bias", params, vocab_size);
  }
  if (const Json* samplers = body.find("samplers")) {
    params.samplers = read_samplers(*samplers);
    check_field("samplers", params, vocab_size);
  }
  if (const Json* breakers = body.list("dry_sequence_breakers")) {
    params.dry_sequence_breakers = read_strings("dry_sequence_breakers", *breakers);
  }
  return params;
}

Json sampling_json(const SamplingParams& params) {
  Json out;
  for (const Field& field : kFields) {
    std::visit(
        [&](auto member) {
          using T = std::decay_t<decltype(params.*member)>;
          if constexpr (std::is_same_v<T, float>) {
            out[field.name] = static_cast<double>(params.*member);
          } else {
            out[field.name] = params.*member;
          }
        },
        field.member);
  }
  out["logit_bias"] = Json::array();
  for (const auto& [token, bias] : params.logit_bias) {
    out["logit_bias"].push_back({token, std::isfinite(bias) ? Json(bias) : Json(false)});
  }
  out["dry_sequence_breakers"] = params.dry_sequence_breakers;
  out["samplers"] = params.samplers;
  return out;
}

}  // namespace loci::server
