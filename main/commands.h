// The commands of the executable, one file each (cmd_<name>.cc). Each gets the arguments after its name and returns
// the exit code; an Error thrown is printed by main() as one line.
#pragma once
#include <string>
#include <vector>

namespace loci::cli {

int cmd_apply_template(const std::vector<std::string>& args);
int cmd_batch(const std::vector<std::string>& args);
int cmd_batched_bench(const std::vector<std::string>& args);
int cmd_bench(const std::vector<std::string>& args);
int cmd_bench_serving(const std::vector<std::string>& args);
int cmd_chat(const std::vector<std::string>& args);
int cmd_inspect(const std::vector<std::string>& args);
int cmd_models(const std::vector<std::string>& args);
int cmd_perplexity(const std::vector<std::string>& args);
int cmd_quantize(const std::vector<std::string>& args);
int cmd_run(const std::vector<std::string>& args);
int cmd_serve(const std::vector<std::string>& args);
int cmd_tokenize(const std::vector<std::string>& args);

}  // namespace loci::cli
