// Matcher: the grammar library behind an interface of our own. xgrammar_matcher.cc implements it;
// missing_matcher.cc refuses when the program is built without the library.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace loci {

// A position in a grammar.
class Matcher {
 public:
  virtual ~Matcher() = default;
  virtual std::unique_ptr<Matcher> fork() const = 0;
  // False when the token may not come; nothing has changed then.
  virtual bool accept(int32_t token) = 0;
  // The same for text that no token stands for.
  virtual bool accept_text(const std::string& text) = 0;
  virtual bool is_complete() const = 0;  // the text so far is a whole one
  // Takes back the last n tokens accepted.
  virtual void rollback(int n) = 0;
  // words [ceil(vocab_size / 32)]: bit i of word w is set when token 32 w + i may come.
  virtual void fill_mask(std::span<uint32_t> words) = 0;
};

// Immutable; shared by threads.
class CompiledGrammar {
 public:
  virtual ~CompiledGrammar() = default;
  virtual std::unique_ptr<Matcher> start() const = 0;
  virtual int64_t bytes() const = 0;  // of memory, about
};

// A vocabulary as the library wants it. Immutable; compile() may be called from several threads.
class GrammarVocabulary {
 public:
  virtual ~GrammarVocabulary() = default;
  // Throws Error(kInvalidInput) with the library's reason.
  virtual std::unique_ptr<CompiledGrammar> compile(const std::string& ebnf) const = 0;
};

// token_bytes: per id, empty for tokens that no text may become. end_tokens may come where the grammar is complete.
// Throws Error(kUnsupported) when the library is not built in.
std::unique_ptr<GrammarVocabulary> make_grammar_vocabulary(const std::vector<std::string>& token_bytes,
                                                           const std::vector<int32_t>& end_tokens);

}  // namespace loci
