#!/usr/bin/env bash
# Runs what must give the same bytes before and after a redesign, with one binary:
#
#   scripts/golden.sh CORUN FOLDER [STUDY_COMMAND..]
#
# CORUN is the binary; FOLDER gets one file a run. Run it with the binary of before and that of after
# into two folders, then `diff -r` them. STUDY_COMMAND is what runs a study [default: the corun-study beside
# CORUN; `CORUN study` where there is none, as before corun-study was split off]. With
# CORUN_SOLO_TABLE=TABLE.csv the studies that stand on the public table run too. Some 10 minutes on 2 cores.
#
# The live machine is covered by recordings (`corun decide`) that scripts/golden-recording.py makes up, since
# nothing that really runs comes twice. The lfoc study times decisions: its table in microseconds differs.
set -euo pipefail

corun=$(realpath "${1:?usage: scripts/golden.sh CORUN FOLDER [STUDY_COMMAND..]}")
out=${2:?usage: scripts/golden.sh CORUN FOLDER [STUDY_COMMAND..]}
shift 2
study=("$@")
if [ ${#study[@]} -eq 0 ]; then
    study=("$(dirname "$corun")/corun-study")
    [ -x "${study[0]}" ] || study=("$corun" study)
fi
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
cd "$out"
inputs=$(mktemp -d)
trap 'rm -r "$inputs"' EXIT

# A run under a name: what it prints, what it says and how it ended. Times are no results.
run() {
    local name=$1
    shift
    "$@" >"$name" 2>"$name.err" && echo "exit 0" >>"$name.err" || echo "exit $?" >>"$name.err"
    local file
    for file in "$name" "$name.err" "${name%.json}.html"; do
        [ ! -f "$file" ] || sed -i -E "s|$inputs|INPUTS|g; s/(\"[a-z_]*solver_seconds\"): [0-9.e+-]+/\1: 0/" "$file"
    done
}

policies=$("$corun" doctor --format json |
    python3 -c 'import json, sys; print(",".join(one["policy"] for one in json.load(sys.stdin)["policies"]))')

cat >"$inputs/churn.toml" <<'MIX'
version = 1
method = "window"
[[app]]
profile = "sort"
important = true
[[app]]
profile = "numpy"
threads = 2
barrier = { every_instructions = 50000000, waiting = "spin" }
[[app]]
profile = "kernel-triad"
count = 2
start_s = 0.7
kill_s = 21.3
[[app]]
profile = "redis"
count = 3
io = { cpu_ms = 2, wait_ms = 8 }
[[app]]
profile = "flac"
restart = true
instructions = 900000000
[[app]]
profile = "xsltproc"
weight = 2
start_s = 3.1
[[app]]
profile = "xz"
threads = 2
barrier = { every_instructions = 20000000, waiting = "sleep" }
MIX
sed 's/"sleep"/"spin"/' "$inputs/churn.toml" >"$inputs/churn-spin.toml"

# Every policy on every kind of machine, one at a time: what it refuses is a result, too.
for machine in xeon-x5365 2x-e5-2650 juno-2b4s xeon-gold-6138; do
    for policy in ${policies//,/ } dio+lfoc di+dunn-online; do
        run "compare-$machine-$policy.json" "$corun" compare --machine "$machine" --policy "$policy" \
            --apps sort,numpy,igraph,xz,kernel-triad,flac,lua,stockfish --seeds 2 \
            --instructions 15000000000 --time-limit 20 --format json --trace "trace-$machine-$policy.json"
        run "churn-$machine-$policy.json" "$corun" compare "$inputs/churn.toml" --machine "$machine" \
            --policy "$policy" --seeds 1 --format json --trace "churn-trace-$machine-$policy.json" \
            --report "churn-$machine-$policy.html"
    done
done
run compare.json "$corun" compare --seeds 4 --format json --report compare.html
run compare-sweep.json "$corun" compare "$inputs/churn-spin.toml" --machine epyc-9554 --policy dio,di,casc --seeds 1 --format json

for policy in ${policies//,/ } optimal worst optimal-cluster; do
    for machine in xeon-x5365 2x-e5-2650 juno-2b4s xeon-gold-6138; do
        run "place-$machine-$policy.json" "$corun" place --machine "$machine" --policy "$policy" \
            --apps sort,numpy,igraph,xz --format json
    done
    run "partition-$policy.json" "$corun" partition --policy "$policy" \
        --apps sort,numpy,igraph,xz,kernel-triad --format json
done
run partition-all.json "$corun" partition --all --apps sort,numpy,igraph,xz,flac --format json
run predict.json "$corun" predict --machine xeon-x5365 --apps sort,numpy,igraph,xz --place 0,1,2,4 --format json

cat >"$inputs/sweep.toml" <<'SWEEP'
machines = ["xeon-x5365", "juno-2b4s"]
policies = ["linux-default", "dio", "camps"]
seeds = [1, 2]
instructions = 5000000000
[[random]]
size = 6
count = 4
seed = 1
SWEEP
run sweep.json "$corun" sweep "$inputs/sweep.toml" -o "$inputs/swept" --format json

for machine in xeon-x5365 2x-e5-2650 juno-2b4s xeon-gold-6138; do
    "$corun" topology --machine "$machine" --format toml |
        python3 -c 'import json, sys, tomllib; json.dump(tomllib.load(sys.stdin.buffer), sys.stdout)' >"$inputs/machine.json"
    for seed in 1 2; do
        recording="$inputs/recording-$machine-$seed"
        python3 "$here/golden-recording.py" "$inputs/machine.json" 150 $((5 + 6 * seed)) "$seed" >"$recording"
        for policy in ${policies//,/ } dio+lfoc; do
            run "decide-$machine-$seed-$policy.json" "$corun" decide "$recording" --policy "$policy" --format json
            run "decide-often-$machine-$seed-$policy.json" "$corun" decide "$recording" --policy "$policy" --interval 0.05 --format json
        done
    done
done
table=()
[ -n "${CORUN_SOLO_TABLE:-}" ] && table=(--profiles "$CORUN_SOLO_TABLE")
# A study in which nothing depends on chance has no --seeds.
seeds() { case $1 in classification | factors | n-mass) ;; *) echo --seeds 1 ;; esac; }
for name in classification factors lamp casc camps; do
    run "study-$name.json" "${study[@]}" "$name" $(seeds "$name") --format json
done
if [ ${#table[@]} -gt 0 ]; then
    for name in classification factors dio-mixes dio-power n-mass mlb lfoc; do
        run "study-$name-table.json" "${study[@]}" "$name" "${table[@]}" $(seeds "$name") --format json
    done
    run study-partitioning-table.json "${study[@]}" partitioning "${table[@]}" --mixes 5 --format json
fi
