# Sourced by the other scripts: places and small helpers. Changes no state but variables.
set -euo pipefail

LOCI_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
LOCI_CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/loci"
LOCI_MODELS="${LOCI_MODELS:-$LOCI_CACHE/models}"
LOCI_VENV="$LOCI_CACHE/venv"
export LOCI_MODELS

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# Build jobs at once: the processors this process may use, no more than its memory feeds (1 GiB each).
loci_jobs() {
  local n mem
  n=$(nproc)
  mem=$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo 2>/dev/null || true)
  if [ -n "$mem" ] && [ "$mem" -lt "$n" ]; then n=$((mem > 0 ? mem : 1)); fi
  echo "$n"
}

# loci_build PRESET [TARGET...]: configures once (ninja runs cmake again when a list changes) and builds. Quiet when
# all goes well; what the tools said is shown when not. LOCI_CMAKE_ARGS adds arguments to the first configuration.
loci_build() {
  local preset="$1" dir="$LOCI_ROOT/build/$1" log
  shift
  log=$(mktemp)
  if [ ! -f "$dir/build.ninja" ]; then
    say "configuring $preset"
    # shellcheck disable=SC2086
    if ! (cd "$LOCI_ROOT" && cmake --preset "$preset" ${LOCI_CMAKE_ARGS:-}) >"$log" 2>&1; then
      cat "$log" >&2
      rm -rf "$log" "$dir/CMakeCache.txt"
      die "configuring the preset '$preset' failed"
    fi
  fi
  if ! (cd "$dir" && ninja -n "$@" 2>/dev/null | grep -q 'no work to do'); then
    say "building $preset${*:+ ($*)}"
    if [ -t 2 ]; then
      if ! (cd "$dir" && NINJA_STATUS='[%f/%t] ' ninja -j "$(loci_jobs)" "$@" >&2); then
        rm -f "$log"
        die "the build of the preset '$preset' failed"
      fi
    elif ! (cd "$dir" && ninja -j "$(loci_jobs)" "$@") >"$log" 2>&1; then
      grep -vE '^\[[0-9]+/[0-9]+\] ' "$log" >&2 || cat "$log" >&2
      rm -f "$log"
      die "the build of the preset '$preset' failed"
    fi
  fi
  rm -f "$log"
}
