#!/bin/bash
# Builds and runs everything about lists on a GPU: right or wrong, memory and races, times, torch beside it. From the repository's root.
# cuda_lists.sh [all|check|sanitize|time|torch]...; OUT is where logs go.
set -uo pipefail
out=${OUT:-build/cuda-lists}
mkdir -p "$out" build/cuda-lists
program=build/cuda-lists/bench_cuda_lists
arch=${ARCH:-sm_90}
parts=${*:-all}
wants() { [[ " $parts " == *" all "* || " $parts " == *" $1 "* ]]; }
failed=0
if [[ ! -x $program || src/graph/cuda/cuda_knn.cu -nt $program || bench/bench_cuda_lists.cu -nt $program ]]; then
  nvcc -std=c++20 -O3 -lineinfo -arch="$arch" -Isrc -Iinclude bench/bench_cuda_lists.cu src/graph/cuda/cuda_knn.cu -o $program || exit 1
fi
if wants check; then
  echo "== right or wrong"
  timeout 150 $program check 100 2>&1 | tee "$out/check.log" | tail -40 || failed=1
fi
if wants time; then
  echo "== times"
  timeout 200 $program time 2>&1 | tee "$out/time.log" || failed=1
fi
if wants torch; then
  echo "== torch"
  timeout 120 python3 bench/python/torch_lists.py 100000 64 100 1000000 64 100 2>&1 | tee "$out/torch.log" || failed=1
fi
if wants sanitize; then
  for tool in memcheck racecheck initcheck synccheck; do
    echo "== compute-sanitizer $tool"
    timeout 100 compute-sanitizer --tool $tool --print-limit 5 $program check small 2>&1 | tee "$out/$tool.log" | tail -15 || failed=1
  done
fi
exit $failed
