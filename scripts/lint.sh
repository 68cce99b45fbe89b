#!/usr/bin/env bash
# clang-format and clang-tidy over the code that is free of torch. Needs scripts/setup.sh --lint. Not part of the tests: it is slow.
#   scripts/lint.sh [FILE.cpp...]        all sources when none is named
set -euo pipefail
cd "$(dirname "$0")/.."
sources=("$@")
if [ "${#sources[@]}" -eq 0 ]; then
  # clang cannot compile LibTorch 1.13 as C++20.
  mapfile -t sources < <(find apps examples src -name '*.cpp' -not -path 'src/graph/kernels/level*' |
    grep -vE '^src/(model|loss|train)/|^apps/smartmine/(train|train_settings|embed|with_torch)\.cpp$' | sort)
fi
status=0
find apps examples include src tests bench fuzz \( -name '*.cpp' -o -name '*.h' \) -print0 2>/dev/null |
  xargs -0 clang-format --dry-run --Werror || status=1
# clang-tidy trips over ccache.
log=$(cmake -S . -B build/lint -G Ninja -DSMARTMINE_CCACHE=OFF -DSMARTMINE_WITH_TORCH=OFF 2>&1) || { echo "$log"; exit 1; }
printf '%s\n' "${sources[@]}" | xargs -P "${JOBS:-$(nproc)}" -n 1 clang-tidy -p build/lint --quiet --warnings-as-errors='*' || status=1
exit "$status"
