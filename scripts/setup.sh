#!/usr/bin/env bash
# Installs what is missing: the Debian packages of a build and, with --test, those of the test suite and a Python
# environment beside them. Does nothing, quickly, when all is there.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

BUILD_PACKAGES=(g++ cmake ninja-build python3 python3-venv ca-certificates
  libcli11-dev libsentencepiece-dev libreadline-dev libncurses-dev nlohmann-json3-dev libxxhash-dev)
TEST_PACKAGES=(libgtest-dev libgmock-dev clang-format clang libclang-rt-14-dev binutils)
# numpy and gguf: the independent reference of the quantization tests.
PYTHON_PACKAGES=(numpy==2.2.6 gguf==0.17.1)

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

if [ "$with_tests" = 1 ]; then
  wanted="$(python3 -V) ${PYTHON_PACKAGES[*]}"
  if [ "$(cat "$LOCI_VENV/.loci-packages" 2>/dev/null)" != "$wanted" ] ||
    ! "$LOCI_VENV/bin/python3" -c 'import numpy, gguf' 2>/dev/null; then
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
