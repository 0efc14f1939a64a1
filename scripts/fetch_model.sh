#!/usr/bin/env bash
# Fetches models by alias: scripts/fetch_model.sh (ALIAS... | default | all) [--verify] [--list].
# They go to $LOCI_MODELS, by default ~/.cache/loci/models. The work is done by fetch_model.py.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# pip may be missing from the system's Python: then it comes with a virtual environment.
python=python3
if [ -x "$LOCI_VENV/bin/python3" ] && "$LOCI_VENV/bin/python3" -c '' 2>/dev/null; then
  python="$LOCI_VENV/bin/python3"
elif ! python3 -c 'import pip' 2>/dev/null; then
  mkdir -p "$LOCI_CACHE"
  python3 -m venv --clear "$LOCI_VENV" || die "could not make a Python environment (Debian package python3-venv)"
  python="$LOCI_VENV/bin/python3"
fi
exec "$python" "$LOCI_ROOT/scripts/fetch_model.py" "$@"
