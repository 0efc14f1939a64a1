// Constraint: a compiled grammar that answers must obey; ConstraintState: how far one answer has come in it. Rules:
// docs/structured-output.md.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/constraint/grammar.h"
#include "engine/constraint/matcher.h"

namespace loci {

class Tokenizer;
struct DraftTree;

// Where the model's thinking is told from its answer. Empty markers: it does not think.
struct ThinkingMarkers {
  std::string open, close;
  bool inside = false;  // the prompt ends with the opening marker
};

// Immutable; shared by requests and threads.
struct Constraint {
  std::unique_ptr<const CompiledGrammar> grammar;
  ThinkingMarkers thinking;
  int32_t open_token = -1;  // the opening marker, if it is one token and the answer may begin with it
  std::vector<int32_t> end_tokens;
  std::vector<std::string> token_bytes;  // per token id, empty for control tokens; only with thinking
  int32_t vocab_size = 0;
  double compile_ms = 0;

  bool ends(int32_t token) const;  // the answer
};

// Compiles grammars for one vocabulary and remembers the latest. Thread-safe: two threads may compile at once.
class ConstraintCompiler {
 public:
  // `tokenizer`: not owned, outlives this.
  explicit ConstraintCompiler(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Throws Error(kUnsupported) when grammars are not built in, kInvalidInput when the compiler refuses the grammar.
  // REQUIRES: grammar.check() passed.
  std::shared_ptr<const Constraint> compile(const Grammar& grammar, const ThinkingMarkers& thinking = {});

 private:
  const GrammarVocabulary& vocabulary();  // made at the first use

  const Tokenizer& tokenizer_;
  std::mutex mutex_;
  std::shared_ptr<const GrammarVocabulary> vocabulary_;  // guarded by mutex_
  struct Known {
    std::shared_ptr<const Constraint> constraint;
    uint64_t last_use = 0;
  };
  std::unordered_map<std::string, Known> known_;  // guarded by mutex_; by grammar and markers
  uint64_t n_uses_ = 0;                           // guarded by mutex_
};

// What masks cost a request.
struct ConstraintCosts {
  int64_t n_masks = 0;
  double mask_ms = 0;  // computing them, mostly beside the forward pass
  double wait_ms = 0;  // of it, what the answer waited for
};

// A value: a copy goes on independently. One thread at a time.
class ConstraintState {
 public:
  explicit ConstraintState(std::shared_ptr<const Constraint> constraint);
  ConstraintState(const ConstraintState& other);
  ConstraintState& operator=(const ConstraintState& other);
  ConstraintState(ConstraintState&&) noexcept = default;
  ConstraintState& operator=(ConstraintState&&) noexcept = default;
  ~ConstraintState() = default;

  // Computes, if it is not known, which tokens may come next: here and behind each draft of `tree` that may come.
  void prepare(const DraftTree* tree);
  // Sets the logits of all other tokens to -inf. `logits` [>= vocab size]; ids past the vocabulary are forbidden.
  void apply(std::span<float> logits);
  bool allows(int32_t token);
  // Goes on with a token. False when it may not come; the state is then as before.
  bool accept(int32_t token);
  // Nothing may follow but an end token.
  bool is_complete();
  // Nodes of a draft tree that may come, ascending; the parent of each is among them.
  std::vector<int32_t> allowed_nodes(const DraftTree& tree);

  const ConstraintCosts& costs() const { return costs_; }
  void add_wait_ms(double ms) { costs_.wait_ms += ms; }

 private:
  enum class Phase : uint8_t { kMayThink, kThinking, kAnswering, kEnded };
  // What a token changes beside the matcher.
  struct Place {
    Phase phase = Phase::kAnswering;
    std::string tail;  // kThinking: end of the text that may begin the closing marker
  };
  using Mask = std::vector<uint32_t>;  // bit i of word w: token 32 w + i may come
  // Masks ahead: of the place (entry 0) and of draft nodes, found by the tokens that lead there.
  struct Ahead {
    int32_t token, parent;
    std::shared_ptr<const Mask> mask;
  };

  bool step(int32_t token);  // accept(), without the masks
  bool think(int32_t token);
  std::shared_ptr<const Mask> make_mask();
  const Mask& mask();
  template <typename OnNode>
  void walk(const DraftTree& tree, OnNode on_node);

  std::shared_ptr<const Constraint> constraint_;
  std::unique_ptr<Matcher> matcher_;
  Place place_;
  std::vector<Ahead> ahead_;  // empty: the mask is not known
  int32_t here_ = 0;          // entry of ahead_
  ConstraintCosts costs_;
};

}  // namespace loci
