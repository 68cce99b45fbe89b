#!/usr/bin/env bash
# Set-up, build and the main job on embeddings it makes itself: the neighbours of 20,000 points, then again after the points
# have moved a little, starting from the graph of the first time.
set -euo pipefail
cd "$(dirname "$0")/.."
out=build/demo

scripts/setup.sh
log=$(cmake --preset release 2>&1) || { echo "$log"; exit 1; }
cmake --build --preset release --target smartmine make_embeddings
mkdir -p "$out"

run() {
  echo
  echo "\$ $*"
  "$@"
}
run build/release/examples/make_embeddings 20000 64 "$out/embeddings" 2
run build/release/smartmine knn --embeddings "$out/embeddings.0.npy" --neighbors 100 --graph "$out/graph" --output "$out/epoch0"
run build/release/smartmine knn --embeddings "$out/embeddings.1.npy" --neighbors 100 --graph "$out/graph" --start previous --output "$out/epoch1"
echo
echo "The lists are in $out: epoch0.ids.npy and epoch0.distances.npy, the same for epoch1. For your own .npy file:"
echo "  build/release/smartmine knn --embeddings yours.npy --neighbors 100 --output lists"
