// Flags for the form of an answer, with llama.cpp's names.
#include <optional>
#include <string>

#include "engine/constraint/gbnf.h"
#include "kernels/error.h"
#include "main/cli.h"
#include "main/options.h"
#include "main/text_input.h"
#include "server/structured_output.h"

namespace loci::cli {
namespace {

constexpr const char* kGroup = "Form of the answer";

}  // namespace

void add_constraint_options(CLI::App& app, ConstraintOptions& options) {
  app.add_option("--grammar", options.grammar, "grammar that the answer obeys (GBNF)")->group(kGroup);
  app.add_option("--grammar-file", options.grammar_file, "the same from a file")->group(kGroup)->type_name("FILE");
  app.add_option("-j,--json-schema", options.schema, "JSON schema of the answer; {} is any JSON")->group(kGroup);
  app.add_option("--json-schema-file,--jf", options.schema_file, "the same from a file")
      ->group(kGroup)
      ->type_name("FILE");
}

std::optional<Grammar> read_constraint(const ConstraintOptions& options) {
  const int n_given = static_cast<int>(options.grammar.has_value()) +
                      static_cast<int>(options.grammar_file.has_value()) +
                      static_cast<int>(options.schema.has_value()) + static_cast<int>(options.schema_file.has_value());
  if (n_given > 1) {
    fail(ErrorKind::kInvalidInput,
         "invalid argument: expected one of --grammar, --grammar-file, --json-schema and --json-schema-file, found ",
         n_given);
  }
  if (options.grammar || options.grammar_file) {
    const std::string flag = options.grammar ? "--grammar" : "--grammar-file " + *options.grammar_file;
    try {
      return parse_gbnf(options.grammar ? *options.grammar : read_text(*options.grammar_file));
    } catch (const Error& error) {
      fail(error.kind(), flag, ": ", error.what());
    }
  }
  if (options.schema || options.schema_file) {
    const std::string flag = options.schema ? "--json-schema" : "--json-schema-file " + *options.schema_file;
    const std::string text = options.schema ? *options.schema : read_text(*options.schema_file);
    try {
      return server::schema_text_grammar(text, "schema");
    } catch (const Error& error) {
      fail(error.kind(), flag, ": ", error.what());
    }
  }
  return std::nullopt;
}

}  // namespace loci::cli
