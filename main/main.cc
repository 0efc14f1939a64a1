// Picks a command, maps an Error to a message and an exit code: 0 success, 1 error, 130 interrupted.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/device_list.h"
#include "kernels/error.h"
#include "main/commands.h"

#ifndef LOCI_VERSION
#define LOCI_VERSION "0.0.0"
#endif

namespace {

using loci::cli::cmd_apply_template;
using loci::cli::cmd_batch;
using loci::cli::cmd_batched_bench;
using loci::cli::cmd_bench;
using loci::cli::cmd_bench_serving;
using loci::cli::cmd_chat;
using loci::cli::cmd_inspect;
using loci::cli::cmd_models;
using loci::cli::cmd_perplexity;
using loci::cli::cmd_quantize;
using loci::cli::cmd_run;
using loci::cli::cmd_serve;
using loci::cli::cmd_tokenize;

struct Command {
  std::string_view name;
  int (*run)(const std::vector<std::string>& args);
  std::string_view summary;
};

constexpr Command kCommands[] = {
    {"run", cmd_run, "answer one prompt and exit"},
    {"chat", cmd_chat, "talk to a model in the terminal"},
    {"cli", cmd_chat, "the same as chat"},
    {"completion", cmd_run, "the same as run"},
    {"serve", cmd_serve, "answer requests over HTTP, as OpenAI's API and llama-server do"},
    {"server", cmd_serve, "the same as serve"},
    {"batch", cmd_batch, "run a file of requests"},
    {"models", cmd_models, "list the models that have a short name"},
    {"inspect", cmd_inspect, "say what a GGUF file holds and whether it would load"},
    {"quantize", cmd_quantize, "convert a GGUF file to a smaller type"},
    {"tokenize", cmd_tokenize, "text to token ids and back"},
    {"apply-template", cmd_apply_template, "print the exact prompt a chat template makes"},
    {"perplexity", cmd_perplexity, "perplexity of a text, comparable with llama.cpp's"},
    {"bench", cmd_bench, "tokens per second of prefill and decode"},
    {"batched-bench", cmd_batched_bench, "the same with several sequences at once"},
    {"bench-serving", cmd_bench_serving, "a workload of requests, with the time of every token"},
};

void print_help() {
  std::cout << "loci " LOCI_VERSION
               " - runs language models on this machine\n\nusage: loci COMMAND [flags]\n\ncommands:\n";
  for (const Command& command : kCommands) {
    std::cout << "  " << command.name << std::string(17 - command.name.size(), ' ') << command.summary << '\n';
  }
  std::cout << "  version          print the version\n  help [COMMAND]   this page, or a command's flags\n\n"
               "flags without a command: --version, --list-devices, --completion-bash, --help\n";
}

void print_devices() {
  std::cout << "Available devices:\n";
  for (const loci::DeviceInfo& device : loci::list_devices()) std::cout << "  " << describe(device) << '\n';
}

// A completion script for bash: commands first, then the flags that the command's own help lists.
void print_completion() {
  std::string names;
  for (const Command& command : kCommands) names += std::string(command.name) + " ";
  std::cout << "_loci() {\n"
               "  local current=${COMP_WORDS[COMP_CWORD]}\n"
               "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
               "    COMPREPLY=($(compgen -W '"
            << names
            << "version help --version --list-devices --completion-bash --help' -- \"$current\"))\n"
               "  elif [[ $current == -* ]]; then\n"
               "    local flags\n"
               "    flags=$(\"${COMP_WORDS[0]}\" \"${COMP_WORDS[1]}\" --help 2>/dev/null |"
               " grep -oE '^ +-[^ ]+(, -[^ ]+)*' | tr -d ',')\n"
               "    COMPREPLY=($(compgen -W \"$flags\" -- \"$current\"))\n"
               "  else\n"
               "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
               "  fi\n"
               "}\n"
               "complete -o filenames -F _loci loci\n";
}

int run(std::vector<std::string> args) {
  const std::string name = args.empty() ? "help" : args.front();
  if (name == "version" || name == "--version") {
    std::cout << "loci " LOCI_VERSION "\n";
    return 0;
  }
  if (name == "--list-devices") {
    print_devices();
    return 0;
  }
  if (name == "--completion-bash") {
    print_completion();
    return 0;
  }
  if (name == "help" || name == "--help" || name == "-h") {
    if (args.size() > 1) return run({args[1], "--help"});
    print_help();
    return 0;
  }
  for (const Command& command : kCommands) {
    if (command.name == name) return command.run({args.begin() + 1, args.end()});
  }
  loci::fail(loci::ErrorKind::kInvalidInput, "unknown command '", name, "'; 'loci help' lists the commands");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int status = run({argv + 1, argv + argc});
    // A full disk must not look like success.
    if (!std::cout.flush() || std::fflush(stdout) != 0) {
      loci::fail(loci::ErrorKind::kInternal, "stdout: ", std::strerror(errno));
    }
    return status;
  } catch (const std::bad_alloc&) {
    std::fputs("error: out of memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  return 1;
}
