#!/usr/bin/env bash
# Builds the Python package into an environment of its own and runs its tests against it.
#   scripts/test-python.sh [--all] [ARGUMENT OF PYTEST...]        --all runs the slow ones too
# SMARTMINE_PYTHON=/path/to/python takes that interpreter instead, with whatever peers it has (a newer PyTorch, say); tests of peers that
# are not there are skipped and named. SMARTMINE_PROGRAM names the program to compare with; that of build/dev or build/release unless given.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

slow=(-m "not slow")
if [ "${1:-}" = --all ]; then
  slow=()
  shift
fi
python=${SMARTMINE_PYTHON:-}
if [ -z "$python" ]; then
  scripts/setup.sh --python
  python=$root/build/python/bin/python
fi
if [ -n "${SMARTMINE_PROGRAM:-}" ]; then
  SMARTMINE_PROGRAM=$(realpath "$SMARTMINE_PROGRAM")
  export SMARTMINE_PROGRAM
fi
echo "test-python: building the package"
log=$("$python" -m pip install -v --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall \
  --config-settings=cmake.define.SMARTMINE_WERROR=ON . 2>&1) || { echo "$log" | tail -60; exit 1; }
cd "$(mktemp -d)"  # so that the installed package is tested, not the sources
"$python" -m pytest -q -p no:cacheprovider "${slow[@]}" "$root/tests/python" "$@"
