#!/usr/bin/env bash
# Downloads a data set, or the weights of a network, from where its makers publish it, checks it and unpacks it.
#   scripts/get-data.sh omniglot|cub200 [DIR]                DIR is where to put it; datasets when none is named
#   scripts/get-data.sh cars196 [DIR]                        lays it out from files in DIR: its makers no longer publish it
#   scripts/get-data.sh googlenet|resnet18|resnet50 [DIR]    weights when none is named
# Files that are there already are checked and not fetched again, so they may also be put into DIR by hand.
set -euo pipefail

usage() {
  echo "usage: scripts/get-data.sh omniglot|cub200|cars196|googlenet|resnet18|resnet50 [DIR]" >&2
  exit 2
}
[ $# -ge 1 ] && [ $# -le 2 ] || usage
name=$1
dir=${2:-datasets}
kind=md5
weights=
case "$name" in
  # Digests as published: Caffe's model zoo gives the SHA-1, torchvision puts the first eight digits of the SHA-256 into the name.
  googlenet)
    files=(bvlc_googlenet.caffemodel)
    urls=(http://dl.caffe.berkeleyvision.org/bvlc_googlenet.caffemodel)
    sums=(405fc5acd08a3bb12de8ee5e23a96bec22f08204)
    kind=sha1
    home=https://github.com/BVLC/caffe/tree/master/models/bvlc_googlenet
    weights=yes
    ;;
  resnet18)
    files=(resnet18-f37072fd.pth)
    urls=(https://download.pytorch.org/models/resnet18-f37072fd.pth)
    sums=(f37072fd)
    kind=sha256
    home=https://pytorch.org/vision/stable/models.html
    weights=yes
    ;;
  resnet50)
    files=(resnet50-0676ba61.pth)
    urls=(https://download.pytorch.org/models/resnet50-0676ba61.pth)
    sums=(0676ba61)
    kind=sha256
    home=https://pytorch.org/vision/stable/models.html
    weights=yes
    ;;
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
  cars196) ;;
  *) usage ;;
esac
[ -z "$weights" ] || dir=${2:-weights}

by_hand() {  # WHY
  {
    echo "get-data: $1"
    echo "get-data: fetch by hand into $dir, then run this again:"
    for i in "${!files[@]}"; do echo "get-data:   ${files[i]}  ($kind ${sums[i]})  from ${urls[i]}"; done
    echo "get-data: its page is $home"
  } >&2
  exit 1
}

need() {  # PROGRAM PACKAGE
  command -v "$1" >/dev/null || { echo "get-data: $1 is needed; install the package $2" >&2; exit 1; }
}

good() {  # FILE SUM
  local digest
  [ -f "$1" ] || return 1
  digest=$("${kind}sum" <"$1" | cut -d' ' -f1)
  [ "${digest:0:${#2}}" = "$2" ]
}

# Stanford Cars comes as two folders of numbered images and the lists of their classes: in archives of its makers, or as people have put
# the unpacked folders on the net. The lists are checked by their digests; images that a copy lacks are named in missing.txt.
lay_out_cars() {
  local from="" folder archive part number image missing=0 sum
  local lists=(cars_train_annos.mat cars_test_annos_withlabels.mat cars_meta.mat)
  local list_sums=(7b154abe023e6274e597db035347ff56 b0a2b23655a3edd16d84508592a98d10 4591ba8ddb31503892280ed8c6ed1c16)
  for archive in cars_train.tgz cars_test.tgz car_devkit.tgz; do
    [ -f "$dir/$archive" ] || continue
    [ ! -e "$dir/.unpacked-$archive" ] || continue
    echo "get-data: unpacking $archive"
    tar -xzf "$dir/$archive" -C "$dir" || { echo "get-data: $dir/$archive cannot be unpacked; is it whole?" >&2; exit 1; }
    : >"$dir/.unpacked-$archive"
  done
  for folder in "$dir" "$dir/stanford_cars" "$dir"/*/stanford_cars; do
    [ -d "$folder/cars_train" ] && [ -d "$folder/cars_test" ] && from=$(realpath "$folder") && break
  done
  if [ -z "$from" ]; then
    {
      echo "get-data: there are no folders cars_train and cars_test in $dir; bring them there in one of two ways, then run this again:"
      echo "get-data:   git clone https://github.com/jhpohovey/StanfordCars-Dataset $dir/StanfordCars-Dataset      (2 GB)"
      echo "get-data:   cars_train.tgz, cars_test.tgz, car_devkit.tgz and cars_test_annos_withlabels.mat as they once were published"
    } >&2
    exit 1
  fi
  root=$dir/cars196
  mkdir -p "$root"
  for i in "${!lists[@]}"; do
    archive=""
    for folder in "$from" "$from/devkit" "$dir" "$dir/devkit"; do [ -f "$folder/${lists[i]}" ] && archive=$folder/${lists[i]} && break; done
    [ -n "$archive" ] || { echo "get-data: ${lists[i]} is missing; it belongs into $from" >&2; exit 1; }
    sum=${list_sums[i]}
    good "$archive" "$sum" || { echo "get-data: $archive is damaged or another version (its md5 is not $sum)" >&2; exit 1; }
    cp "$archive" "$root/${lists[i]}"
  done
  : >"$root/missing.part"
  for part in "cars_train 8144" "cars_test 8041"; do
    folder=${part% *}
    ln -sfn "$from/$folder" "$root/$folder"
    for number in $(seq 1 "${part#* }"); do
      printf -v image '%s/%05d.jpg' "$folder" "$number"
      [ -s "$root/$image" ] || { echo "$image" >>"$root/missing.part"; missing=$((missing + 1)); }
    done
  done
  if [ "$missing" -gt 0 ]; then
    mv "$root/missing.part" "$root/missing.txt"
    echo "get-data: $missing of 16185 images are not there; $root/missing.txt names them, and they are left out"
  else
    rm -f "$root/missing.part" "$root/missing.txt"
  fi
  echo "get-data: done; use --dataset cars196 --data-root $root"
}

need "${kind}sum" coreutils
if [ "$name" = cars196 ]; then
  need realpath coreutils
  need tar tar
  lay_out_cars
  exit 0
fi
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
  [ ! -e "$file" ] || by_hand "$file is damaged or another version (its $kind does not start with ${sums[i]}); remove it"
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

if [ -n "$weights" ]; then
  echo "get-data: done; use --backbone $name --weights $dir/${files[0]}"
  exit 0
fi
mkdir -p "$root"
for file in "${files[@]}"; do
  echo "get-data: unpacking $file"
  case "$file" in
    *.zip) unzip -q -o "$dir/$file" -d "$root" ;;
    *.tgz) tar -xzf "$dir/$file" -C "$root" ;;
  esac
done
echo "get-data: done; use --dataset $name --data-root $root"
