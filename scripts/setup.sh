#!/usr/bin/env bash
# Installs the system packages smartmine needs, on Debian 12 or Ubuntu 24.04 (newer ones too). Does nothing when all are there.
#   scripts/setup.sh [--bench] [--lint] [--page] [--python]
# --bench adds the libraries the benchmark compares with, --lint adds clang, clang-tidy and clang-format, --page the browser that the report
# page is tested in, --python what the Python package is built and tested with: Debian's PyTorch, and from the Python package index, into a
# virtual environment in build/python, what tests/python/requirements*.txt name.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build ccache libfmt-dev libcli11-dev nlohmann-json3-dev libgtest-dev libgmock-dev
  libjpeg-dev libpng-dev zlib1g-dev libtorch-dev libgloo-dev libopenblas0-openmp)  # LibTorch is slow with the reference BLAS
# The report page is built by npm, from Debian or from elsewhere.
command -v node >/dev/null && command -v npm >/dev/null || packages+=(nodejs npm)
python=no
for option in "$@"; do
  case "$option" in
    --bench) packages+=(libhnswlib-dev libfaiss-dev libopenblas-dev libopenblas0-openmp) ;;
    --lint) packages+=(clang libclang-rt-dev clang-tidy clang-format) ;;
    --page) packages+=(chromium) ;;
    --python)
      packages+=(python3 python3-dev python3-venv python3-torch)
      python=yes
      ;;
    *)
      echo "usage: scripts/setup.sh [--bench] [--lint] [--page] [--python]" >&2
      exit 2
      ;;
  esac
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  {
    echo "setup: this system has no apt. smartmine needs: a C++20 compiler (g++ 12 or newer), CMake 3.25 or newer, Ninja, fmt, CLI11,"
    echo "setup: nlohmann-json, GoogleTest with GoogleMock, libjpeg-turbo, libpng, zlib, LibTorch (or -DSMARTMINE_WITH_TORCH=OFF)"
    echo "setup: and Node.js with npm (or no report page); ccache if you like. On Debian these are: ${packages[*]}"
  } >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [ "$state" = "install ok installed" ] || missing+=("$package")
done
install_missing() {
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "setup: these packages are missing, and installing them takes root or sudo: ${missing[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  echo "setup: installing ${missing[*]}"
  # A bare machine has no package lists, an old one stale ones: fetch them, and try without if that fails (an own mirror, say).
  "${as_root[@]}" apt-get update -q || echo "setup: apt-get update failed; going on with the lists at hand" >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

# A virtual environment that sees Debian's PyTorch. What depends on torch is installed without its dependencies, for pip would fetch another
# PyTorch and gigabytes of CUDA with it. Anew only when the lists have changed.
make_environment() {
  local environment=build/python wanted
  wanted=$(cat tests/python/requirements.txt tests/python/requirements-torch.txt | cksum)
  [ "$(cat "$environment/installed" 2>/dev/null)" = "$wanted" ] && return
  echo "setup: a Python environment in $environment"
  rm -rf "$environment"
  mkdir -p build
  /usr/bin/python3 -m venv --system-site-packages "$environment"
  "$environment/bin/python" -m pip install -q --disable-pip-version-check -r tests/python/requirements.txt
  "$environment/bin/python" -m pip install -q --disable-pip-version-check --no-deps -r tests/python/requirements-torch.txt
  if ! "$environment/bin/python" -c 'import torch.distributed._shard.sharded_tensor' 2>/dev/null; then
    local packages_of
    packages_of=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    cp tests/python/no_sharded_tensors.py "$packages_of"
    echo "import no_sharded_tensors" >"$packages_of/no_sharded_tensors.pth"
  fi
  echo "$wanted" >"$environment/installed"
}

if [ "${#missing[@]}" -eq 0 ]; then echo "setup: all packages are there"; else install_missing; fi
if [ "$python" = yes ]; then make_environment; fi
