#!/usr/bin/env bash
# Proves the two commands on a fresh machine: makes a minimal Debian bookworm root with debootstrap, clones this
# repository into it, and runs ./scripts/run and ./scripts/test there. Needs root, debootstrap and git.
#   scripts/minimal_root_test.sh [--base DIR] [--shared] [--only run|test] [--keep] [DIR]
#   DIR       where the root is made (default: a temporary folder, removed at the end)
#   --base    a root that debootstrap has made before: it is copied instead of being made anew
#   --shared  also give it the reference data beside this repository (read-only)
#   --only    one of the two commands
#   --keep    leave the root there
# Package sources (apt, pip), name resolution and certificates are this machine's. What is not committed is not tested.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

if [ "$(id -u)" != 0 ]; then die "run it as root: it makes a file system root and mounts in it"; fi
# Mounts live in a namespace of their own: they go when the script ends, however it ends.
if [ -z "${LOCI_IN_NAMESPACE:-}" ]; then
  LOCI_IN_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"
fi

base="" root="" only="" keep=0 shared=0
while [ $# -gt 0 ]; do
  case "$1" in
    --base) base="${2:?--base needs a folder}"; shift ;;
    --only) only="${2:?--only needs run or test}"; shift ;;
    --keep) keep=1 ;;
    --shared) shared=1 ;;
    -h | --help) sed -n '2,10s/^# \?//p' "$0"; exit 0 ;;
    -*) die "unknown argument '$1'" ;;
    *) root="$1" ;;
  esac
  shift
done
if [ -z "$root" ]; then root=$(mktemp -d /var/tmp/loci-root.XXXXXX); fi
mkdir -p "$root"
finish() { if [ "$keep" = 1 ]; then say "left there: $root"; else rm -rf --one-file-system "$root"; fi; }
trap finish EXIT

# The files of this machine's apt sources that hold the release, and the first mirror among them.
apt_files=()
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
  if [ -f "$file" ] && grep -qE '^(Suites:|deb ).*bookworm( |$|-)' "$file"; then apt_files+=("$file"); fi
done
[ "${#apt_files[@]}" -gt 0 ] || die "this machine's apt sources name no bookworm mirror"
mirror=$(awk '
  /^deb / { for (i = 2; i <= NF; i++) if ($i ~ /^https?:/ && $(i + 1) == "bookworm") { print $i; exit } }
  /^URIs:/ { uri = $2 }
  /^Suites:/ { for (i = 2; i <= NF; i++) if ($i == "bookworm") { print uri; exit } }' "${apt_files[@]}")
[ -n "$mirror" ] || die "no mirror found in: ${apt_files[*]}"

start=$SECONDS
if [ -n "$base" ]; then
  say "== copying $base"
  cp -a "$base/." "$root/"
else
  say "== debootstrap"
  log=$(mktemp)
  if ! debootstrap --variant=minbase bookworm "$root" "$mirror" >"$log" 2>&1; then
    tail "$log" >&2
    rm -f "$log"
    die "debootstrap failed"
  fi
  rm -f "$log"
fi

rm -f "$root"/etc/apt/sources.list
cp "${apt_files[@]}" "$root/etc/apt/sources.list.d/"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
environment=(HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}"
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
for file in /etc/pip.conf "$HOME/.config/pip/pip.conf" "$HOME/.pip/pip.conf"; do
  if [ -f "$file" ]; then cat "$file" >>"$root/etc/pip.conf"; fi
done
for name in PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_DEFAULT_TIMEOUT http_proxy https_proxy no_proxy CI
do
  if [ -n "${!name:-}" ]; then environment+=("$name=${!name}"); fi
done
certificates="${PIP_CERT:-${SSL_CERT_FILE:-}}"
if [ -n "$certificates" ]; then
  cp -L "$certificates" "$root/etc/host-certificates.crt"
  environment+=(PIP_CERT=/etc/host-certificates.crt)
fi

git clone -q --no-hardlinks "$LOCI_ROOT" "$root/src/loci"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sys "$root/sys"
mount --rbind /dev "$root/dev"
if [ "$shared" = 1 ]; then
  mkdir -p "$root/src/shared"
  mount --bind -o ro "$LOCI_ROOT/../shared" "$root/src/shared"
fi
say "root ready after $((SECONDS - start)) s: $(chroot "$root" dpkg-query -f '.\n' -W | wc -l) packages"

# inside WHAT COMMAND: runs it in the clone, says how long it took.
inside() {
  local began=$SECONDS rc=0
  say "== $1"
  env -i "${environment[@]}" chroot "$root" bash -c "cd /src/loci && $2" </dev/null || rc=$?
  say "== $1: exit code $rc after $((SECONDS - began)) s"
  return "$rc"
}

rc=0
if [ "$only" != test ]; then
  inside "scripts/run" './scripts/run "What is the capital of France?"' || rc=1
  inside "scripts/run, again" './scripts/run "What is the capital of France?"' || rc=1
fi
if [ "$only" != run ]; then inside "scripts/test" ./scripts/test || rc=1; fi
exit "$rc"
