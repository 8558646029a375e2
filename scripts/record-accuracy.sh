#!/bin/bash
# Records the programs of the library twice more, every line exactly and 1 line in 100, for
# `corun-study sampling --exact FOLDER/exact --sampled FOLDER/sampled`.
#
#   scripts/record-accuracy.sh -o FOLDER [-j JOBS] [-x OPTIONS] [NAME...]
#
# -x: more options for the recorder, such as "--instructions 200000000" for the beginnings alone.
# RATE: the share of lines followed in the second recording (0.01).
set -euo pipefail

record=$(dirname "$0")/record-library.sh
out= jobs=1 more=
while getopts o:j:x: option; do
  case $option in
    o) out=$OPTARG ;;
    j) jobs=$OPTARG ;;
    x) more=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[[ $out ]] || { echo "usage: $0 -o FOLDER [-j JOBS] [-x OPTIONS] [NAME...]" >&2; exit 2; }

code=0
"$record" -o "$out/exact" -j "$jobs" -x "--engine exact $more" "$@" || code=$?
"$record" -o "$out/sampled" -j "$jobs" -x "--engine fixed-rate --rate ${RATE:-0.01} $more" "$@" || code=$?
exit $code
