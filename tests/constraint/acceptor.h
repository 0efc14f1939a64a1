// Whether a grammar takes a text, decided by the compiled grammar over a vocabulary of single bytes: what is tested is
// what constrains answers.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/constraint/grammar.h"
#include "engine/constraint/matcher.h"
#include "kernels/error.h"

namespace loci::test {

// Seconds that may pass, times this: sanitizers make everything slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr double kPatience = 10;
#else
inline constexpr double kPatience = 1;
#endif

#define LOCI_NEEDS_XGRAMMAR() \
  if (!LOCI_HAS_XGRAMMAR) GTEST_SKIP() << "built without xgrammar"

inline constexpr int32_t kEndToken = 256;

// 256 bytes and an end token.
inline const GrammarVocabulary& byte_vocabulary() {
  static const std::unique_ptr<GrammarVocabulary> vocabulary = [] {
    std::vector<std::string> bytes;
    for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
    bytes.emplace_back();
    return make_grammar_vocabulary(bytes, {kEndToken});
  }();
  return *vocabulary;
}

class Acceptor {
 public:
  explicit Acceptor(const Grammar& grammar) : compiled_(byte_vocabulary().compile(grammar.to_ebnf(false))) {}

  // The whole of a text.
  bool takes(const std::string& text) const {
    const std::unique_ptr<Matcher> matcher = compiled_->start();
    for (const char c : text) {
      if (!matcher->accept(static_cast<unsigned char>(c))) return false;
    }
    return matcher->is_complete();
  }
  std::unique_ptr<Matcher> start() const { return compiled_->start(); }

 private:
  std::unique_ptr<CompiledGrammar> compiled_;
};

// What `act` throws, or "no error".
template <typename Act>
std::string outcome_of(Act act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace loci::test
