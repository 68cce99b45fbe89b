#!/usr/bin/env bash
# Shows that check_house.sh can fail: each made-up offence must be found, and made-up good files must pass.
set -euo pipefail
check=$(cd "$(dirname "$0")" && pwd)/check_house.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fresh() {
  rm -rf "$work/tree"
  mkdir -p "$work/tree/include/smartmine/core" "$work/tree/include/smartmine/graph" "$work/tree/src/core" "$work/tree/src/graph/kernels"
  printf '#pragma once\n#include <string>\n// exit() and printf() are fine in comments\n' >"$work/tree/include/smartmine/core/good.h"
  printf '#include "smartmine/core/good.h"\n#include <fmt/format.h>\nauto text = fmt::format("{}", 1);\n%s' \
    'int n = snprintf(nullptr, 0, "x");' \
    >"$work/tree/src/core/good.cpp"
  printf '#include <cstdint>\n#include <immintrin.h>\n' >"$work/tree/src/graph/kernels/good_avx2.cpp"
}

must_pass() {
  if ! "$check" "$work/tree" >"$work/output" 2>&1; then
    echo "good files are refused:"
    cat "$work/output"
    failures=$((failures + 1))
  fi
}

must_fail() {  # FILE CONTENT: the offence must be found in that very file
  fresh
  mkdir -p "$(dirname "$work/tree/$1")"
  printf '%b\n' "$2" >"$work/tree/$1"
  if "$check" "$work/tree" >"$work/output" 2>&1; then
    echo "not found: $1: $2"
    failures=$((failures + 1))
  elif ! grep -qF "$1" "$work/output"; then
    echo "found, but not named: $1: $2"
    failures=$((failures + 1))
  fi
}

fresh
mkdir -p "$work/tree/src/loss" "$work/tree/src/train"
printf '#include <torch/types.h>\n#include "loss/distances.h"\n#include "smartmine/model/embed.h"\n' >"$work/tree/src/loss/good.cpp"
printf '#include "smartmine/mining/triplet.h"\n#include "smartmine/loss/triplet_loss.h"\n' >"$work/tree/src/train/good.cpp"
must_pass
must_fail src/core/bad.cpp '#include "smartmine/graph/fanng.h"'
must_fail src/core/bad.cpp '#include "graph/kernels/kernels.h"'
must_fail include/smartmine/core/bad.h '  #  include <smartmine/mining/triplet.h>'
must_fail include/smartmine/graph/bad.h '#include "smartmine/mining/triplet.h"'
must_fail include/smartmine/graph/bad.h '#include <fmt/format.h>'
must_fail include/smartmine/graph/bad.h '#include "core/private.h"'
must_fail src/metrics/bad.cpp '#include "smartmine/mining/labels.h"'
must_fail src/graph/bad.cpp '#include "smartmine/metrics/retrieval.h"'
must_fail src/core/bad.cpp '#include <torch/types.h>'
must_fail src/core/bad.cpp '#include "smartmine/data/image.h"'
must_fail src/data/bad.cpp '#include "smartmine/mining/labels.h"'
must_fail src/data/bad.cpp '#include <torch/types.h>'
must_fail include/smartmine/data/bad.h '#include "data/codecs.h"'
must_fail include/smartmine/data/bad.h '#include <png.h>'
must_fail src/model/bad.cpp '#include "smartmine/loss/triplet_loss.h"'
must_fail src/loss/bad.cpp '#include "smartmine/train/augment.h"'
must_fail src/loss/bad.cpp '#include "smartmine/mining/triplet.h"'
must_fail src/mining/bad.cpp '#include "smartmine/model/embed.h"'
must_fail include/smartmine/loss/bad.h '#include "loss/distances.h"'
must_fail src/newcomer/bad.cpp '#include "smartmine/core/good.h"'
must_fail src/graph/kernels/bad_avx2.cpp '#include <algorithm>'
must_fail src/graph/kernels/bad_avx2.cpp '#include "smartmine/core/good.h"'
must_fail src/core/bad.cpp '#include <iostream>'
must_fail src/core/bad.cpp 'void f() { std::cerr << 1; }'
must_fail src/core/bad.cpp 'void f() { printf("x"); }'
must_fail src/core/bad.cpp 'void f() { std::fprintf(stderr, "x"); }'
must_fail src/core/bad.cpp 'void f() { puts("x"); }'
must_fail src/core/bad.cpp 'void f() { fmt::print("x"); }'
must_fail src/core/bad.cpp 'void f() { std::abort(); }'
must_fail src/core/bad.cpp 'void f() { exit(1); }'
must_fail src/core/bad.cpp 'void f() { assert(true); }'
rm -rf "$work/tree" && mkdir "$work/tree"
if "$check" "$work/tree" >/dev/null 2>&1; then
  echo "an empty tree passes"
  failures=$((failures + 1))
fi

[ "$failures" -eq 0 ] || exit 1
echo "the check finds every made-up offence"
