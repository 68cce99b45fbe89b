#!/usr/bin/env bash
# Trains every row of the paper's table over several seeds by the better recipe, the paper's own four rows by the literal one, and the
# paper's studies, and ends with the tables: the paper's figures, ours, the difference, how much was mined and by which index.
#   scripts/reproduce.sh cub200  --data-root CUB_200_2011 --weights weights/bvlc_googlenet.caffemodel --output results
#   scripts/reproduce.sh cars196 --data-root cars196      --weights weights/bvlc_googlenet.caffemodel --output results
#   scripts/reproduce.sh cars196 ... --only rows,paper --systems triplet-fanng-global-adaptive --seeds 1 --jobs 4      some of it
#   scripts/reproduce.sh glyphs  --output results                       the whole thing on drawn characters, without data, weights or a GPU
# Stopped at any moment (Ctrl-C, kill, a power cut), the same command goes on where it was: finished runs stay, half ones are resumed.
# A run that fails is named, the others go on, and the exit status is 1. Needs bash and the program alone.
# On a machine that is lent for short sittings: --minutes 25 --slim. Take --output away at the end, it is small, and put it back next time.
set -uo pipefail

usage() {
  cat <<'END'
usage: scripts/reproduce.sh DATASET --output DIR [options] [-- SETTINGS...]
  DATASET            cub200, cars196, omniglot or glyphs: settings are those of recipes/DATASET.toml
  --data-root DIR    where the data set is; not for glyphs
  --weights FILE     weights of the network to start from; needed for cub200 and cars196
  --output DIR       where runs, results.md (the parts asked for last) and report.html go
  --seeds 1,2,3      a run each, of every row and study
  --study-seeds ...  others for the studies of kappa, mined triplets and the index; default: as --seeds, of cub200 the first
  --epochs N         default: the recipe's
  --jobs N           trainings at the same time, each with its share of the cores; default: 1
  --minutes N        starts no run that would not end within so many minutes from now, going by the longest so far of its kind (another
                     seed of it, else of its part, else of all); says what is left, and the exit status is then 3
  --slim             of a run that is finished keeps what the tables need: no checkpoint, weights, embeddings and pictures; of the runs
                     that the page shows (the first seed of --seeds) only checkpoint and weights go
  --only PARTS       some of rows,paper,convergence,kappa,mined,triplets,index,report, by commas; default: all
                     rows: by recipes/DATASET.toml; paper: its own four by recipes/DATASET-paper.toml, where there is one, and the
                     last of them once more with --target validation
  --systems NAMES    some rows of the table, by commas; default: all eight
  --recipe FILE      settings other than recipes/DATASET.toml
  --paper-recipe FILE  settings other than recipes/DATASET-paper.toml
  --program FILE     a smartmine that is built already; default: builds it
  --tables           trains nothing: tables and report of what is there
  --dry-run          prints the commands
  -- SETTINGS...     further options of every smartmine train, such as -- --device cpu
First comes the first seed of all rows, then the second of all; studies come last.
Exit status: 0 all is done, 1 something failed, 2 bad options, 3 time is up, the same command goes on.
Runs are measured on the test half, unless SETTINGS has --validation-classes. COMMIT in the environment names the source where git cannot.
END
}

fail_usage() {
  echo "reproduce: $1; see scripts/reproduce.sh --help" >&2
  exit 2
}
say() { echo "reproduce: $*" >&2; }
as_typed() { # WORDS: a line that a shell reads as them
  local word line=""
  for word in "$@"; do
    [[ "$word" =~ ^[A-Za-z0-9_./,=:@%+-]+$ ]] || printf -v word '%q' "$word"
    line+="$word "
  done
  echo "${line% }"
}

# The rows of the paper's table, in its order.
all_systems=semihard,lifted,npairs,triplet-global,clustering,triplet-fanng,triplet-fanng-global,triplet-fanng-global-adaptive
all_parts=rows,paper,convergence,kappa,mined,triplets,index,report
random=triplet-global hand_tuned=triplet-fanng-global adaptive=triplet-fanng-global-adaptive
own_rows="$random triplet-fanng $hand_tuned $adaptive"  # what the paper trained itself
# The paper's studies. kappa: these are first values of the schedule. mined, triplets: without the global loss, at a target of 0.5. index:
# the adaptive row (its lists are by exact search), and with lists through the paper's graph and through one that starts from that of the
# epoch before.
kappas="1 4 16 64"
fractions="0.1 0.2 0.3 0.4 0.5 0.6"
alone="--system $adaptive --global-weight 0 --target-error 0.5"
shown_epochs="4 8 12 16"

dataset="" data_root="" weights="" output="" seeds=1,2,3 study_seeds="" epochs="" jobs=1
only="" systems=$all_systems recipe="" paper_recipe="" program="" minutes=""
dry_run=no tables_only=no slim=no
settings=()
words=$(as_typed scripts/reproduce.sh "$@")
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) usage; exit 0 ;;
    --) shift; settings=("$@"); break ;;
    --dry-run) dry_run=yes ;;
    --tables) tables_only=yes ;;
    --slim) slim=yes ;;
    --data-root | --weights | --output | --seeds | --study-seeds | --epochs | --jobs | --only | --systems | --recipe | --paper-recipe | \
      --program | --minutes)
      [ $# -gt 1 ] || fail_usage "$1 needs a value"
      name=${1#--}
      printf -v "${name//-/_}" '%s' "$2"
      shift ;;
    -*) fail_usage "unknown option $1" ;;
    *)
      [ -z "$dataset" ] || fail_usage "unexpected argument '$1'"
      dataset=$1 ;;
  esac
  shift
done

# --- What is wrong is said before the work.
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
case "$dataset" in
  cub200 | cars196 | omniglot | glyphs) ;;
  "") fail_usage "which data set? cub200, cars196, omniglot or glyphs" ;;
  *) fail_usage "unknown data set '$dataset'; there are cub200, cars196, omniglot and glyphs" ;;
esac
[ -n "$output" ] || fail_usage "--output is missing"
each_of() { # NAME LIST ALLOWED
  local one
  [[ "$2" =~ ^[^,[:blank:]]+(,[^,[:blank:]]+)*$ ]] || fail_usage "$1 is '$2'; it must be names with commas between them"
  for one in ${2//,/ }; do
    [[ ",$3," == *",$one,"* ]] || fail_usage "$1 has '$one'; it may have ${3//,/, }"
  done
}
[ -z "$only" ] || each_of --only "$only" $all_parts
each_of --systems "$systems" $all_systems
[ -n "$study_seeds" ] || { [ "$dataset" = cub200 ] && study_seeds=${seeds%%,*}; }
for list in "$seeds" "${study_seeds:=$seeds}"; do
  [[ "$list" =~ ^[0-9]+(,[0-9]+)*$ ]] || fail_usage "seeds are '$list'; they must be whole numbers with commas between them"
  [ -z "$(tr , '\n' <<<"$list" | sort | uniq -d)" ] || fail_usage "seeds are '$list'; each must be given once"
done
[[ -z "$epochs" || "$epochs" =~ ^[1-9][0-9]*$ ]] || fail_usage "--epochs is '$epochs'; it must be a whole number from 1"
[[ -z "$minutes" || "$minutes" =~ ^[1-9][0-9]{0,5}$ ]] || fail_usage "--minutes is '$minutes'; it must be a whole number from 1 to 999999"
[[ "$jobs" =~ ^[1-9][0-9]*$ ]] || fail_usage "--jobs is '$jobs'; it must be a whole number from 1"
recipe=${recipe:-$root/recipes/$dataset.toml}
[ -f "$recipe" ] || fail_usage "there is no recipe $recipe"
asked_for_paper=$only$paper_recipe
paper_recipe=${paper_recipe:-$root/recipes/$dataset-paper.toml}
only=${only:-$all_parts}
if [[ ",$only," == *,paper,* ]] && [ ! -f "$paper_recipe" ]; then
  [ -z "$asked_for_paper" ] || fail_usage "there is no recipe $paper_recipe"
  only=$(sed 's/,paper,/,/' <<<"$only")
fi
if [ $tables_only = no ]; then
  if [ "$dataset" = glyphs ]; then
    [ -z "$data_root" ] || fail_usage "--data-root is not for glyphs, which are drawn"
  else
    [ -n "$data_root" ] || fail_usage "--data-root is missing"
    [ -d "$data_root" ] || fail_usage "--data-root is '$data_root'; there is no such folder"
  fi
  case "$dataset" in cub200 | cars196) [ -n "$weights" ] || fail_usage "--weights is missing" ;; esac
  [ -z "$weights" ] || [ -f "$weights" ] || fail_usage "--weights is '$weights'; there is no such file"
fi
[ -z "$program" ] || [ -x "$program" ] || fail_usage "--program is '$program'; there is no such program"

if [ -z "$program" ]; then
  program=$root/build/release/smartmine
  if [ $dry_run = no ]; then
    say "building the program"
    (cd "$root" && cmake --preset release && cmake --build --preset release --target smartmine) >&2 ||
      { say "the build failed; scripts/setup.sh installs what it needs"; exit 1; }
  fi
fi
program=$(realpath "$program" 2>/dev/null || echo "$program")

# --- Which runs there are: a folder under --output, and the settings of its own.
runs=()
declare -A own=() part_runs=() recipe_of=()
has_part() { [[ ",$only," == *",$1,"* ]]; }
has_system() { [[ ",$systems," == *",$1,"* ]]; }
add() { # PART RUN SETTINGS
  [ -n "${own[$2]:-}" ] || runs+=("$2")
  own[$2]=$3
  recipe_of[$2]=$([ "$1" = paper ] && echo "$paper_recipe" || echo "$recipe")
  part_runs[$1]+="$2 "
}

epochs_of_recipe=$(sed -n 's/^epochs *= *\([0-9]*\).*/\1/p' "$recipe")
last_epoch=${epochs:-${epochs_of_recipe:-20}}
# The run whose triplets are shown lasts until the last of their epochs, unless --epochs says otherwise.
longer="" save=""
[ -n "$epochs" ] || [ "$last_epoch" -ge "${shown_epochs##* }" ] || longer=" --epochs ${shown_epochs##* }"
for epoch in $shown_epochs; do [ -z "$longer" ] && [ "$epoch" -gt "$last_epoch" ] || save+="${save:+,}$epoch"; done

# Where `auto` is exact search, on a GPU and off it, the adaptive row has its lists by it already. Omniglot has too many images for that.
exact_row=yes
[ "$dataset" != omniglot ] || exact_row=no
[[ " ${settings[*]:-} " =~ \ --(index|graph-start|success-rate)[\ =] ]] && exact_row=no
grep -Eq '^ *"?(index|graph-start|success-rate)"? *=' "$recipe" && exact_row=no

for seed in ${seeds//,/ }; do
  for system in ${systems//,/ }; do
    case "$system" in
      "$random" | "$hand_tuned" | "$adaptive")
        has_part convergence && add convergence "rows/$system/seed-$seed" "--system $system --seed $seed"
        ;;
    esac
    has_part rows && add rows "rows/$system/seed-$seed" "--system $system --seed $seed"
  done
  has_part paper && for system in $own_rows; do
    has_system "$system" && add paper "paper/$system/seed-$seed" "--system $system --seed $seed"
  done
  # The other target that the paper speaks of.
  has_part paper && has_system "$adaptive" &&
    add paper "paper/validation/seed-$seed" "--system $adaptive --target validation --seed $seed"
done
# Shorter runs have their triplets at epochs that the program chooses.
has_part triplets && add triplets "triplets/seed-${seeds%%,*}" "$alone --seed ${seeds%%,*}$longer${save:+ --save-epochs $save}"
for seed in ${study_seeds//,/ }; do
  has_part kappa && for kappa in $kappas; do
    add kappa "kappa/$kappa/seed-$seed" "--system $hand_tuned --kappa $kappa --seed $seed"
  done
  has_part mined && for fraction in $fractions; do
    add mined "mined/$fraction/seed-$seed" "$alone --mined-fraction $fraction --seed $seed"
  done
  has_part index && {
    if [ $exact_row = yes ]; then
      add index "rows/$adaptive/seed-$seed" "--system $adaptive --seed $seed"
    else
      add index "index/exact/seed-$seed" "--system $adaptive --index exact --seed $seed"
    fi
    add index "index/random/seed-$seed" "--system $adaptive --index fanng --graph-start random --seed $seed"
    add index "index/previous/seed-$seed" "--system $adaptive --index fanng --graph-start previous --seed $seed"
  }
done

# What all runs share.
cores=$(nproc)
threads=$((cores / jobs > 0 ? cores / jobs : 1))
shared=()
[ -z "$weights" ] || shared+=(--weights "$(realpath "$weights")")
[ -z "$epochs" ] || shared+=(--epochs "$epochs")
[[ " ${settings[*]:-} " == *" --validation-classes"* ]] || shared+=(--validation-classes 0)
shared+=("${settings[@]}")
free=(--threads "$threads")  # they change nothing that is computed
[[ " ${settings[*]:-} " == *" --threads"* ]] && free=()
[ -z "$data_root" ] || free+=(--data-root "$(realpath "$data_root")")
output=$(realpath -m "$output")
weights_sum=$([ -z "$weights" ] || [ $tables_only = yes ] || cksum <"$weights")

# What a run uses of its recipe: no comments, and no section of another system.
used_of() { # RUN
  local system
  system=$(sed -n 's/.*--system \([^ ]*\).*/\1/p' <<<" ${own[$1]} ")
  sed 's/^ *#.*//; /^ *$/d' "${recipe_of[$1]}" | awk -v own="[train.$system]" '/^\[/ { skip = /^\[train\./ && $0 != own } !skip'
}
# What a run is made by, wherever the files are. A finished run made by the same is left as it is; one made by anything else is not touched.
key_of() {
  local sum
  sum=$(used_of "$1" | cksum)
  echo "${epochs:+--epochs $epochs }${settings[*]:+${settings[*]} }${own[$1]} recipe ${sum% *} weights ${weights_sum% *}"
}
is_finished() { [ -f "$output/$1/reproduced.txt" ] && [ "$(head -n 1 "$output/$1/reproduced.txt")" = "$(key_of "$1")" ]; }
command_of() { # RUN: into `command`
  # shellcheck disable=SC2206  # several words
  command=("$program" train --config "$(realpath "${recipe_of[$1]}")" "${shared[@]}" ${own[$1]} "${free[@]}" --output "$output/$1")
  [ -f "$output/$1/config.toml" ] && command+=(--resume)
  return 0
}

if [ $dry_run = yes ]; then
  for run in "${runs[@]}"; do
    command_of "$run"
    is_finished "$run" && printf '# finished: '
    as_typed "${command[@]}"
  done
  exit 0
fi

mkdir -p "$output/logs" || exit 1
output=$(realpath "$output")
# One of these at a time. Trainings hold the lock too: those that outlive a killed script are waited for.
if command -v flock >/dev/null; then
  exec 9>"$output/logs/lock"
  flock -n 9 || { say "waiting for what is still under way in $output"; flock 9; }
fi
guard=()
setpriv --pdeathsig TERM true 2>/dev/null && guard=(setpriv --pdeathsig TERM)  # if this script is killed, trainings save and end

commit=${COMMIT:-$(git -C "$root" describe --always --dirty --abbrev=40 2>/dev/null || echo unknown)}
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
device_of() { # LOG
  case "$(sed -n 's/.*, on \([a-z]*\), into .*/\1/p' "$1" | sort -u | paste -sd ' ')" in
    cuda) echo "cuda (${gpu:-unknown})" ;;
    cpu) echo "cpu (${cpu:-unknown}, $threads threads)" ;;
    "cpu cuda") echo "cpu (${cpu:-unknown}) and cuda (${gpu:-unknown}), one after the other" ;;
    *) echo "unknown" ;;
  esac
}

# --- The runs.
declare -A job_run=() job_started=() job_whole=()
failed=() left=() trained=0 finished=0 number=0

# Time spent, over all calls.
before=$SECONDS  # building, waiting
SECONDS=0
earlier=0
while read -r seconds; do earlier=$((earlier + seconds)); done < <(cat "$output/logs/seconds" 2>/dev/null)
[ $tables_only = yes ] || trap 'echo "$SECONDS" >>"$output/logs/seconds"' EXIT

stop() { # STATUS
  trap '' INT TERM HUP
  [ ${#job_run[@]} -eq 0 ] || {
    say "stopping; runs under way are saved"
    kill -TERM "${!job_run[@]}" 2>/dev/null
    wait "${!job_run[@]}" 2>/dev/null
  }
  say "stopped; the same command goes on"
  exit "$1"
}
trap 'stop 130' INT
trap 'stop 143' TERM
trap 'stop 129' HUP

# Beside each run's log: what it was begun with, and every commit that it was trained by.
start_run() { # RUN
  local run=$1 record=$output/logs/${1//\//-}
  local log=$record.log
  # A folder made in the last moment before the end has no settings yet.
  [ -d "$output/$run" ] && [ ! -f "$output/$run/config.toml" ] && [ ! -f "$output/$run/log.jsonl" ] && rm -rf -- "${output:?}/$run"
  # What it was begun with. logs/ may have stayed elsewhere.
  local made_by=""
  made_by=$(cat "$record.key" 2>/dev/null || head -n 1 "$output/$run/reproduced.txt" 2>/dev/null)
  # A half one that came here without its checkpoint cannot go on.
  if [ ! -f "$output/$run/reproduced.txt" ] && ! compgen -G "$output/$run/checkpoint*" >/dev/null &&
    { grep -q '"epoch":[1-9]' "$output/$run/log.jsonl" 2>/dev/null ||
      { [ -f "$output/$run/config.toml" ] && [ "${made_by:-$(key_of "$run")}" != "$(key_of "$run")" ]; }; }; then
    say "$run: its checkpoint is missing, so it begins anew; what is left of it is in $run.without-checkpoint"
    rm -rf -- "${output:?}/$run.without-checkpoint"
    mv -- "$output/$run" "$output/$run.without-checkpoint"
  fi
  command_of "$run"
  mkdir -p "$(dirname "$output/$run")"
  if [ ! -f "$output/$run/config.toml" ]; then
    rm -f "$record.commits"
    key_of "$run" >"$record.key"
  elif [ -n "$made_by" ] && [ "$made_by" != "$(key_of "$run")" ]; then
    failed+=("$run")
    echo "was made with '$made_by', not with '$(key_of "$run")'; move the folder aside to train it anew" >>"$log"
    say "$run: $(tail -n 1 "$log")"
    return
  fi
  [ "$(tail -n 1 "$record.commits" 2>/dev/null)" = "$commit" ] || echo "$commit" >>"$record.commits"
  say "[$number/${#runs[@]}] $run$([[ " ${command[*]} " == *" --resume "* ]] && echo ", goes on")"
  echo "\$ $(as_typed "${command[@]}")" >>"$log"
  "${guard[@]}" "${command[@]}" >>"$log" 2>&1 &
  job_run[$!]=$run job_started[$!]=$SECONDS
  job_whole[$!]=$([[ " ${command[*]} " == *" --resume "* ]] && echo no || echo yes)
}

end_run() {
  local pid="" status run log
  wait -n -p pid "${!job_run[@]}"
  status=$?
  if [ -z "${pid:-}" ]; then  # some versions of bash forget jobs that a signal ended before they were waited for
    for pid in "${!job_run[@]}"; do kill -0 "$pid" 2>/dev/null || break; done
    wait "$pid"
    status=$?
  fi
  run=${job_run[$pid]} log=$output/logs/${job_run[$pid]//\//-}.log
  if [ $status -eq 0 ]; then
    # shellcheck disable=SC2206  # several words
    command=(smartmine train --config "${recipe_of[$run]/#$root\//}" "${shared[@]/#$root\//}" ${own[$run]} "${free[@]}" --output "$run")
    {
      key_of "$run"
      as_typed "${command[@]}"
      paste -sd ' ' "${log%.log}.commits"
      device_of "$log"
      date -u +%Y-%m-%dT%H:%M:%SZ
      # What --minutes goes by. Nothing of one that was stopped in between.
      [ "${job_whole[$pid]}" = no ] || echo "$((SECONDS - job_started[$pid])) s"
    } >"$output/$run/reproduced.part"
    mv "$output/$run/reproduced.part" "$output/$run/reproduced.txt"
    trained=$((trained + 1))
    say "$run: done in $((SECONDS - job_started[$pid])) s"
    [ $slim = no ] || slim_down "$run"
  else
    failed+=("$run")
    say "$run: failed with status $status: $(tail -n 1 "$log")"
  fi
  unset "job_run[$pid]" "job_started[$pid]" "job_whole[$pid]"
}

# The runs that the page is made from.
page_runs=("triplets/seed-${seeds%%,*}" rows/{$adaptive,$hand_tuned,$random}/seed-"${seeds%%,*}")

# Drops what the tables, and the page, do without.
slim_down() { # RUN, which is finished
  local folder=${output:?}/$1
  rm -rf -- "$folder"/checkpoint* "$folder"/kept.safetensors
  [[ " ${page_runs[*]} " == *" $1 "* ]] || rm -rf -- "$folder"/{embeddings,triplets,report}
}

# Seconds that a run may take: the longest so far of its kind; 0: none has been timed.
seconds_of() { # RUN
  local kind
  for kind in "$output/${1%/seed-*}" "$output/${1%%/*}" "$output"; do
    find "$kind" -name reproduced.txt -exec sed -n '6s/ s$//p' {} ';' 2>/dev/null | sort -n | tail -n 1 | grep . && return
  done
  echo 0
}
fits() { # RUN: into the time that is left
  [ -z "$minutes" ] || [ $((before + SECONDS + $(seconds_of "$1"))) -le $((60 * minutes)) ]
}

if [ $tables_only = no ]; then
  for run in "${runs[@]}"; do
    number=$((number + 1))
    if is_finished "$run"; then
      finished=$((finished + 1))
      [ $slim = no ] || slim_down "$run"
      continue
    fi
    if fits "$run"; then
      [ ${#job_run[@]} -lt "$jobs" ] || end_run
    fi
    # Time has gone by, and more is known.
    if fits "$run"; then start_run "$run"; else left+=("$run"); fi
  done
  while [ ${#job_run[@]} -gt 0 ]; do end_run; done
  say "$trained runs trained, $finished were finished before, ${#failed[@]} failed"
  [ ${#left[@]} -eq 0 ] || say "${#left[@]} are left, too long for what is left of $minutes minutes: ${left[*]}"
fi

# --- The tables.
# Paths in tables are those under --output.
cd "$output" || exit 1
there() { # PART: the folders of its runs that there are
  local run
  for run in ${part_runs[$1]:-}; do [ -f "$run/config.toml" ] && echo "$run"; done
}
# shellcheck disable=SC2046  # several words
section() { # PART TITLE OPTIONS...
  local part=$1 title=$2
  shift 2
  has_part "$part" || return 0
  printf '\n## %s\n\n' "$title"
  if [ -z "$(there "$part")" ]; then
    echo "No runs yet."
  else
    "$program" compare $(there "$part") "$@" || { echo "No table: see above."; touch logs/no-table; }
  fi
}
lines_of_runs() { # LINE: what that line of reproduced.txt says, over all runs shown
  local run
  for run in "${runs[@]}"; do [ -f "$run/reproduced.txt" ] && sed -n "$1p" "$run/reproduced.txt"; done | sort | uniq -c |
    sed 's/^ *\([0-9]*\) \(.*\)/\2 (\1 runs)/' | paste -sd ';' | sed 's/;/; /g'
}
paper=()
case "$dataset" in cub200 | cars196) paper=(--paper "$dataset") ;; esac
results() {
  printf '# %s\n\n' "$dataset"
  # shellcheck disable=SC2016  # markdown, not a command
  printf -- '- Command: `%s`\n' "$words"
  printf -- '- Seeds: %s; of the studies: %s\n' "$seeds" "$study_seeds"
  printf -- '- Device: %s\n' "$(lines_of_runs 4)"
  printf -- '- Commit: %s\n' "$(lines_of_runs 3)"
  printf -- '- Wall time: %s s over all calls; %s s in the last one, which trained %s runs, %s at a time, and found %s finished\n' \
    $((earlier + SECONDS)) "$SECONDS" "$trained" "$jobs" "$finished"
  [ ${#left[@]} -eq 0 ] || printf -- '- Left for another sitting: %s\n' "${left[*]}"
  for run in "${failed[@]}"; do printf -- '- Failed: %s: %s\n' "$run" "$(tail -n 1 "logs/${run//\//-}.log")"; done
  section rows "The table, by the better recipe" "${paper[@]}" --by-epoch
  section paper "The paper's own rows, by its letter" "${paper[@]}" --by-epoch
  section convergence "Convergence: random triplets, kappa by schedule, kappa by the controller" --by-epoch
  section kappa "Recall against the first kappa of the schedule"
  section mined "Share of mined triplets, by the controller, without the global loss" --by-epoch
  section triplets "Mined triplets of fixed anchors, by the controller, without the global loss" --triplets
  section index "Lists by exact search, through the paper's graph, and through one that starts from the last epoch's"
  # shellcheck disable=SC2016  # markdown, not a command
  has_part index && [ $exact_row = yes ] &&
    printf '\nThe runs of exact search are those of the adaptive row, whose index `auto` is exact search here.\n'
  printf '\n## Runs\n\n'
  for run in "${runs[@]}"; do
    [ -f "$run/reproduced.txt" ] || continue
    { read -r; read -r made_by; read -r made_at; read -r made_on; read -r _; } <"$run/reproduced.txt"
    # shellcheck disable=SC2016  # markdown, not a command
    printf -- '- %s, %s, commit %s: `%s`\n' "$run" "$made_on" "$made_at" "$made_by"
  done
}
rm -f logs/no-table
results >results.md.part && mv results.md.part results.md || failed+=(results.md)
[ ! -f logs/no-table ] || failed+=("a table of results.md")
# All but the list of runs, which is for the file.
sed '/^## Runs$/,$d' results.md

if has_part report; then
  shown=()
  for run in "${page_runs[@]}"; do
    [ -f "$run/log.jsonl" ] && shown+=("$run")
  done
  if [ ${#shown[@]} -gt 0 ]; then
    if "$program" report "${shown[@]}" --output report.html --threads "$cores" --quiet; then
      say "curves, map and triplets are in $output/report.html"
    else
      say "no report was made"
    fi
  fi
fi
say "the tables are in $output/results.md"
[ ${#failed[@]} -eq 0 ] || { say "failed: ${failed[*]}; logs are in $output/logs"; exit 1; }
[ ${#left[@]} -eq 0 ] || { say "the same command goes on"; exit 3; }
