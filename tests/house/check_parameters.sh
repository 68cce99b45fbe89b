#!/usr/bin/env bash
# Holds docs/parameters.md against the program: every option that `smartmine SUBCOMMAND --help` shows stands in a table there, with the
# default that the help shows, and no option stands there that does not exist. Usage: check_parameters.sh PROGRAM PARAMETERS.md
# A heading such as "## Options of `knn` and `mine`" says whose options the tables below it have, up to the next heading of that level.
set -euo pipefail
program=$1
page=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
offences=0

offend() {
  echo "$1"
  offences=$((offences + 1))
}

# Lines of "SUBCOMMAND --option DEFAULT", as the page has them.
awk '
  /^## / {
    split("", commands)
    count = 0
    if ($0 ~ /^## Options of /) {
      parts = split($0, piece, "`")
      for (i = 2; i <= parts; i += 2) commands[++count] = piece[i]
    }
  }
  /^\| `--/ {
    split($0, cell, "|")
    name = cell[2]
    gsub(/[ `]/, "", name)
    value = cell[3]
    gsub(/^ +| +$/, "", value)
    gsub(/ /, "_", value)
    for (i = 1; i <= count; ++i) print commands[i], name, value
    if (count == 0) print "nobody", name, value
  }' "$page" | sort >"$work/page"

# The same from the help. A flag has no kind of value after its name; an option without a default has no "=".
"$program" --help >"$work/help"
subcommands=$(sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p' "$work/help")
[ -n "$subcommands" ] || offend "$program --help shows no subcommands"
for command in $subcommands; do
  "$program" "$command" --help | awk -v command="$command" '
    /^  (-h,)?--/ {
      name = $1
      if (name ~ /^-h,/) next
      value = "off"
      if ($2 ~ /^[A-Z]/ && ($2 ~ /=/ || $2 ~ /^[A-Z_,.]+(:|$)/)) {
        value = "-"
        if (index($2, "=") > 0) value = substr($2, index($2, "=") + 1)
      }
      print command, name, value
    }'
done | sort >"$work/program"
[ -s "$work/program" ] || offend "$program shows no options"

while read -r command name value; do
  told=$(awk -v command="$command" -v name="$name" '$1 == command && $2 == name { print $3; exit }' "$work/page")
  if [ -z "$told" ]; then
    offend "$page: smartmine $command has the option $name, which does not stand there"
  elif [ "$told" != "$value" ] && { [ "${#told}" -lt 4 ] || [ "${value#"$told"}" = "$value" ]; }; then
    offend "$page: the default of smartmine $command $name is $value, not $told"
  fi
done <"$work/program"
while read -r command name value; do
  # A program built without LibTorch has fewer subcommands.
  case " ${subcommands//$'\n'/ } nobody " in *" $command "*) ;; *) continue ;; esac
  case "$subcommands: $command $name" in *train*) ;; *': eval --run' | *': eval --device') continue ;; esac
  awk -v command="$command" -v name="$name" '$1 == command && $2 == name { found = 1 } END { exit !found }' "$work/program" ||
    offend "$page: $name stands there for $command, which has no such option"
done <"$work/page"

if [ "$offences" -gt 0 ]; then
  echo "$offences differences between $page and the program"
  exit 1
fi
echo "$(wc -l <"$work/program") options are as the page has them"
