// Matcher on xgrammar: its compiler and matchers, nothing else of it.
#include <dlpack/dlpack.h>
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "engine/constraint/matcher.h"
#include "kernels/error.h"

namespace loci {
namespace {

class XgrammarMatcher : public Matcher {
 public:
  explicit XgrammarMatcher(xgrammar::GrammarMatcher matcher) : matcher_(std::move(matcher)) {}

  std::unique_ptr<Matcher> fork() const override { return std::make_unique<XgrammarMatcher>(matcher_.Fork()); }
  bool accept(int32_t token) override { return matcher_.AcceptToken(token); }
  bool accept_text(const std::string& text) override { return matcher_.AcceptString(text); }
  bool is_complete() const override { return matcher_.IsCompleted(); }
  void rollback(int n) override { matcher_.Rollback(n); }

  void fill_mask(std::span<uint32_t> words) override {
    int64_t shape[] = {static_cast<int64_t>(words.size())};
    DLTensor tensor{};
    tensor.data = words.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 1;
    tensor.dtype = xgrammar::GetBitmaskDLType();
    tensor.shape = shape;
    std::fill(words.begin(), words.end(), ~uint32_t{0});  // left alone where all tokens may come
    matcher_.FillNextTokenBitmask(&tensor);
  }

 private:
  xgrammar::GrammarMatcher matcher_;
};

class XgrammarGrammar : public CompiledGrammar {
 public:
  explicit XgrammarGrammar(xgrammar::CompiledGrammar grammar) : grammar_(std::move(grammar)) {}
  std::unique_ptr<Matcher> start() const override {
    return std::make_unique<XgrammarMatcher>(xgrammar::GrammarMatcher(grammar_));
  }
  int64_t bytes() const override { return static_cast<int64_t>(grammar_.MemorySizeBytes()); }

 private:
  xgrammar::CompiledGrammar grammar_;
};

class XgrammarVocabulary : public GrammarVocabulary {
 public:
  XgrammarVocabulary(const std::vector<std::string>& token_bytes, const std::vector<int32_t>& end_tokens)
      : info_(token_bytes, xgrammar::VocabType::RAW, std::nullopt, end_tokens) {}

  std::unique_ptr<CompiledGrammar> compile(const std::string& ebnf) const override try {
    // Masks are made when they are first needed, beside a forward pass: compiling stays short, whatever the grammar.
    xgrammar::GrammarCompiler compiler(info_, /*max_threads=*/1, /*cache_enabled=*/false, /*max_memory_bytes=*/-1,
                                       /*enable_dynamic_compilation=*/true);
    return std::make_unique<XgrammarGrammar>(compiler.CompileGrammar(ebnf, "root"));
  } catch (const std::exception& error) {
    fail(ErrorKind::kInvalidInput, "the grammar cannot be compiled: ", error.what());
  }

 private:
  xgrammar::TokenizerInfo info_;
};

}  // namespace

std::unique_ptr<GrammarVocabulary> make_grammar_vocabulary(const std::vector<std::string>& token_bytes,
                                                           const std::vector<int32_t>& end_tokens) {
  return std::make_unique<XgrammarVocabulary>(token_bytes, end_tokens);
}

}  // namespace loci
