#!/usr/bin/env bash
# Runs all fuzzers for SECONDS in all, under AddressSanitizer and UndefinedBehaviorSanitizer, from seeds that are real files, and says how
# many executions that was. What one finds stays in build/fuzz/found, and the status is 1. Needs clang: scripts/setup.sh --lint.
#   scripts/fuzz.sh SECONDS
# FUZZ_JOBS sets how many run at a time; all cores unless it is given.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: scripts/fuzz.sh SECONDS}
jobs=${FUZZ_JOBS:-$(nproc)}
folder=build/fuzz
cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER=clang++ -DSMARTMINE_BUILD_FUZZERS=ON \
  -DSMARTMINE_BUILD_TESTS=OFF -DSMARTMINE_REPORT_PAGE=OFF -DSMARTMINE_WITH_TORCH=OFF >"$folder.configure.log" 2>&1 ||
  { cat "$folder.configure.log" >&2; exit 1; }
fuzzers=(fuzz_readers fuzz_images fuzz_mat fuzz_graph fuzz_texts fuzz_run_files)
seeders=(make_seeds)
if grep -q '^Torch_DIR:.*=/' "$folder/CMakeCache.txt"; then  # readers of weights need LibTorch
  fuzzers+=(fuzz_weights)
  seeders+=(make_weight_seeds)
fi
cmake --build "$folder" --target "${seeders[@]}" "${fuzzers[@]}"
mkdir -p "$folder/found" "$folder/logs"
for seeder in "${seeders[@]}"; do ASAN_OPTIONS=detect_leaks=0 "$folder/fuzz/$seeder" "$folder/seeds"; done
each=$((seconds * jobs / ${#fuzzers[@]}))
[ "$each" -ge 1 ] || each=1

# Inputs are small: what they free need not be kept for long to be seen used again.
export ASAN_OPTIONS=quarantine_size_mb=8:malloc_context_size=6
fuzz() {  # NAME; leaves its log
  local name=$1
  mkdir -p "$folder/corpus/$name"
  # 64 MiB in one piece is more than any small file may ask for.
  "$folder/fuzz/$name" -max_total_time="$each" -malloc_limit_mb=300 -rss_limit_mb=2000 -timeout=20 -print_final_stats=1 \
    -artifact_prefix="$folder/found/$name-" "$folder/corpus/$name" "$folder/seeds/$name" >"$folder/logs/$name" 2>&1 ||
    echo "$name" >>"$folder/found/names"
}

rm -f "$folder/found/names"
for name in "${fuzzers[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
  fuzz "$name" &
done
wait
total=0
for name in "${fuzzers[@]}"; do
  count=$(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/logs/$name" | tail -1)
  printf '%-16s %12s executions\n' "$name" "${count:-0}"
  total=$((total + ${count:-0}))
done
printf '%-16s %12s executions\n' all "$total"
if [ -e "$folder/found/names" ]; then
  echo "fuzz: something was found by $(sort -u "$folder/found/names" | tr '\n' ' '); see $folder/logs and $folder/found" >&2
  exit 1
fi
