#!/usr/bin/env bash
# Fails if a kernel unit that was compiled for one instruction set defines a symbol the linker could choose for the
# whole program: any weak (or unique) symbol, or a global one outside the unit's own namespace loci::cpu::<isa>.
#   check_isa_objects.sh BUILD_DIR
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

build="${1:?usage: check_isa_objects.sh BUILD_DIR}"
command -v nm >/dev/null || die "nm is needed (Debian package binutils)"

failed=0
found=0
while IFS= read -r object; do
  found=$((found + 1))
  isa="$(sed -E 's|.*/loci_cpu_([a-z0-9_]+)\.dir/.*|\1|' <<<"$object")"
  # Symbol types: W V weak, u unique, T D B R C global definitions. Sanitizer runtimes and their metadata are not ours.
  bad="$(nm --demangle --defined-only "$object" |
    awk -v own="loci::cpu::${isa}::" '
      { type = $(2); name = $0; sub(/^[^ ]+ [^ ]+ /, "", name) }
      name ~ /^(__asan|__ubsan|__tsan|__odr_asan|DW\.ref\.)/ { next }
      type ~ /^[WVu]$/ { print type, name; next }
      type ~ /^[TDBRCG]$/ && index(name, own) != 1 { print type, name }')"
  if [ -n "$bad" ]; then
    say "$object: symbols outside loci::cpu::${isa}:"
    say "$bad"
    failed=1
  fi
done < <(find "$build" -path '*loci_cpu_*.dir*' -name '*.o')

[ "$found" -gt 0 ] || die "$build: no kernel objects found; build loci_kernels first"
[ "$failed" = 0 ] && say "ok: $found kernel objects define nothing outside their namespace"
exit "$failed"
