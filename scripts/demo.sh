#!/usr/bin/env bash
# Set-up, build and the main job: trains a small network on characters that it draws itself, from batches of those that are easily confused,
# and prints how well it tells characters apart that it has never seen. Ends with a page that shows how.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
log=$(cmake --preset release 2>&1) || { echo "$log"; exit 1; }
cmake --build --preset release --target smartmine

mkdir -p build/demo
cd build/demo
echo
number=1
while [ -e "runs/glyphs-$number" ]; do number=$((number + 1)); done
run=runs/glyphs-$number
echo "\$ smartmine train --config recipes/glyphs-best.toml --output $run"
../release/smartmine train --config ../../recipes/glyphs-best.toml --output "$run"
echo
echo "\$ smartmine report $run --output report.html"
../release/smartmine report "$run" --output report.html || echo "(the run is good all the same)"
echo
echo "The run is in build/demo/$run, the page is build/demo/report.html. For your own images, one folder per class:"
echo "  scripts/get-data.sh googlenet"
echo "  build/release/smartmine train --dataset folder --data-root photos --backbone googlenet" \
  "--weights weights/bvlc_googlenet.caffemodel --output run"
