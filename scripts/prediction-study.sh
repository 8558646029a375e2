#!/bin/bash
# Records the beginnings of programs of the library and of three kernels (a loop that just fits, a
# table, a streamer), as profiles and as traces, and holds the model's laws of space against a
# reference cache that replays all pairs: the figures and the picture of docs/studies/prediction.md.
#
#   scripts/prediction-study.sh -o FOLDER [-j JOBS] [-i INSTRUCTIONS] [-x OPTIONS] [NAME...]
#
# -j: how many programs are recorded at a time (1). -i: instructions of each program (40000000); the
# kernels, which wait for memory most of the time, run an eighth or a quarter of that, so that all
# last about as long. -x: options of the study, in words at blanks, such as "--form full".
# CORUN_STUDY, RECORDER and KERNELS name the executables, if they are built already.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
out= jobs=1 instructions=40000000 study=()
while getopts o:j:i:x: option; do
  case $option in
    o) out=$OPTARG ;;
    j) jobs=$OPTARG ;;
    i) instructions=$OPTARG ;;
    x) read -ra study <<<"$OPTARG" ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[[ $out ]] || { echo "usage: $0 -o FOLDER [-j JOBS] [-i INSTRUCTIONS] [-x OPTIONS] [NAME...]" >&2; exit 2; }
names=("$@")
if ((${#names[@]} == 0)); then
  names=(bzip2 gawk glpsol igraph metis perl sort stockfish zstd)
fi

if [[ -z ${CORUN_STUDY:-} || -z ${RECORDER:-} || -z ${KERNELS:-} ]]; then
  (cd "$root" && cargo build --release --locked -p corun-studies -p corun-trace --bins --examples)
  CORUN_STUDY=${CORUN_STUDY:-$root/target/release/corun-study}
  export RECORDER=${RECORDER:-$root/target/release/examples/record}
  export KERNELS=${KERNELS:-$root/target/release/examples/kernels}
fi
mkdir -p "$out/profiles" "$out/traces"
out=$(cd "$out" && pwd)
options="--engine exact --window 1000000"
# kernel NAME PART WORDS...
kernel() {
  nice -n 10 "$RECORDER" --name "$1" -o "$out/profiles/$1.toml" --trace "$out/traces/$1.trace" $options \
    --instructions $((instructions / $2)) -- "$KERNELS" "${@:3}"
}
kernel chase 8 chase 1 100000
kernel hash-join 4 hash-join 2 100000
kernel triad 8 triad 24 100000
"$root/scripts/record-library.sh" -o "$out/profiles" -j "$jobs" \
  -x "--lines 65536 --instructions $instructions $options --trace $out/traces/{name}.trace" "${names[@]}"
"$CORUN_STUDY" prediction --traces "$out/traces" --profiles "$out/profiles" \
  --svg "$out/prediction.svg" --rows "$out/prediction.csv" "${study[@]}" | tee "$out/prediction.txt"
