#!/usr/bin/env bash
# Shows that check_words.sh and check_parameters.sh can fail: each made-up offence must be found, and what is in order must pass.
set -euo pipefail
house=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

expect() {  # pass|fail NAME COMMAND...
  local wanted=$1 name=$2 got=pass
  shift 2
  "$@" >"$work/output" 2>&1 || got=fail
  [ "$got" = "$wanted" ] && return
  echo "$name: expected to $wanted"
  cat "$work/output"
  failures=$((failures + 1))
}

fresh() {
  rm -rf "$work/tree"
  mkdir -p "$work/tree/docs" "$work/tree/src/train" "$work/tree/recipes"
  printf '# Short\n' >"$work/tree/README.md"
  printf 'int first() { return 1; }\n\nint second(int a,\n           int b) {\n  return a + b;\n}\n' >"$work/tree/src/train/epoch.cpp"
  tour 'int first() { return 1; }\n...\nint second(int a, int b) {\n  return a + b;'
}
tour() { printf '# Tour\n\n`src/train/epoch.cpp`:\n\n```cpp src/train/epoch.cpp\n%b\n```\n' "$1" >"$work/tree/docs/tour.md"; }
words() { expect "$1" "$2" "$house/check_words.sh" "$work/tree"; }

fresh; words pass 'quotes in order, wrapped otherwise, with something left out'
fresh; tour 'int first() { return 2; }'; words fail 'code that is not in its file'
fresh; tour 'int second(int a, int b) {\n...\nint first() { return 1; }'; words fail 'a quote in the wrong order'
fresh; sed -i 's/return 1/return 3/' "$work/tree/src/train/epoch.cpp"; words fail 'a file that has changed since'
fresh; sed -i 's|```cpp .*|```cpp src/train/gone.cpp|' "$work/tree/docs/tour.md"; words fail 'a quote from a file that is gone'
fresh; sed -i 's|```cpp .*|```cpp|' "$work/tree/docs/tour.md"; words fail 'code without a file'
fresh; printf '# Tour\n' >"$work/tree/docs/tour.md"; words fail 'a tour without code'
fresh; rm "$work/tree/docs/tour.md"; words fail 'no tour'
fresh; echo '`train/gone.h` is a header' >>"$work/tree/README.md"; words fail 'a file that is named and not there'
fresh; printf '%0140d\n' 1 >>"$work/tree/README.md"; words pass 'a line of 140'
fresh; printf '%0141d\n' 1 >>"$work/tree/README.md"; words fail 'a line of 141'
fresh; printf '# %0141d\n' 1 >"$work/tree/recipes/a.toml"; words fail 'a long line in a recipe'
fresh; printf '// %0141d\n' 1 >"$work/tree/src/train/a.cpp"; words fail 'a long line in a source'
fresh; seq 150 >"$work/tree/README.md"; words pass 'a README of 150 lines'
fresh; seq 151 >"$work/tree/README.md"; words fail 'a README of 151 lines'
rm -rf "$work/tree"; mkdir "$work/tree"; words fail 'an empty tree'

# A program with two subcommands, and its page.
cat >"$work/program" <<'PROGRAM'
#!/bin/sh
case "$1" in
  --help)
    printf 'Usage: x\n\nSubcommands:\n  knn                         Lists\n  mine                        Triplets\n\nExamples:\n  x --no\n'
    ;;
  knn)
    printf 'Lists\n\nOptions:\n  -h,--help      Help\n  --output FILE REQUIRED  Where\n'
    printf '  --max-aspect X=1.3333333333333333\n      Most\n  --json  As JSON\n'
    ;;
  mine) printf 'Triplets\n\nOptions:\n  --kappa X=4   How hard\n  --paper SET:{a,b}\n      Figures\n  --json        As JSON\n' ;;
esac
PROGRAM
chmod +x "$work/program"
page() {
  cat >"$work/page.md" <<'PAGE'
## Options of `knn` and `mine`
| option | default | allowed | what it does |
|---|---|---|---|
| `--json` | off | | JSON |
## Options of `knn`
| `--output` | - | a file | Where |
| `--max-aspect` | 1.333 | | Most |
## Options of `mine`
| `--kappa` | 4 | above 0 | How hard |
| `--paper` | - | a, b | Figures |
## Options of `train`
| `--epochs` | 8 | | a subcommand that this program was built without |
PAGE
}
parameters() { expect "$1" "$2" "$house/check_parameters.sh" "$work/program" "$work/page.md"; }
page; parameters pass 'a page in order'
page; sed -i '/--kappa/d' "$work/page.md"; parameters fail 'an option that is not told of'
page; sed -i 's/`--kappa`/`--kapa`/' "$work/page.md"; parameters fail 'a misspelt option'
page; sed -i 's/^| `--paper.*/&\n| `--gone` | off | | Nothing |/' "$work/page.md"; parameters fail 'an option that does not exist'
page; sed -i 's/| 4 |/| 8 |/' "$work/page.md"; parameters fail 'another default'
page; sed -i 's/| off |/| - |/' "$work/page.md"; parameters fail 'a flag that takes a value'
page; sed -i 's/`knn` and `mine`/`knn`/' "$work/page.md"; parameters fail 'an option told of for the other subcommand only'
page; sed -i '1s/.*/## Others/' "$work/page.md"; parameters fail 'options of nobody'
page; printf '#!/bin/sh\n' >"$work/program"; parameters fail 'a program without help'

[ "$failures" -eq 0 ] || exit 1
echo "the checks find every made-up offence"
