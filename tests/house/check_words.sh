#!/usr/bin/env bash
# Checks the words: code quoted in docs/tour.md stands in the file that the quote names, files that documents name exist, README is short,
# and no line is over 140 characters. Usage: check_words.sh SOURCE_ROOT. Prints every offence; exits 1 if there is one.
# A quote begins with ```cpp FILE. White space does not count, and a line of "..." stands for anything left out.
set -euo pipefail
cd "$1"
export LC_ALL=C.UTF-8
offences=0

offend() {
  echo "$1"
  offences=$((offences + 1))
}

fold() { tr -s '[:space:]' ' ' | sed 's/^ //; s/ $//'; }

# Looks for a piece of a quote after all that was found before it: `rest` is what is left of the file.
check_piece() {  # PLACE FILE
  local wanted
  wanted=$(fold <<<"$piece")
  piece=
  [ -n "$wanted" ] || return 0
  case "$rest" in
    *"$wanted"*) rest=${rest#*"$wanted"} ;;
    *) offend "$1: not found in $2: $wanted" ;;
  esac
}

check_quotes() {  # DOCUMENT
  local line number=0 begin=0 file='' inside=no quotes=0
  piece='' rest=''
  while IFS= read -r line || [ -n "$line" ]; do
    number=$((number + 1))
    if [ "$inside" = no ]; then
      case "$line" in
        '```cpp '*)
          inside=quote begin=$number file=${line#'```cpp '} quotes=$((quotes + 1)) piece=''
          if [ -f "$file" ]; then rest=$(fold <"$file"); else offend "$1:$number: quotes $file, which does not exist"; inside=other; fi
          ;;
        '```cpp') offend "$1:$number: code that does not say which file it is from"; inside=other ;;
        '```'*) inside=other ;;
      esac
    elif [ "$line" = '```' ]; then
      [ "$inside" = other ] || check_piece "$1:$begin" "$file"
      inside=no
    elif [ "$inside" = quote ] && [ "$(fold <<<"$line")" = '...' ]; then
      check_piece "$1:$begin" "$file"
    elif [ "$inside" = quote ]; then
      piece+="$line"$'\n'
    fi
  done <"$1"
  [ "$quotes" -gt 0 ] || offend "$1: quotes no code"
}

folders="src|include|apps|tests|scripts|bench|examples|recipes|core|graph|mining|metrics|data|run|model|loss|train|report"
# What a document names in `backticks` and is plainly a file of ours.
check_names() {  # DOCUMENT
  local name
  while IFS= read -r name; do
    [ -e "$name" ] || [ -e "include/smartmine/$name" ] || offend "$1: names $name, which does not exist"
  done < <(grep -oE "\`($folders)/[A-Za-z0-9_/.-]+\.(h|cpp|sh|toml|cu)\`" "$1" |
           tr -d '`' | sort -u)
}

long_lines() {  # FILE
  local hit
  while IFS= read -r hit; do offend "$1:${hit%%:*}: over 140 characters"; done < <(grep -nE '.{141}' "$1" | cut -c1-20)
}

[ -f docs/tour.md ] || offend "docs/tour.md: not there"
[ ! -f docs/tour.md ] || check_quotes docs/tour.md
seen=0
while IFS= read -r file; do
  seen=$((seen + 1))
  long_lines "$file"
  case "$file" in *.md) check_names "$file" ;; esac
done < <(ls README.md CONTRIBUTING.md CHANGELOG.md docs/*.md bench/README.md recipes/*.toml 2>/dev/null)
while IFS= read -r file; do
  seen=$((seen + 1))
  long_lines "$file"
done < <(find CMakeLists.txt cmake include src apps tests bench examples fuzz scripts -type f \( -name '*.h' -o -name '*.cpp' \
           -o -name '*.cu' -o -name '*.sh' -o -name CMakeLists.txt -o -name '*.cmake' \) 2>/dev/null | sort)
[ ! -f README.md ] || [ "$(wc -l <README.md)" -le 150 ] || offend "README.md: over 150 lines"
[ "$seen" -gt 0 ] || offend "$1: neither documents nor sources"

if [ "$offences" -gt 0 ]; then
  echo "$offences offences of words"
  exit 1
fi
echo "$seen files are in order"
