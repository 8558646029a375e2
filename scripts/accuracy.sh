#!/usr/bin/env bash
# How near are predictions to what this machine does?
#
#   scripts/accuracy.sh FOLDER [OPTIONS OF corun validate]
#
# Puts what the shipped programs read into FOLDER/inputs, and records some of them with larger inputs and kernels of other
# sizes into FOLDER/profiles. Then measures the machine, runs the shipped programs alone, and runs all that end within 2 s
# beside a stream over memory, a walk through most of the last cache, again and again, and a hash join as large as that
# cache (of at most 64 MiB). Writes FOLDER/accuracy.{html,svg,json,txt} of the programs alone, FOLDER/pairs.{html,svg,json,txt} of
# the pairs, and FOLDER/machine.toml. Some 20 minutes and what is built, more where
# a host moves the CPUs between caches; the machine should have nothing else to do.
# CORUN names the command, if it is built already. CACHE_MIB: the size of the last cache in MiB, in place of what
# Linux says of the level-3 cache.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
[[ ${1:-} ]] || { echo "usage: $0 FOLDER [OPTIONS OF corun validate]" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
cache=${CACHE_MIB:-}
if [[ -z $cache ]]; then
  kib=$(</sys/devices/system/cpu/cpu0/cache/index3/size)
  cache=$((${kib%K} / 1024))
fi

if [[ -z ${CORUN:-} ]]; then
  (cd "$root" && cargo build --release --locked -p corun)
  CORUN=$root/target/release/corun
fi
CORUN=$(realpath "$(command -v "$CORUN")")
[[ -f $folder/inputs/environment ]] || "$root/scripts/record-library.sh" -p "$folder/inputs"
mkdir -p "$folder/profiles"
cd "$folder/inputs"
# shellcheck source=/dev/null
. ./environment

larger_inputs() {
  /usr/bin/python3 "$root/scripts/library-inputs.py" --larger
  bwa index genome-large.fa 2>/dev/null
  sed 's/20011/60011/g; s/text.txt/text-large.txt/' work.py >work-large.py
  sed 's/4000/8000/; s/text.txt/text-large.txt/' work.pl >work-large.pl
  sed 's/4000/12000/; s/text.txt/text-large.txt/' work.rb >work-large.rb
  sed 's/tree(16)/tree(18)/; s/1, 20/1, 40/' work.lua >work-large.lua
}

# record NAME COMMAND...: the recording of a program that the library does not have.
record() {
  local profile=$folder/profiles/$1.toml
  [[ -f $profile ]] || "$CORUN" profile -o "$profile" --name "$1" -- "${@:2}" >/dev/null
}

[[ -f work-large.lua ]] || larger_inputs
# As long on a server's cache of hundreds of MiB as on one of 32.
record press-stream ./kernels triad $((3 * cache)) $((2560 / cache))
record press-walk ./kernels walk $((3 * cache / 4)) $((11200 / cache))
record press-join ./kernels hash-join $((cache < 64 ? cache : 64)) 1
record kernel-hash-join-4 ./kernels hash-join 4 4
record kernel-hash-join-8 ./kernels hash-join 8 2
record kernel-chase-8 ./kernels chase 8 8
record kernel-stencil-8 ./kernels stencil 8 120
record lua-large lua5.4 work-large.lua
record bwa-large bwa mem genome-large.fa reads-large.fq
record sort-large sort --parallel=1 -S 400M -o sorted-large.txt records-large.txt
record python3-large /usr/bin/python3 work-large.py
record perl-large perl work-large.pl
record ruby-large /usr/bin/ruby3.1 work-large.rb
record sqlite3-large sqlite3 :memory: ".read statements-large.sql"
record xalan-large xalan -in books-large.xml -xsl books-large.xsl -out books-large.html
record metis-large gpmetis -seed=1 mesh-large.graph 16
record zstd-large zstd --single-thread -12 -q -c text-large.txt

machine=$folder/machine.toml
"$CORUN" calibrate --force --output "$machine" --report "$folder/machine.html" >"$folder/machine.txt"
"$CORUN" validate --machine "$machine" --groups 0 --format json "$@" >"$folder/accuracy.json"
pairs=(--machine "$machine" --profiles "shipped,$folder/profiles")
"$CORUN" validate "${pairs[@]}" --limit-s 2 --rounds 3 --groups 0 \
  --beside press-stream,press-walk,press-join --format json "$@" >"$folder/pairs.json"

# shown NAME OPTIONS...: page, plots and text of what was measured.
shown() {
  "$CORUN" validate --measured "$folder/$1.json" "${@:2}" --report "$folder/$1.html" --svg "$folder/$1.svg" |
    tee "$folder/$1.txt"
}

shown accuracy --machine "$machine"
shown pairs "${pairs[@]}"
