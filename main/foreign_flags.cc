#include "main/foreign_flags.h"

#include <algorithm>

namespace loci::cli {
namespace {

struct ForeignFlags {
  std::string_view names;  // space-separated, without leading dashes
  std::string_view reason;
};

constexpr ForeignFlags kForeign[] = {
    {"hf hf-repo hfd hf-repo-draft hfr hff hf-file hfv hf-repo-v hffv hf-file-v hft hf-token mu model-url dr "
     "docker-repo offline",
     "the program does not download; scripts/fetch_model.sh does"},
    {"ngl gpu-layers n-gpu-layers sm split-mode ts tensor-split mg main-gpu ot override-tensor cmoe cpu-moe ncmoe "
     "n-cpu-moe ncffn op-offload no-op-offload dev device kvo kv-offload nkvo no-kv-offload fitt fitc fit rpc",
     "this command runs on the CPU alone"},
    {"C cpu-mask Cr cpu-range cpu-strict prio poll Cb cpu-mask-batch Crb cpu-range-batch cpu-strict-batch prio-batch "
     "poll-batch numa",
     "this command does not compute with the model, or has one kind of threads"},
    {"lora lora-scaled lora-base control-vector control-vector-scaled control-vector-layer-range "
     "lora-init-without-apply",
     "adapters are not implemented"},
    {"mmproj mm mmproj-url mmu no-mmproj mmproj-auto mmproj-offload image audio image-min-tokens image-max-tokens",
     "models see text only"},
    {"grammar grammar-file j json-schema jf json-schema-file", "a flag of run, chat, batch and serve"},
    {"spec-draft-p-split draft-p-split ngld gpu-layers-draft devd device-draft ctkd cache-type-k-draft ctvd "
     "cache-type-v-draft td threads-draft tbd threads-batch-draft cd ctx-size-draft",
     "the draft model shares device, threads, cache and its type with the model"},
    {"lookup-cache-static lcs lookup-cache-dynamic lcd", "n-grams are looked up in memory, see --spec-type ngram"},
    {"spec-type spec-default md model-draft spec-draft-model spec-draft-n-max spec-draft-n-min spec-draft-p-min "
     "spec-draft-vocab draft draft-max draft-n draft-min draft-n-min draft-p-min draft-tree spec-adaptive "
     "no-spec-adaptive spec-shared",
     "this command does not draft tokens ahead; scripts/bench_speculation.py measures speculation"},
    {"max-stall-ms priority-ageing-ms priority-aging-ms preemption-mode swap-space",
     "a flag of serve, batch and bench-serving, which run several requests at once"},
    {"max-queued-requests max-queue",
     "a flag of serve and bench-serving; batch reads its input as it can run it and turns nothing away"},
    {"request-timeout", "a flag of run, chat, batch and serve"},
    {"keep context-shift grp-attn-n gan grp-attn-w gaw",
     "a full context ends the answer; nothing is shifted or dropped"},
    {"log-colors log-prefix log-timestamps log-jsonl", "log lines are plain text"},
    {"no-jinja", "templates are always evaluated"},
    {"check-tensors defrag-thold dt no-repack nr no-host warmup", "not implemented"},
    {"server-base", "this command loads the model itself"},
    {"reasoning-effort reasoning-budget reasoning-budget-message", "the length of thinking cannot be steered"},
    {"host port api-prefix np parallel kvu kv-unified cb cont-batching metrics no-metrics metrics-prefix embedding "
     "embeddings pooling a alias api-key api-key-file ssl-key-file ssl-cert-file to timeout threads-http "
     "sse-ping-interval cors-origins cors-methods "
     "cors-headers cors-credentials slots no-ui no-webui cache-prompt no-cache-prompt prefill-assistant "
     "no-prefill-assistant",
     "a flag of serve"},
    {"ui webui path", "the server has no web page"},
    {"models-dir models-preset models-max models-autoload no-models-autoload sleep-idle-seconds",
     "the server serves one model"},
    {"tools rerank reranking slot-save-path no-slots props spm-infill", "not implemented"},
    {"no-kvu no-kv-unified nocb no-cont-batching", "requests always share one pool and one batch"},
    {"cram cache-ram ctxcp ctx-checkpoints cms sps slot-prompt-similarity cache-reuse",
     "prefixes are kept in the one pool, as long as there is room; see --kv-budget"},
    {"in-prefix-bos", "a begin token is put at the start of the text only"},
};

bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t space = std::min(names.find(' '), names.size());
    if (names.substr(0, space) == name) return true;
    names.remove_prefix(std::min(space + 1, names.size()));
  }
  return false;
}

}  // namespace

std::string_view foreign_flag_reason(const std::string& name) {
  const std::string_view bare = std::string_view(name).substr(std::min(name.find_first_not_of('-'), name.size()));
  if (bare.empty()) return {};
  for (const ForeignFlags& group : kForeign) {
    if (lists(group.names, bare)) return group.reason;
  }
  return {};
}

}  // namespace loci::cli
