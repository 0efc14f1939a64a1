// Flags: spelling rules, environment twins, refusals, and the settings table.
#include "main/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "kernels/error.h"
#include "main/cli.h"
#include "main/foreign_flags.h"

namespace loci::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Flags {
  EngineConfig config;
  int64_t timeout_ms = -1;
  PromptOptions prompt;
  ChatOptions chat;
  SamplingOptions sampling;
};

Flags parse_all(const std::vector<std::string>& args) {
  Flags flags;
  const auto app = make_app("run", "test");
  add_prompt_options(*app, flags.prompt, true);
  add_model_options(*app, flags.config);
  add_chat_options(*app, flags.chat);
  add_sampling_options(*app, flags.sampling);
  EXPECT_TRUE(parse(*app, args));
  return flags;
}

// As a command that runs several requests.
Flags parse_scheduling(const std::vector<std::string>& args) {
  Flags flags;
  const auto app = make_app("batch", "test");
  add_model_options(*app, flags.config);
  add_scheduling_options(*app, flags.config);
  add_request_timeout_option(*app, flags.timeout_ms);
  EXPECT_TRUE(parse(*app, args));
  check_scheduling(flags.config);
  return flags;
}

std::string error_of_scheduling(const std::vector<std::string>& args) {
  try {
    parse_scheduling(args);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string error_of(const std::vector<std::string>& args) {
  try {
    parse_all(args);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Flags, TakeValuesApartOrAfterAnEqualsSign) {
  const Flags flags = parse_all({"-c", "512", "--threads=3", "-ub", "64", "-n", "-1", "-ctk=f32", "--temp", "-0.5"});
  EXPECT_EQ(flags.config.n_ctx, 512);
  EXPECT_EQ(flags.config.n_threads, 3);
  EXPECT_EQ(flags.config.n_ubatch, 64);
  EXPECT_EQ(flags.config.kv.k_format, KvFormat::kF32);
  EXPECT_EQ(flags.config.kv.v_format, KvFormat::kF16);
  EXPECT_EQ(flags.prompt.n_predict, -1);
  EXPECT_FLOAT_EQ(flags.sampling.params.temperature, -0.5f);
}

TEST(Flags, SizesHaveUnits) {
  const auto budget = [](const char* text) { return parse_all({"--kv-budget", text}).config.kv.budget_bytes; };
  EXPECT_EQ(budget("512M"), int64_t{512} << 20);
  EXPECT_EQ(budget("2GiB"), int64_t{2} << 30);
  EXPECT_EQ(budget("1.5k"), 1536);
  EXPECT_EQ(budget("3 MB"), int64_t{3} << 20);
  EXPECT_EQ(budget("4096"), 4096);
  EXPECT_EQ(budget("auto"), 0);
  EXPECT_EQ(parse_all({"--kv-page-size", "32"}).config.kv.page_size, 32);
  EXPECT_FALSE(parse_all({}).config.kv.swa_full);
  EXPECT_TRUE(parse_all({"--swa-full"}).config.kv.swa_full);
  {
    const Environment environment("LLAMA_ARG_KV_BUDGET", "1G");
    EXPECT_EQ(parse_all({}).config.kv.budget_bytes, int64_t{1} << 30);
    EXPECT_EQ(budget("2G"), int64_t{2} << 30);
  }
  for (const char* bad : {"", "0", "-1", "12X", "1e9", "many", "99999999999T", "1 2"}) {
    EXPECT_THAT(error_of({"--kv-budget", bad}),
                ::testing::AllOf(HasSubstr("--kv-budget"), HasSubstr("expected a size")));
  }
}

TEST(Flags, OfTheScheduler) {
  const EngineConfig plain = parse_scheduling({}).config, defaults;
  EXPECT_EQ(plain.max_stall_ms, defaults.max_stall_ms);
  EXPECT_EQ(plain.ageing_ms, defaults.ageing_ms);
  EXPECT_EQ(plain.preemption, Preemption::kAuto);
  EXPECT_EQ(plain.kv.swap_bytes, -1);
  const Flags flags = parse_scheduling({"--max-stall-ms", "12.5", "--priority-ageing-ms", "500", "--preemption-mode",
                                        "swap", "--swap-space", "512M", "--request-timeout", "2.5"});
  EXPECT_EQ(flags.config.max_stall_ms, 12.5);
  EXPECT_EQ(flags.config.ageing_ms, 500);
  EXPECT_EQ(flags.config.preemption, Preemption::kSwap);
  EXPECT_EQ(flags.config.kv.swap_bytes, int64_t{512} << 20);
  EXPECT_EQ(flags.timeout_ms, 2500);
  EXPECT_EQ(parse_scheduling({"--preemption-mode", "recompute"}).config.preemption, Preemption::kRecompute);
  EXPECT_EQ(parse_scheduling({"--priority-aging-ms", "7"}).config.ageing_ms, 7);
  EXPECT_EQ(parse_scheduling({"--max-stall-ms", "0"}).config.max_stall_ms, 0);
  EXPECT_EQ(parse_scheduling({"--request-timeout", "0"}).timeout_ms, -1);
  EXPECT_EQ(parse_scheduling({"--request-timeout", "0.0001"}).timeout_ms, 1);
  const auto space = [](const char* text) { return parse_scheduling({"--swap-space", text}).config.kv.swap_bytes; };
  EXPECT_EQ(space("4"), int64_t{4} << 30);  // as in vLLM
  EXPECT_EQ(space("0.5"), int64_t{1} << 29);
  EXPECT_EQ(space("0"), 0);
  EXPECT_EQ(space("64KiB"), 65536);
  EXPECT_EQ(space("auto"), -1);
  {
    const Environment stall("LLAMA_ARG_MAX_STALL_MS", "33"), swap("LLAMA_ARG_SWAP_SPACE", "1M");
    EXPECT_EQ(parse_scheduling({}).config.max_stall_ms, 33);
    EXPECT_EQ(space("2M"), 2 << 20);
    EXPECT_EQ(parse_scheduling({}).config.kv.swap_bytes, 1 << 20);
  }
}

TEST(Flags, OfTheSchedulerRefuseWhatCannotBe) {
  EXPECT_THAT(error_of_scheduling({"--max-stall-ms", "-1"}), HasSubstr("--max-stall-ms"));
  EXPECT_THAT(error_of_scheduling({"--max-stall-ms", "soon"}), HasSubstr("--max-stall-ms"));
  EXPECT_THAT(error_of_scheduling({"--priority-ageing-ms", "0"}), HasSubstr("--priority-ageing-ms"));
  EXPECT_THAT(error_of_scheduling({"--preemption-mode", "kill"}), HasSubstr("--preemption-mode"));
  EXPECT_THAT(error_of_scheduling({"--preemption-mode", "swap", "--swap-space", "0"}),
              HasSubstr("--preemption-mode swap: expected a --swap-space to copy to, found 0"));
  for (const char* bad : {"", "x", "-1", "1X", "."}) {
    EXPECT_THAT(error_of_scheduling({"--swap-space", bad}), HasSubstr("--swap-space: expected a size")) << bad;
  }
  for (const char* bad : {"-1", "nan", "1e30"}) {
    EXPECT_THAT(error_of_scheduling({"--request-timeout", bad}), HasSubstr("--request-timeout: expected seconds"));
  }
  // Commands that run one request at a time have none of them.
  for (const char* flag : {"--max-stall-ms", "--priority-ageing-ms", "--preemption-mode", "--swap-space"}) {
    EXPECT_THAT(error_of({flag, "1"}), ::testing::StartsWith(str("not supported by this build: ", flag, " ("))) << flag;
  }
  EXPECT_THAT(error_of({"--max-queued-requests", "1"}), HasSubstr("a flag of serve and bench-serving"));
}

TEST(Flags, ValuesMayLookLikeFlagsAndMayBeEmpty) {
  EXPECT_EQ(parse_all({"-p", "--version"}).prompt.text, "--version");
  EXPECT_EQ(parse_all({"-p", ""}).prompt.text, "");
  EXPECT_EQ(parse_all({"--prompt=a=b [c]"}).prompt.text, "a=b [c]");
  EXPECT_THAT(parse_all({"-r", "[x]", "-r", "-y", "-r", "a,b"}).prompt.stops, ElementsAre("[x]", "-y", "a,b"));
}

TEST(Flags, TheLastOneWins) { EXPECT_EQ(parse_all({"-c", "1", "-c", "2", "--ctx-size=3"}).config.n_ctx, 3); }

TEST(Flags, WordsArePositionalAndAllWordsAfterTwoDashes) {
  EXPECT_THAT(parse_all({"What", "is", "-n", "5", "this?"}).prompt.words, ElementsAre("What", "is", "this?"));
  EXPECT_THAT(parse_all({"-n", "5", "--", "-x", "--foo"}).prompt.words, ElementsAre("-x", "--foo"));
}

TEST(Flags, BooleanPairs) {
  EXPECT_TRUE(parse_all({}).config.use_mmap);
  EXPECT_FALSE(parse_all({"--no-mmap"}).config.use_mmap);
  EXPECT_TRUE(parse_all({"--no-mmap", "--mmap"}).config.use_mmap);
  EXPECT_FALSE(parse_all({"--mmap=off"}).config.use_mmap);
  EXPECT_EQ(parse_all({"-no-cnv"}).chat.conversation, false);
  EXPECT_EQ(parse_all({"-cnv"}).chat.conversation, true);
  EXPECT_EQ(parse_all({}).chat.conversation, std::nullopt);
}

TEST(Flags, EscapesInPromptsUnlessTurnedOff) {
  EXPECT_EQ(parse_all({"-p", R"(a\nb\t\"\'\\\x)"}).prompt.text, "a\nb\t\"'\\\\x");
  EXPECT_EQ(parse_all({"-p", R"(a\nb)", "--no-escape"}).prompt.text, R"(a\nb)");
  EXPECT_EQ(unescape("end\\"), "end\\");
}

TEST(Flags, BareFlashAttentionMeansOn) {
  EXPECT_THAT(parse_all({"-fa", "word"}).prompt.words, ElementsAre("word"));
  EXPECT_TRUE(parse_all({"-fa", "auto"}).prompt.words.empty());
  EXPECT_THAT(error_of({"-fa=maybe"}), HasSubstr("expected on, off or auto, found 'maybe'"));
}

TEST(Flags, PreciseMeansAnF32CacheUnlessToldOtherwise) {
  const Flags plain = parse_all({"--precise"});
  EXPECT_EQ(plain.config.kv.k_format, KvFormat::kF32);
  EXPECT_EQ(plain.config.kv.v_format, KvFormat::kF32);
  const Flags mixed = parse_all({"-ctk", "f16", "--precise"});
  EXPECT_EQ(mixed.config.kv.k_format, KvFormat::kF16);
  EXPECT_EQ(mixed.config.kv.v_format, KvFormat::kF32);
}

TEST(Flags, UnknownOnesNameTheNearest) {
  EXPECT_THAT(error_of({"--ctx-sizes", "5"}), HasSubstr("invalid argument: --ctx-sizes (did you mean --ctx-size?)"));
  EXPECT_THAT(error_of({"--foo=3"}), ::testing::StartsWith("invalid argument: --foo"));
  EXPECT_THAT(error_of({"-zz"}), HasSubstr("invalid argument: -zz"));
}

TEST(Flags, ForeignOnesAreNotCalledInvalid) {
  for (const char* flag : {"-hf", "-mu", "--lora", "--mmproj", "--grammar", "--json-schema", "--control-vector", "-sm",
                           "-ts", "-ot", "--spec-type", "-md", "--context-shift", "--server-base"}) {
    EXPECT_THAT(error_of({flag, "x"}), ::testing::StartsWith(str("not supported by this build: ", flag, " ("))) << flag;
  }
  EXPECT_THAT(error_of({"-ngl", "99"}), HasSubstr("not supported by this build: -ngl 99"));
  EXPECT_THAT(error_of({"-ctk", "q4_1"}), HasSubstr("not supported by this build: -ctk q4_1"));
  EXPECT_EQ(error_of({"-ngl", "0", "-ngl", "auto", "-fa", "on", "-nkvo", "--jinja", "--no-warmup"}), "no error");
  EXPECT_TRUE(foreign_flag_reason("--no-such-flag").empty());
  EXPECT_TRUE(foreign_flag_reason("--").empty());
}

TEST(Flags, SayWhereThreadsRun) {
  const Flags flags = parse_all({"-C", "0x0a", "-Cr", "4-5", "--cpu-strict", "1", "--prio", "2", "--poll", "0",
                                 "--numa", "distribute", "-Crb", "-2", "--prio-batch", "-1"});
  const ThreadPlacement& placement = flags.config.placement;
  EXPECT_THAT(placement.cpus, ElementsAre(1, 3, 4, 5));
  EXPECT_TRUE(placement.strict);
  EXPECT_EQ(placement.priority, 2);
  EXPECT_EQ(placement.poll, 0);
  EXPECT_EQ(placement.numa, NumaMode::kDistribute);
  const ThreadPlacement batch = flags.config.placement_batch.over(placement);
  EXPECT_THAT(batch.cpus, ElementsAre(0, 1, 2));
  EXPECT_TRUE(batch.strict);
  EXPECT_EQ(batch.priority, -1);
  EXPECT_EQ(batch.poll, 0);
  EXPECT_EQ(batch.numa, NumaMode::kDistribute);

  EXPECT_EQ(parse_all({}).config.placement, ThreadPlacement());
  EXPECT_EQ(parse_all({}).config.placement_batch.over({.cpus = {}, .poll = 7}),
            (ThreadPlacement{.cpus = {}, .poll = 7}));
  EXPECT_EQ(parse_all({"-Cr", "0-"}).config.placement.cpus.size(), static_cast<size_t>(sysconf(_SC_NPROCESSORS_CONF)));
  EXPECT_EQ(parse_all({"--cpu-mask", std::string(256, 'f')}).config.placement.cpus.size(), 1024u);
}

TEST(Flags, BadPlacesNameFlagAndFinding) {
  for (const char* mask : {"", "0x", "g", "0x1z", "-1"}) {
    EXPECT_THAT(error_of({"--cpu-mask", mask}), HasSubstr("-C: expected up to 256 hexadecimal digits")) << mask;
  }
  EXPECT_THAT(error_of({"-C", std::string(257, '1')}), HasSubstr("-C: expected"));
  EXPECT_THAT(error_of({"-Cb", "0x00"}), HasSubstr("-Cb: the mask 0x00 names no CPU"));
  for (const char* range : {"3", "-", "2-1", "a-b", "0-9999", "1-2-3", "1 -2"}) {
    EXPECT_THAT(error_of({"-Cr", range}), HasSubstr("-Cr: expected FIRST-LAST")) << range;
  }
  EXPECT_THAT(error_of({"--numa", "spread"}), HasSubstr("--numa"));
  EXPECT_THAT(error_of({"--prio", "4"}), HasSubstr("--prio"));
  EXPECT_THAT(error_of({"--poll", "101"}), HasSubstr("--poll"));
  EXPECT_THAT(error_of({"--cpu-strict", "2"}), HasSubstr("--cpu-strict"));
}

TEST(Flags, BadValuesNameFlagExpectationAndFinding) {
  EXPECT_THAT(error_of({"--top-k", "many"}), HasSubstr("--top-k: expected an integer, found 'many'"));
  EXPECT_THAT(error_of({"--temp", "hot"}), HasSubstr("--temp: expected a number, found 'hot'"));
  EXPECT_THAT(error_of({"-c", "-5"}), HasSubstr("--ctx-size"));
  EXPECT_THAT(error_of({"-b", "0"}), HasSubstr("--batch-size"));
  EXPECT_THAT(error_of({"-n"}), HasSubstr("-n: expected a value, found the end of the line"));
  EXPECT_THAT(error_of({"-m", ""}), HasSubstr("found an empty string"));
  EXPECT_THAT(error_of({"--logit-bias", "12"}), HasSubstr("expected TOKEN_ID(+/-)BIAS"));
  EXPECT_THAT(error_of({"--override-kv", "a"}), HasSubstr("expected KEY=int|float|bool|str:VALUE"));
  EXPECT_THAT(error_of({"--mmap=perhaps"}), HasSubstr("expected on or off, found 'perhaps'"));
}

TEST(Flags, OverridesSplitAtCommasBeforeAKey) {
  const Flags flags = parse_all({"--override-kv", "a.b=int:1,c=str:x,y,d=bool:true", "--override-kv", "e=float:1.5"});
  EXPECT_THAT(flags.config.override_kv, ElementsAre(std::pair<std::string, std::string>("a.b", "int:1"),
                                                    std::pair<std::string, std::string>("c", "str:x,y"),
                                                    std::pair<std::string, std::string>("d", "bool:true"),
                                                    std::pair<std::string, std::string>("e", "float:1.5")));
}

TEST(Environment, IsUsedWhereTheCommandLineIsSilent) {
  const Environment ctx("LLAMA_ARG_CTX_SIZE", "77"), temp("LLAMA_ARG_TEMP", "0.25"), mmap("LLAMA_ARG_NO_MMAP", "1"),
      model("LLAMA_ARG_MODEL", "file.gguf"), eos("LLAMA_ARG_IGNORE_EOS", "enabled");
  const Flags flags = parse_all({});
  EXPECT_EQ(flags.config.n_ctx, 77);
  EXPECT_FLOAT_EQ(flags.sampling.params.temperature, 0.25f);
  EXPECT_EQ(flags.sampling.given.count("temp"), 1u);
  EXPECT_FALSE(flags.config.use_mmap);
  EXPECT_EQ(flags.config.model_path, "file.gguf");
  EXPECT_TRUE(flags.sampling.params.ignore_eos);
  EXPECT_EQ(parse_all({"-c", "5"}).config.n_ctx, 5);
  const Environment batch("LLAMA_ARG_BATCH", "48");
  EXPECT_EQ(parse_all({}).config.n_batch, 48);
  EXPECT_EQ(parse_all({"-b", "16"}).config.n_batch, 16);
}

TEST(Environment, FalseTurnsOffAndNonsenseIsRefused) {
  {
    const Environment mmap("LLAMA_ARG_MMAP", "disabled");
    EXPECT_FALSE(parse_all({}).config.use_mmap);
    EXPECT_TRUE(parse_all({"--mmap"}).config.use_mmap);
  }
  const Environment mmap("LLAMA_ARG_MLOCK", "perhaps");
  EXPECT_THAT(error_of({}), HasSubstr("LLAMA_ARG_MLOCK: expected on or off, found 'perhaps'"));
}

TEST(Settings, EveryValueReadsBackExactly) {
  SamplingOptions options;
  options.params.temperature = 0.1f;
  options.params.top_p = 0.123456789f;
  options.params.seed = 42;
  options.params.ignore_eos = true;
  SamplingOptions copy;
  for (const auto& [name, value] : sampling_values(options.params)) set_sampling_value(copy, name, value);
  EXPECT_EQ(sampling_values(copy.params), sampling_values(options.params));
  EXPECT_EQ(copy.params.top_p, options.params.top_p);
}

TEST(Settings, BadOnesChangeNothing) {
  SamplingOptions options;
  EXPECT_THROW(set_sampling_value(options, "warmth", "1"), Error);
  EXPECT_THROW(set_sampling_value(options, "top-k", "x"), Error);
  EXPECT_THROW(set_sampling_value(options, "samplers", "no_such_step"), Error);
  EXPECT_EQ(sampling_values(options.params), sampling_values(SamplingParams{}));
}

gguf::Value number(gguf::ValueType type, double value) {
  gguf::Value out;
  out.type = type;
  if (type == gguf::ValueType::kF32) {
    out.data = value;
  } else {
    out.data = static_cast<int64_t>(value);
  }
  return out;
}

TEST(Recommended, FillsWhatTheUserLeftOpen) {
  gguf::Metadata metadata("m.gguf");
  metadata.set("general.sampling.temp", number(gguf::ValueType::kF32, 0.5));
  metadata.set("general.sampling.top_k", number(gguf::ValueType::kI32, 20));
  metadata.set("general.sampling.top_p", number(gguf::ValueType::kF32, 7));  // out of range
  SamplingOptions options;
  set_sampling_value(options, "top-k", "3");
  EXPECT_EQ(apply_recommended(options, metadata), "temp 0.5");
  EXPECT_FLOAT_EQ(options.params.temperature, 0.5f);
  EXPECT_EQ(options.params.top_k, 3);
}

}  // namespace
}  // namespace loci::cli
