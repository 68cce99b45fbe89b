#!/usr/bin/env bash
# Checks the ways of the house that a compiler does not: which folder may include which, and that the library neither
# prints nor ends the process. Usage: check_house.sh SOURCE_ROOT. Prints every offence; exits 1 if there is one.
set -euo pipefail
cd "$1"
offences=0

offend() {
  echo "$1"
  offences=$((offences + 1))
}

# The arrows: a folder may include these. A new folder has to be added here, with its arrows.
allowed_for() {
  case "$1" in
    core) echo "core" ;;
    graph) echo "core graph" ;;
    mining) echo "core graph mining" ;;
    metrics) echo "core graph metrics" ;;
    data) echo "core data" ;;
    run) echo "core graph mining data run" ;;
    report) echo "core graph data run report" ;;
    model) echo "core data run model" ;;
    loss) echo "core data run model loss" ;;
    train) echo "core graph mining metrics data run model loss train" ;;
    *) echo "" ;;
  esac
}

check_arrows() {  # FILE FOLDER
  local file=$1 folder=$2 allowed line name target
  allowed=$(allowed_for "$folder")
  [ -n "$allowed" ] || { offend "$file: folder '$folder' has no arrows in tests/house/check_house.sh"; return; }
  while IFS=: read -r line name; do
    target=${name#smartmine/}
    case "$target" in
      */*) target=${target%%/*} ;;
      *) target=$folder ;;  # a header beside the file
    esac
    case " $allowed " in
      *" $target "*) ;;
      *) offend "$file:$line: $folder must not include $name; it may include: $allowed" ;;
    esac
  done < <(sed -nE 's|^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]((smartmine/)?[a-z_]+/[^>"]+)[>"].*|\1|; T; =; p' "$file" |
           paste -d: - - |
           grep -E ':(smartmine/|(core|graph|mining|metrics|data|run|model|loss|train|report)/)' || true)
}

forbid_includes() {  # FILE PATTERN WHY
  local hit
  while IFS= read -r hit; do
    [ -z "$hit" ] || offend "$1:${hit%%:*}: $3: ${hit#*:}"
  done < <(grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]($2)" "$1" || true)
}

# Words that print or end the process.
loud='\bstd::(cout|cerr|clog|wcout|wcerr)\b|\b(fmt|std)::print(ln)?\b|\b(v|f|vf|w)?printf[[:space:]]*\('
loud+='|\bf?put(s|c|char)[[:space:]]*\(|\b(stdout|stderr)\b|\bperror[[:space:]]*\('
loud+='|\b(abort|exit|_exit|_Exit|quick_exit|terminate)[[:space:]]*\(|\bassert[[:space:]]*\('
loud+='|#[[:space:]]*include[[:space:]]*<(iostream|cassert|assert\.h)>'
# Comments are taken out first, for they may speak of such things, and calls of an object's own function: that ends no process.
check_quiet() {
  local hit
  while IFS= read -r hit; do
    [ -z "$hit" ] || offend "$1:${hit%%:*}: the library never prints, aborts or exits: ${hit#*:}"
  done < <(sed -E 's|//.*$||; s/->(abort|exit|terminate)[[:space:]]*\(/->own(/g' "$1" |
           grep -nE "$loud" || true)
}

# Compiled once per instruction set: an inline function from a header would be compiled so too, and the linker might
# keep that copy for everyone, so that the program dies on a machine without the instructions.
check_kernel() {
  local line name
  while IFS=: read -r line name; do
    case "$name" in
      '<cstddef>' | '<cstdint>' | '<stddef.h>' | '<stdint.h>' | '<immintrin.h>' | '<arm_neon.h>') ;;
      '"graph/kernels/'*'"') ;;
      '"'*/*'"' | '<'*) offend "$1:$line: files compiled per instruction set include no code from elsewhere: $name" ;;
      *) ;;  # a file beside it, looked at by itself
    esac
  done < <(sed -nE 's|^[[:space:]]*#[[:space:]]*include[[:space:]]*([<"][^>"]+[>"]).*|\1|; T; =; p' "$1" | paste -d: - -)
}

seen=0
while IFS= read -r file; do
  seen=$((seen + 1))
  folder=${file#include/smartmine/}
  folder=${folder#src/}
  check_arrows "$file" "${folder%%/*}"
  check_quiet "$file"
  case "${folder%%/*}" in
    model | loss | train) ;;
    *) forbid_includes "$file" '(torch|ATen|c10|caffe2)/' 'only model, loss and train see torch' ;;
  esac
  case "$file" in
    include/*)
      forbid_includes "$file" 'fmt/' 'public headers are free of fmt'
      forbid_includes "$file" '(jpeglib|png|zlib)\.h' 'public headers are free of the image libraries'
      forbid_includes "$file" '(core|graph|mining|metrics|data|run|report|model|loss|train)/' \
        'public headers include public headers only, as smartmine/...'
      ;;
    src/graph/kernels/dispatch.*) ;;
    src/graph/kernels/*) check_kernel "$file" ;;
  esac
done < <(find include/smartmine src -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.inc' \) 2>/dev/null | sort)
[ "$seen" -gt 0 ] || offend "$1: no sources found under include/smartmine and src"

if [ "$offences" -gt 0 ]; then
  echo "$offences offences against the ways of the house"
  exit 1
fi
echo "$seen files keep to the ways of the house"
