#!/usr/bin/env bash
# Set-up, build and all tests; then the Python package's, the report page's in a browser, and the quicker tests again under
# AddressSanitizer with UBSan and under ThreadSanitizer. Left out: the label slowest, for ctest --preset dev -L slowest.
#   scripts/test.sh [--quick]        --quick leaves Python, the browser and the sanitizers out
# Works on a bare Debian 12 or Ubuntu 24.04 and in a fresh clone. JOBS sets how many jobs run at once (all cores).
set -euo pipefail
cd "$(dirname "$0")/.."

quick=no
case "${1:-}" in
  "") ;;
  --quick) quick=yes ;;
  *)
    echo "usage: scripts/test.sh [--quick]" >&2
    exit 2
    ;;
esac
[ -n "${CI:-}" ] && [ "$quick" = yes ] && { echo "test: --quick is not for CI" >&2; exit 2; }

jobs=${JOBS:-$(nproc)}
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# Some tests of the program need Debian's PyTorch: torchrun, say.
if [ "$quick" = yes ]; then scripts/setup.sh; else scripts/setup.sh --python; fi

# Builds the named targets of a preset (all: everything) with the given flags and runs those of its tests that the remaining arguments
# select.
build_and_test() {
  local preset=$1 flags=$2 targets=$3 log
  shift 3
  echo "== $preset =="
  # Lines alone are enough of debug information for what a test prints, and compile faster.
  log=$(cmake --preset "$preset" -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="$flags" 2>&1) || { echo "$log"; exit 1; }
  # shellcheck disable=SC2086  # several words
  cmake --build --preset "$preset" -j "$jobs" --target $targets
  ctest --preset "$preset" -j "$jobs" --no-tests=error "$@" 2>&1 | tee "$results/$preset"
}

build_and_test dev '-O2 -g1 -DNDEBUG' all -LE slowest
if [ "$quick" = no ]; then
  echo "== python =="
  SMARTMINE_PROGRAM=build/dev/smartmine scripts/test-python.sh
  echo "== page =="
  scripts/test-page.sh
  export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1
  # The library under both, without what takes them long and is much the same code on more rows.
  build_and_test asan '-O1 -g1' 'smartmine_tests smartmine_data_tests smartmine_report_tests' -L unit \
    -E 'ProcessAt|FanngOnManyOddRows|Team.FindsThemInGroups|FanngFrom.*(ReachesItsTargets|Certifies|TakesAny|TakesLonger|MeasuresIts)'
  long='ProcessAt|FanngOn|FanngFrom|FanngBuild|FanngSearch.Finds|KMeans.Puts|Retrieval.Splits|SmartMiner.Suggests'
  long+='|Team.FindsThemInGroups|Join.Brings|NeighborIndex.GivesTheSame|OfLength.CrowdLists'
  build_and_test tsan '-O1 -g1' 'smartmine_tests smartmine_data_tests smartmine_report_tests' -L unit -E "$long"
fi

# ctest's own summaries once more, the largest last.
echo
for preset in asan tsan dev; do
  [ -f "$results/$preset" ] || continue
  echo "$preset:"
  grep -E 'tests passed|Total Test time' "$results/$preset"
done
