#!/usr/bin/env bash
# Installs what is missing: the Debian packages of a build and, with --test, those of the test suite and a Python
# environment beside them. Does nothing, quickly, when all is there.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

BUILD_PACKAGES=(g++ cmake ninja-build python3 python3-venv ca-certificates
  libcli11-dev libsentencepiece-dev libreadline-dev libncurses-dev nlohmann-json3-dev libxxhash-dev
  libcpp-httplib-dev libssl-dev)
TEST_PACKAGES=(libgtest-dev libgmock-dev clang-format clang libclang-rt-14-dev binutils openssl)
# numpy and gguf: the independent reference of the quantization tests; jsonschema: of structured output;
# openai: a client of the server.
PYTHON_PACKAGES=(numpy==2.2.6 gguf==0.17.1 jsonschema==4.25.1 openai==3.57.0)
# A Python package whose C++ sources we build: engine/constraint/xgrammar.cmake has the same version.
XGRAMMAR_VERSION=0.2.9
XGRAMMAR_SHA256=87b466bca2475e29bb0323abc62c6c33cbcbcff47e5fb800a3e2099ac9620b90

usage() {
  echo "usage: scripts/setup.sh [--test] [--print]
  --test    also what ./scripts/test needs
  --print   name the packages and exit"
}

with_tests=0
for arg in "$@"; do
  case "$arg" in
    --test) with_tests=1 ;;
    --print)
      echo "build: ${BUILD_PACKAGES[*]}"
      echo "test: ${TEST_PACKAGES[*]}"
      echo "python: ${PYTHON_PACKAGES[*]}"
      echo "sources: xgrammar==$XGRAMMAR_VERSION"
      exit 0 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die "unknown argument '$arg'" ;;
  esac
done

packages=("${BUILD_PACKAGES[@]}")
if [ "$with_tests" = 1 ]; then packages+=("${TEST_PACKAGES[@]}"); fi

missing_packages() {
  local installed name
  installed=" $(dpkg-query -W -f '${Package}=${db:Status-Status} ' "${packages[@]}" 2>/dev/null || true) "
  for name in "${packages[@]}"; do
    [[ "$installed" == *" $name=installed "* ]] || echo "$name"
  done
}

if command -v dpkg-query >/dev/null; then
  mapfile -t missing < <(missing_packages)
  if [ "${#missing[@]}" -gt 0 ]; then
    as_root=()
    if [ "$(id -u)" != 0 ]; then
      command -v sudo >/dev/null || die "missing Debian packages, and no sudo to install them; run as root:
  apt-get update && apt-get install --no-install-recommends ${missing[*]}"
      as_root=(sudo)
    fi
    say "installing Debian packages: ${missing[*]}"
    log=$(mktemp)
    install_missing() {
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
    }
    # The lists at hand may be absent or too old: refresh them and try once more.
    if ! { "${as_root[@]}" apt-get update -q && install_missing; } >"$log" 2>&1; then
      tail -n 15 "$log" >&2
      rm -f "$log"
      die "apt-get could not install: ${missing[*]}"
    fi
    rm -f "$log"
  fi
else
  for tool in g++ cmake ninja python3; do
    command -v "$tool" >/dev/null ||
      die "not a Debian system and '$tool' is missing; needed (Debian names): ${packages[*]}"
  done
fi

# xgrammar: its source package, checked, and of it what is built. Without it (no network) the program is built all the
# same and refuses structured output; on the CI machine it is due.
xgrammar_dir="$LOCI_CACHE/sources/xgrammar-$XGRAMMAR_VERSION"
fetch_xgrammar() {
  local work="$1" archive="$1/xgrammar-$XGRAMMAR_VERSION.tar.gz" name="xgrammar-$XGRAMMAR_VERSION"
  python3 -m venv "$work/venv" || return 1
  "$work/venv/bin/python3" -m pip download -q --disable-pip-version-check --no-deps --no-binary xgrammar -d "$work" \
    "xgrammar==$XGRAMMAR_VERSION" || return 1
  echo "$XGRAMMAR_SHA256  $archive" | sha256sum --check --quiet || return 1
  tar -xzf "$archive" -C "$work" "$name"/{cpp,include,LICENSE,NOTICE} \
    "$name"/3rdparty/{picojson,dlpack/include} || return 1
  mkdir -p "$LOCI_CACHE/sources"
  rm -rf "$xgrammar_dir"
  mv "$work/$name" "$xgrammar_dir"
}
if [ ! -f "$xgrammar_dir/LICENSE" ] || [ ! -d "$xgrammar_dir/cpp" ]; then
  say "fetching the sources of xgrammar $XGRAMMAR_VERSION"
  work=$(mktemp -d)
  if ! fetch_xgrammar "$work" >"$work/log" 2>&1; then
    tail -n 5 "$work/log" >&2
    rm -rf "$work"
    if [ "${CI:-}" = true ]; then die "could not fetch the sources of xgrammar $XGRAMMAR_VERSION"; fi
    say "could not fetch the sources of xgrammar: structured output (JSON schemas, grammars) will not be built in"
  fi
  rm -rf "$work"
fi

if [ "$with_tests" = 1 ]; then
  wanted="$(python3 -V) ${PYTHON_PACKAGES[*]}"
  if [ "$(cat "$LOCI_VENV/.loci-packages" 2>/dev/null)" != "$wanted" ] ||
    ! "$LOCI_VENV/bin/python3" -c 'import numpy, gguf, jsonschema, openai' 2>/dev/null; then
    say "installing Python packages: ${PYTHON_PACKAGES[*]}"
    log=$(mktemp)
    mkdir -p "$LOCI_CACHE"
    install_python_packages() {
      python3 -m venv --clear "$LOCI_VENV" &&
        "$LOCI_VENV/bin/python3" -m pip install -q --disable-pip-version-check "${PYTHON_PACKAGES[@]}"
    }
    if ! install_python_packages >"$log" 2>&1; then
      tail -n 15 "$log" >&2
      rm -f "$log"
      die "could not install Python packages: ${PYTHON_PACKAGES[*]}"
    fi
    rm -f "$log"
    echo "$wanted" >"$LOCI_VENV/.loci-packages"
  fi
fi
