#!/usr/bin/env bash
# Downloads a data set from where its makers publish it, checks it and unpacks it.
#   scripts/get-data.sh omniglot|cub200 [DIR]        DIR is where to put it; datasets when none is named
# Files that are there already are checked and not fetched again, so they may also be put into DIR by hand.
set -euo pipefail

usage() {
  echo "usage: scripts/get-data.sh omniglot|cub200 [DIR]" >&2
  exit 2
}
[ $# -ge 1 ] && [ $# -le 2 ] || usage
name=$1
dir=${2:-datasets}
case "$name" in
  omniglot)
    base=https://raw.githubusercontent.com/brendenlake/omniglot/master/python
    files=(images_background.zip images_evaluation.zip)
    urls=("$base/images_background.zip" "$base/images_evaluation.zip")
    sums=(68d2efa1b9178cc56df9314c21c6e718 6b91aef0f799c5bb55b94e3f2daec811)
    home=https://github.com/brendenlake/omniglot
    root=$dir/omniglot
    ;;
  cub200)
    files=(CUB_200_2011.tgz)
    urls=("https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz?download=1")
    sums=(97eceeb196236b17998738112f37df78)
    home=https://www.vision.caltech.edu/datasets/cub_200_2011/
    root=$dir
    ;;
  *) usage ;;
esac

by_hand() {  # WHY
  {
    echo "get-data: $1"
    echo "get-data: fetch by hand into $dir, then run this again:"
    for i in "${!files[@]}"; do echo "get-data:   ${files[i]}  (md5 ${sums[i]})  from ${urls[i]}"; done
    echo "get-data: the data set's page is $home"
  } >&2
  exit 1
}

need() {  # PROGRAM PACKAGE
  command -v "$1" >/dev/null || { echo "get-data: $1 is needed; install the package $2" >&2; exit 1; }
}

good() {  # FILE SUM
  [ -f "$1" ] && [ "$(md5sum <"$1" | cut -d' ' -f1)" = "$2" ]
}

need md5sum coreutils
case "$name" in
  omniglot) need unzip unzip ;;
  cub200) need tar tar ;;
esac
mkdir -p "$dir" || { echo "get-data: cannot make the folder $dir" >&2; exit 1; }
for i in "${!files[@]}"; do
  file=$dir/${files[i]}
  if good "$file" "${sums[i]}"; then
    echo "get-data: $file is there"
    continue
  fi
  [ ! -e "$file" ] || by_hand "$file is damaged or another version (its md5 is not ${sums[i]}); remove it"
  echo "get-data: downloading ${files[i]} from ${urls[i]}"
  part=$file.part
  if command -v curl >/dev/null; then
    curl -fL --retry 3 --connect-timeout 20 -o "$part" "${urls[i]}" || { rm -f "$part"; by_hand "the download of ${files[i]} failed"; }
  elif command -v wget >/dev/null; then
    wget -t 3 -T 20 -O "$part" "${urls[i]}" || { rm -f "$part"; by_hand "the download of ${files[i]} failed"; }
  else
    by_hand "there is neither curl nor wget to download with"
  fi
  if ! good "$part" "${sums[i]}"; then
    rm -f "$part"
    by_hand "what came from ${urls[i]} is not the file it should be"
  fi
  mv "$part" "$file"
done

mkdir -p "$root"
for file in "${files[@]}"; do
  echo "get-data: unpacking $file"
  case "$file" in
    *.zip) unzip -q -o "$dir/$file" -d "$root" ;;
    *.tgz) tar -xzf "$dir/$file" -C "$root" ;;
  esac
done
echo "get-data: done; use --dataset $name --data-root $root"
