#!/usr/bin/env bash
# How well the default does on folders of pictures that nobody has tuned for: at the start, kept, last epoch and, by hand, a recipe at its
# own rate, a fifth and five times of it. One line per folder. What is finished is not trained again.
#   bench/photos.sh [--jobs J] [--default-only] [--program P] [--recipe FILE] --output DIR [option of train]... -- FOLDER...
# Options of train go to all trainings, --backbone and --weights say.
set -euo pipefail
usage() {
  sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
here=$(dirname "$0")
jobs=1 program=smartmine recipe=$here/../recipes/cub200-best.toml output="" by_hand=yes
settings=()
while [ $# -gt 0 ]; do
  case $1 in
    --jobs | --program | --recipe | --output)
      [ $# -gt 1 ] || usage
      case $1 in
        --jobs) jobs=$2 ;;
        --program) program=$2 ;;
        --recipe) recipe=$2 ;;
        --output) output=$2 ;;
      esac
      shift 2
      ;;
    --default-only) by_hand=no; shift ;;
    --) shift; break ;;
    -h | --help) usage ;;
    *) settings+=("$1"); shift ;;
  esac
done
[ -n "$output" ] && [ $# -gt 0 ] || usage
for folder in "$@"; do [ -d "$folder" ] || { echo "photos: $folder: no such folder" >&2; exit 2; }; done
command -v "$program" > /dev/null || { echo "photos: $program: no such program; --program says where it is" >&2; exit 2; }
rate=$(sed -n 's/^learning-rate *= *//p' "$recipe")
[ -n "$rate" ] || { echo "photos: $recipe: no learning-rate in it" >&2; exit 2; }
rates=()
[ "$by_hand" = no ] || mapfile -t rates < <(awk -v r="$rate" 'BEGIN { print r / 5; print r; print r * 5 }')

# train NAME ARGUMENTS...: into DIR/NAME, unless that is finished. A training that fails is told in the table and by the exit status.
train() {
  local name=$1
  shift
  [ -f "$output/$name.done" ] && return 0
  rm -rf "${output:?}/$name"
  mkdir -p "$(dirname "$output/$name")"
  local begin=$SECONDS
  if "$program" train "$@" "${settings[@]}" --output "$output/$name" > "$output/$name.out" 2>&1; then
    echo $((SECONDS - begin)) > "$output/$name.done"
  else
    echo "photos: $name failed: $(tail -n 1 "$output/$name.out")" >&2
    touch "$output/failed"
  fi
}
rm -f "$output/failed"
mkdir -p "$output"
wait_for_room() { while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done; }
for folder in "$@"; do
  set_name=$(basename "$folder")
  wait_for_room
  train "$set_name/default" --dataset folder --data-root "$folder" &
  for each in "${rates[@]}"; do
    wait_for_room
    train "$set_name/by-hand-$each" --config "$recipe" --dataset folder --data-root "$folder" --learning-rate "$each" --choose off &
  done
done
wait

# figure RUN MEASURE COLUMN: of the closing table, whose columns are at start, kept and last.
figure() {
  local text=-
  [ -f "$output/$1.done" ] &&
    text=$(awk -v measure="$2" -v column="$3" '$1 == measure { found = $(2 * column) } END { print found == "" ? "-" : found }' \
      "$output/$1.out")
  echo "$text"
}
both() { echo "$(figure "$1" recall@1 "$2") / $(figure "$1" map@r "$2")"; }
echo "recall@1 / MAP@R in per cent on classes never trained on"
echo "| folder | at the start | kept | last epoch |$(printf ' by hand, %s |' "${rates[@]}") seconds |"
echo "|---|---|---|---|$(printf -- '---|%.0s' "${rates[@]}")---|"
for folder in "$@"; do
  set_name=$(basename "$folder")
  line="| $set_name | $(both "$set_name/default" 1) | $(both "$set_name/default" 2) | $(both "$set_name/default" 3) |"
  for each in "${rates[@]}"; do line+=" $(both "$set_name/by-hand-$each" 3) |"; done
  echo "$line $(cat "$output/$set_name/default.done" 2> /dev/null || echo -) |"
done
[ ! -f "$output/failed" ]
