#!/usr/bin/env bash
# All checks that need no build: layers, text, format, shell syntax. --tidy adds clang-tidy over the compile commands
# of build/ci (minutes).
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$LOCI_ROOT"

failed=0
run() {
  local what="$1"
  shift
  if "$@"; then say "ok: $what"; else say "failed: $what"; failed=1; fi
}

run "layers" python3 scripts/check_layers.py
run "text" python3 scripts/check_text.py
run "format" scripts/format.sh --check
for script in scripts/*.sh scripts/run scripts/test .ci/run; do
  bash -n "$script" || { say "failed: shell syntax of $script"; failed=1; }
done
if [ "${1:-}" = --tidy ]; then
  command -v clang-tidy >/dev/null || die "clang-tidy is needed (Debian package clang-tidy)"
  [ -f build/ci/compile_commands.json ] || die "build/ci/compile_commands.json is missing: run ./scripts/test first"
  tidy() {
    find main server engine gguf kernels -name '*.cc' ! -name isa_kernels.cc -print0 |
      xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p build/ci 2>/dev/null
  }
  run "clang-tidy" tidy
fi
exit "$failed"
