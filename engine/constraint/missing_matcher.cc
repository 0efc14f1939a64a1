// Built in place of xgrammar_matcher.cc when xgrammar's sources were not found.
#include "engine/constraint/matcher.h"
#include "kernels/error.h"

namespace loci {

std::unique_ptr<GrammarVocabulary> make_grammar_vocabulary(const std::vector<std::string>&,
                                                           const std::vector<int32_t>&) {
  fail(ErrorKind::kUnsupported,
       "structured output is not built in: xgrammar's sources were not found when the program was built "
       "(scripts/setup.sh fetches them)");
}

}  // namespace loci
