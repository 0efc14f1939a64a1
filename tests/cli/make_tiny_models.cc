// Writes the tiny models that the command line tests use into a directory: tiny.gguf (with a chat template) and
// tiny_raw.gguf (without). Random weights: answers are random bytes, which is what output handling must stand.
#include <cstdio>
#include <exception>
#include <string>

#include "tests/support/tiny_model.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_tiny_models DIRECTORY\n");
    return 1;
  }
  const std::string directory = argv[1];
  try {
    loci::test::TinyModel model;
    loci::test::write_tiny_model(model, directory + "/tiny.gguf");
    model.keys = [](loci::gguf::Writer& writer) { writer.set_string("tokenizer.chat_template", ""); };
    loci::test::write_tiny_model(model, directory + "/tiny_raw.gguf");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
