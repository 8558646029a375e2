#!/usr/bin/env bash
# How near are predictions to what this machine does?
#
#   scripts/accuracy.sh FOLDER [OPTIONS OF corun validate]
#
# Puts what the shipped programs read into FOLDER/inputs, measures the machine, runs the programs alone, in
# random pairs and beside two that press on memory and cache, and writes FOLDER/accuracy.{html,svg,json,txt}
# and FOLDER/machine.toml. Some ten minutes and what is built; the machine should have nothing else to do.
# CORUN names the command, if it is built already.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
[[ ${1:-} ]] || { echo "usage: $0 FOLDER [OPTIONS OF corun validate]" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift

if [[ -z ${CORUN:-} ]]; then
  (cd "$root" && cargo build --release --locked -p corun)
  CORUN=$root/target/release/corun
fi
[[ -f $folder/inputs/environment ]] || "$root/scripts/record-library.sh" -p "$folder/inputs"
"$CORUN" calibrate --force --output "$folder/machine.toml" --report "$folder/machine.html" >"$folder/machine.txt"
(
  # shellcheck source=/dev/null
  . "$folder/inputs/environment"
  "$CORUN" validate --folder "$folder/inputs" --machine "$folder/machine.toml" \
    --beside kernel-triad,kernel-hash-join --format json "$@" >"$folder/accuracy.json"
)
"$CORUN" validate --measured "$folder/accuracy.json" --machine "$folder/machine.toml" \
  --report "$folder/accuracy.html" --svg "$folder/accuracy.svg" | tee "$folder/accuracy.txt"
