#!/usr/bin/env bash
# Compares two builds of the program: the same commands must give the same bits.
#   scripts/same-bits.sh [--no-train] OLD_BUILD NEW_BUILD
# Each is a build folder with the program `smartmine` in it, and OLD_BUILD has examples/make_embeddings too. Prints a line a comparison and
# exits 1 if any differs. Times and memory are left out of what is compared; so are settings, which may be written in other ways.
# SAME_BITS_FOLDER names where to work (default: a new folder under /tmp); what is there already is used again.
set -euo pipefail

usage() { echo "usage: $0 [--no-train] OLD_BUILD NEW_BUILD" >&2; exit 2; }
with_train=1
if [ "${1:-}" = --no-train ]; then with_train=0; shift; fi
[ $# -eq 2 ] || usage
old=$(realpath "$1")
new=$(realpath "$2")
for build in "$old" "$new"; do [ -x "$build/smartmine" ] || { echo "$build/smartmine: no such program" >&2; exit 2; }; done
[ -x "$old/examples/make_embeddings" ] ||
  { echo "$old/examples/make_embeddings: no such program; build the target make_embeddings" >&2; exit 2; }
work=${SAME_BITS_FOLDER:-$(mktemp -d /tmp/same-bits-XXXXXX)}
mkdir -p "$work"
cd "$work"

# Whether the second file of JSON objects, one per line, says all that the first does, times and memory aside. What it says besides is new.
says_the_same() {
  python3 - "$1" "$2" <<'END'
import json, re, sys

def agrees(old, new):
    if isinstance(old, dict):
        names = [name for name in old if not re.search("seconds|per_second|memory_bytes", name)]
        return isinstance(new, dict) and all(name in new and agrees(old[name], new[name]) for name in names)
    return old == new

def lines_of(path):
    text = open(path).read()
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]

old, new = lines_of(sys.argv[1]), lines_of(sys.argv[2])
sys.exit(0 if len(old) == len(new) and all(map(agrees, old, new)) else 1)
END
}

different=0
compared=0
# A line of the table: what was compared, and whether old/FILE and new/FILE are the same.
compare() {
  local what=$1 file=$2 verdict=same
  compared=$((compared + 1))
  if [ ! -e "old/$file" ] || [ ! -e "new/$file" ]; then
    verdict="MISSING"
  elif [[ $file == *.json || $file == *.jsonl ]]; then
    says_the_same "old/$file" "new/$file" || verdict=DIFFERENT
  else
    cmp -s "old/$file" "new/$file" || verdict=DIFFERENT
  fi
  [ $verdict = same ] || different=$((different + 1))
  printf '%-58s %-30s %s\n' "$what" "$file" "$verdict"
}

# Runs `smartmine ARGUMENTS...` of both builds, each in a folder of its own; what it prints goes to NAME.json.
both() {
  local name=$1
  shift
  for build in old new; do
    mkdir -p $build
    (cd $build && "${!build}/smartmine" "$@" --json > "$name.json" 2> "$name.err") ||
      { echo "$build: smartmine $*" >&2; cat "$build/$name.err" >&2; exit 1; }
  done
}

# knn: every index and start, sizes on both sides of where the way changes.
knn() {
  local rows=$1 dimension=$2 k=$3 what="knn, $1 x $2, k $3"
  shift 3
  local data="$work/x-$rows-$dimension" name="knn-$rows-$dimension-$k"
  [ -e "$data.1.npy" ] || "$old/examples/make_embeddings" "$rows" "$dimension" "$data" 2
  for way in "$@"; do
    local own="$name-$way" extra=()
    case $way in
      exact) extra=(--index exact) ;;
      auto) extra=() ;;
      partition) extra=(--index fanng --graph "$own.graph") ;;
      certified) extra=(--index fanng --certify) ;;
      random) extra=(--start random --graph "$own.graph") ;;
      previous) extra=(--start previous --graph "$own.graph")
        for build in old new; do cp "$build/$name-partition.graph" "$build/$own.graph"; done ;;
    esac
    local epoch=0
    [ "$way" != previous ] || epoch=1
    both "$own" knn --embeddings "$data.$epoch.npy" --neighbors "$k" --output "$own" "${extra[@]}"
    compare "$what, $way" "$own.ids.npy"
    compare "$what, $way" "$own.distances.npy"
    compare "$what, $way" "$own.json"
    if [[ $way == partition || $way == random || $way == previous ]]; then compare "$what, $way" "$own.graph"; fi
  done
}
knn 300 8 5 exact auto partition random
knn 3000 64 100 exact partition random previous
knn 6000 64 20 exact partition previous
knn 9000 20 50 partition previous
knn 6000 200 30 exact partition previous
knn 40000 32 40 auto partition previous certified

mine() {
  local name=$1
  shift
  both "$name" mine --labels "$work/x-6000-64.labels.npy" --output "$name.npy" "$@"
  compare "mine, ${name#mine-}" "$name.npy"
  compare "mine, ${name#mine-}" "$name.json"
}
mine mine-exact --embeddings "$work/x-6000-64.0.npy" --neighbors 40 --index exact
mine mine-fanng --embeddings "$work/x-6000-64.0.npy" --neighbors 40 --index fanng --kappa 2 --triplets-per-anchor 3 --hub-limit 4
mine mine-longer-lists --embeddings "$work/x-6000-64.0.npy" --neighbors 10 --longer-lists
mine mine-given-lists --embeddings "$work/x-6000-64.0.npy" --ids knn-6000-64-20-exact.ids.npy --distances knn-6000-64-20-exact.distances.npy

both eval eval --embeddings "$work/x-6000-64.0.npy" --labels "$work/x-6000-64.labels.npy" --clusters clusters.npy
compare "eval" clusters.npy
compare "eval" eval.json

# train: what a run leaves behind. NAME is resumed after its first epoch when it begins with `resumed`.
train() {
  local name=$1
  shift
  for build in old new; do
    rm -rf "${build:?}/$name"
    if [[ $name == resumed* ]]; then
      (cd $build && exec "${!build}/smartmine" train --quiet --output "$name" "$@") &
      local pid=$!
      while kill -0 $pid 2> /dev/null && ! grep -q '"epoch":1,' "$build/$name/log.jsonl" 2> /dev/null; do sleep 0.1; done
      kill -INT $pid 2> /dev/null || true
      wait $pid || true
      (cd $build && "${!build}/smartmine" train --quiet --resume --output "$name")
    else
      (cd $build && "${!build}/smartmine" train --quiet --output "$name" "$@")
    fi
  done
  compare "train, $name" "$name/log.jsonl"
  compare "train, $name" "$name/metrics.csv"
  for file in $(cd "old/$name" && find checkpoint triplets embeddings report -type f ! -name state.json | sort); do
    compare "train, $name" "$name/$file"
  done
}
if [ $with_train = 1 ]; then
  small=(--triplets-per-anchor 1 --warmup-epochs 0 --evaluate-every 2 --save-epochs 1,2 --threads 2 --device cpu)
  train adaptive "${small[@]}" --epochs 2
  train adaptive-fanng "${small[@]}" --epochs 2 --index fanng --neighbors 50
  train resumed-fanng "${small[@]}" --epochs 2 --index fanng --neighbors 50
  for system in semihard lifted npairs clustering triplet-global triplet-fanng hard-pairs smart-batch; do
    train "$system" "${small[@]}" --epochs 1 --system "$system"
  done
  for build in old new; do  # both of the same run, so that its times are the same too; of the page, the places on its map
    (cd $build && "${!build}/smartmine" report "$work/old/adaptive" --output report.html --quiet &&
      grep -oE '"[xy]":\[[-0-9.,e]*\]' report.html > report.map)
  done
  compare "report, map" report.map
fi

echo
if [ $different -gt 0 ]; then
  echo "$different of $compared comparisons differ; the files are in $work"
  exit 1
fi
echo "all $compared comparisons are the same"
[ -n "${SAME_BITS_FOLDER:-}" ] || rm -rf "$work"
