// The sampling flags: one table of numeric fields serves the flags, /set, /show, /save and the model file's
// recommended values.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <variant>

#include "kernels/error.h"
#include "kernels/log.h"
#include "main/cli.h"
#include "main/options.h"

namespace loci::cli {
namespace {

using Member =
    std::variant<float SamplingParams::*, int32_t SamplingParams::*, int64_t SamplingParams::*, bool SamplingParams::*>;

struct Field {
  const char* name;   // first flag without dashes; the name in /set, /show and saved conversations
  const char* flags;  // as CLI11 wants them
  const char* key;    // general.sampling.<key> of a model file, or nullptr
  Member member;
  const char* help;
};

using P = SamplingParams;
const Field kFields[] = {
    {"temp", "--temp,--temperature", "temp", &P::temperature, "temperature; 0: always the most probable token"},
    {"dynatemp-range", "--dynatemp-range", nullptr, &P::dynatemp_range, "temperature follows entropy by so much"},
    {"dynatemp-exp", "--dynatemp-exp", nullptr, &P::dynatemp_exponent, "and with this exponent"},
    {"top-k", "--top-k", "top_k", &P::top_k, "keep the k most probable tokens; 0: all"},
    {"top-p", "--top-p", "top_p", &P::top_p, "keep the smallest set of this probability; 1: all"},
    {"min-p", "--min-p", "min_p", &P::min_p, "keep tokens of at least this share of the best; 0: all"},
    {"typical", "--typical,--typical-p", nullptr, &P::typical_p, "locally typical set of this probability; 1: all"},
    {"top-nsigma", "--top-nsigma,--top-n-sigma", nullptr, &P::top_n_sigma, "keep logits within n deviations; -1: all"},
    {"xtc-probability", "--xtc-probability", "xtc_probability", &P::xtc_probability,
     "how often top choices are excluded"},
    {"xtc-threshold", "--xtc-threshold", "xtc_threshold", &P::xtc_threshold, "what counts as a top choice"},
    {"repeat-last-n", "--repeat-last-n", "penalty_last_n", &P::repeat_last_n, "tokens looked back at; -1: the context"},
    {"repeat-penalty", "--repeat-penalty", "penalty_repeat", &P::repeat_penalty, "penalty of tokens seen; 1: none"},
    {"presence-penalty", "--presence-penalty", nullptr, &P::presence_penalty, "subtracted once from tokens seen"},
    {"frequency-penalty", "--frequency-penalty", nullptr, &P::frequency_penalty, "subtracted for each time seen"},
    {"dry-multiplier", "--dry-multiplier", nullptr, &P::dry_multiplier, "penalty of repeated passages; 0: none"},
    {"dry-base", "--dry-base", nullptr, &P::dry_base, "how it grows with their length"},
    {"dry-allowed-length", "--dry-allowed-length", nullptr, &P::dry_allowed_length, "length without penalty"},
    {"dry-penalty-last-n", "--dry-penalty-last-n", nullptr, &P::dry_penalty_last_n, "tokens looked back at"},
    {"mirostat", "--mirostat", "mirostat", &P::mirostat, "0 off, 1 or 2: in place of the truncation samplers"},
    {"mirostat-lr", "--mirostat-lr", "mirostat_eta", &P::mirostat_eta, "its learning rate"},
    {"mirostat-ent", "--mirostat-ent", "mirostat_tau", &P::mirostat_tau, "its target surprise"},
    {"adaptive-target", "--adaptive-target", nullptr, &P::adaptive_target, "probability aimed at; -1: off"},
    {"adaptive-decay", "--adaptive-decay", nullptr, &P::adaptive_decay, "memory of that aim"},
    {"min-keep", "--min-keep", nullptr, &P::min_keep, "fewest candidates a truncation sampler leaves"},
    {"seed", "-s,--seed", nullptr, &P::seed, "seed of the random draws; -1: a random one, reported"},
    {"ignore-eos", "--ignore-eos", nullptr, &P::ignore_eos, "go on where the model would end"},
};

// Shortest text that reads back to the same float.
std::string number_text(float value) {
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return error == std::errc() ? std::string(text, end) : "?";
}

std::string value_text(const SamplingParams& params, const Member& member) {
  return std::visit(
      [&params](auto field) -> std::string {
        using T = std::decay_t<decltype(params.*field)>;
        if constexpr (std::is_same_v<T, bool>)
          return params.*field ? "on" : "off";
        else if constexpr (std::is_same_v<T, float>)
          return number_text(params.*field);
        else
          return std::to_string(params.*field);
      },
      member);
}

// "15043+1", "15043-0.5", "15043-inf"
std::pair<int32_t, float> parse_bias(const std::string& text) {
  const size_t sign = text.find_first_of("+-", 1);
  int32_t id = -1;
  float bias = 0;
  bool good = sign != std::string::npos;
  if (good) {
    const auto id_end = std::from_chars(text.data(), text.data() + sign, id);
    good = id_end.ec == std::errc() && id_end.ptr == text.data() + sign && id >= 0;
    const char* number = text.data() + sign + (text[sign] == '+' ? 1 : 0);
    const auto bias_end = std::from_chars(number, text.data() + text.size(), bias);
    good = good && bias_end.ec == std::errc() && bias_end.ptr == text.data() + text.size() && !std::isnan(bias);
  }
  if (!good) {
    fail(ErrorKind::kInvalidInput, "invalid argument: --logit-bias: expected TOKEN_ID(+/-)BIAS as in 15043+1, found '",
         text, "'");
  }
  return {id, bias};
}

// A recommended value as a number; nullopt for other types.
std::optional<double> as_number(const gguf::Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value.data)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&value.data)) return *real;
  return std::nullopt;
}

// Stores a number in a field. False when it does not fit the field's type.
bool store(SamplingParams& params, const Member& member, double value) {
  return std::visit(
      [&](auto field) {
        using T = std::decay_t<decltype(params.*field)>;
        if constexpr (std::is_same_v<T, bool>) {
          return false;
        } else if constexpr (std::is_same_v<T, float>) {
          params.*field = static_cast<float>(value);
          return true;
        } else {
          if (!(std::abs(value) < 2147483648.0) || value != std::floor(value)) return false;
          params.*field = static_cast<T>(value);
          return true;
        }
      },
      member);
}

}  // namespace

void add_sampling_options(CLI::App& app, SamplingOptions& options) {
  constexpr const char* kGroup = "Sampling";
  for (const Field& field : kFields) {
    std::visit(
        [&](auto member) {
          using T = std::decay_t<decltype(options.params.*member)>;
          const std::string name = field.name;
          const std::string help = std::string(field.help) +
                                   (std::is_same_v<T, bool> ? "" : " [" + value_text(options.params, member) + "]");
          if constexpr (std::is_same_v<T, bool>) {
            app.add_flag_callback(
                   field.flags, [&options, member, name] { options.params.*member = true, options.given.insert(name); },
                   help)
                ->group(kGroup);
          } else {
            app.add_option_function<T>(
                   field.flags,
                   [&options, member, name](T value) { options.params.*member = value, options.given.insert(name); },
                   help)
                ->group(kGroup);
          }
        },
        field.member);
  }
  app.add_option_function<std::string>(
         "--samplers",
         [&options](const std::string& list) {
           options.params.samplers = samplers_from_names(list);
           options.given.insert("samplers");
         },
         "steps in order: penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature")
      ->group(kGroup)
      ->type_name("A;B;C");
  app.add_option_function<std::string>(
         "--sampling-seq,--sampler-seq",
         [&options](const std::string& letters) {
           options.params.samplers = samplers_from_letters(letters);
           options.given.insert("samplers");
         },
         "the same by letters [edskypmxt]")
      ->group(kGroup)
      ->type_name("LETTERS");
  app.add_option_function<std::vector<std::string>>(
         "-l,--logit-bias",
         [&options](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) options.params.logit_bias.push_back(parse_bias(text));
         },
         "add to a token's logit: 15043+1, 15043-inf (repeatable)")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(kGroup)
      ->type_name("ID(+/-)BIAS");
  app.add_option_function<std::vector<std::string>>(
         "--dry-sequence-breaker",
         [&options](const std::vector<std::string>& breakers) {
           options.params.dry_sequence_breakers.clear();
           for (const std::string& breaker : breakers) {
             if (breaker == "none") {
               options.params.dry_sequence_breakers.clear();
             } else {
               options.params.dry_sequence_breakers.push_back(unescape(breaker));
             }
           }
         },
         "text that ends a passage; replaces the defaults, none clears (repeatable)")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(kGroup)
      ->type_name("S");
}

std::string apply_recommended(SamplingOptions& options, const gguf::Metadata& metadata) {
  std::string taken;
  const auto note = [&taken](const std::string& name, const std::string& value) {
    taken += (taken.empty() ? "" : ", ") + name + " " + value;
  };
  const auto skip = [&metadata](const std::string& key, const std::string& why) {
    log_warn(metadata.file(), ": ", key, ": ", why, "; the recommended value is not used");
  };
  for (const Field& field : kFields) {
    if (field.key == nullptr || options.given.count(field.name) != 0) continue;
    const std::string key = std::string("general.sampling.") + field.key;
    const gguf::Value* value = metadata.find(key);
    if (value == nullptr) continue;
    SamplingParams trial = options.params;
    const std::optional<double> number = as_number(*value);
    if (!number || !store(trial, field.member, *number)) {
      skip(key, "expected a number that fits, found type " + std::string(name(value->type)));
    } else if (const std::string wrong = check(trial, std::numeric_limits<int32_t>::max()); !wrong.empty()) {
      skip(key, wrong);
    } else {
      options.params = trial;
      note(field.name, value_text(trial, field.member));
    }
  }
  const gguf::Value* sequence = metadata.find("general.sampling.sequence");
  const auto* text = sequence == nullptr ? nullptr : std::get_if<std::string>(&sequence->data);
  if (text != nullptr && options.given.count("samplers") == 0) {
    try {
      const bool names = text->find(';') != std::string::npos;
      options.params.samplers = names ? samplers_from_names(*text) : samplers_from_letters(*text);
      note("samplers", *text);
    } catch (const Error& error) {
      skip("general.sampling.sequence", error.what());
    }
  }
  return taken;
}

std::vector<std::pair<std::string, std::string>> sampling_values(const SamplingParams& params) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Field& field : kFields) values.emplace_back(field.name, value_text(params, field.member));
  std::string samplers;
  for (const std::string& step : params.samplers) samplers += (samplers.empty() ? "" : ";") + step;
  values.emplace_back("samplers", samplers);
  return values;
}

void set_sampling_value(SamplingOptions& options, const std::string& name, const std::string& value) {
  SamplingOptions trial = options;
  const std::string flag = "--" + name;
  if (name == "ignore-eos") {
    if (value != "on" && value != "off") {
      fail(ErrorKind::kInvalidInput, "ignore-eos: expected on or off, found '", value, "'");
    }
    trial.params.ignore_eos = value == "on";
    trial.given.insert(name);
  } else {
    CLI::App app("", "loci set");
    app.set_help_flag();
    add_sampling_options(app, trial);
    const CLI::Option* option = app.get_option_no_throw(flag);
    if (option == nullptr) {
      std::string known;
      for (const Field& field : kFields) known += std::string(known.empty() ? "" : ", ") + field.name;
      fail(ErrorKind::kInvalidInput, "no setting is called '", name, "'; the settings are ", known,
           ", samplers, logit-bias, dry-sequence-breaker");
    }
    try {
      std::vector<std::string> args{flag + "=" + value};
      app.parse(args);
    } catch (const CLI::ParseError&) {
      const std::string type = option->get_type_name();
      fail(ErrorKind::kInvalidInput, name, ": expected ",
           type == "INT"     ? "an integer"
           : type == "FLOAT" ? "a number"
                             : type,
           ", found '", value, "'");
    }
  }
  const std::string wrong = check(trial.params, std::numeric_limits<int32_t>::max());
  if (!wrong.empty()) fail(ErrorKind::kInvalidInput, wrong);
  options = std::move(trial);
}

}  // namespace loci::cli
