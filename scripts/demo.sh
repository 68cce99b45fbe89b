#!/usr/bin/env bash
# Set-up, build and the main job: trains a small network on characters that it draws itself, by smart mining, and prints how well it tells
# characters apart that it has never seen.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
log=$(cmake --preset release 2>&1) || { echo "$log"; exit 1; }
cmake --build --preset release --target smartmine

mkdir -p build/demo
cd build/demo
echo
echo "\$ smartmine train"
../release/smartmine train
echo
echo "The run is in build/demo/runs. For your own images, a folder a class:"
echo "  build/release/smartmine train --dataset folder --data-root photos --output run"
