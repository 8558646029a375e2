#!/bin/bash
# Records the profile library: real programs from Debian's packages on generated inputs, and the
# tracer's own kernels. One at a time, at low priority; about 15 minutes on one core.
#
#   scripts/record-library.sh [-o FOLDER] [-n] [NAME...]
#
# -o: where the profiles go (profiles/). -n: only run each program under plain QEMU, timed.
# RECORDER and KERNELS name the two executables, if they are built already.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/profiles
dry=
while getopts o:n option; do
  case $option in
    o) mkdir -p "$OPTARG"; out=$(cd "$OPTARG" && pwd) ;;
    n) dry=1 ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
wanted=("$@")

packages=(qemu-user python3 gzip xz-utils zstd bzip2 gnuchess stockfish gnugo cpp-12 sqlite3 povray
  x264 perl lua5.4 glpk-utils minisat cadical hmmer xsltproc openssl flac graphviz python3-numpy
  coreutils)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed' || missing+=("$package")
done
if ((${#missing[@]})); then
  if (($(id -u))); then
    echo "install these first: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"
fi

if [[ -z ${RECORDER:-} || -z ${KERNELS:-} ]]; then
  (cd "$root" && cargo build --release -p corun-trace --examples)
  RECORDER=${RECORDER:-$root/target/release/examples/record}
  KERNELS=${KERNELS:-$root/target/release/examples/kernels}
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 "$root/scripts/library-inputs.py"
ln -s "$KERNELS" kernels
export LC_ALL=C PYTHONHASHSEED=0 OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 HOME=$work
mkdir -p .povray

failed=()

# entry NAME PACKAGE STDIN INPUT COMMAND...
entry() {
  local name=$1 package=$2 stdin=$3 input=$4 program code=0
  shift 4
  if ((${#wanted[@]})) && [[ " ${wanted[*]} " != *" $name "* ]]; then
    return
  fi
  local shown="$*"
  [[ $stdin == /dev/null ]] || shown+=" < $stdin"
  if [[ $stdin == *.uci ]]; then
    # A chess engine that finds `quit` waiting stops thinking: say it after the best move.
    rm -f "$work/stdout" engine.in
    mkfifo engine.in
    (
      exec >engine.in
      cat "$stdin"
      until grep -qs '^bestmove' "$work/stdout"; do sleep 1; done
      echo quit
    ) &
    stdin=engine.in
  fi
  if [[ $dry ]]; then
    local begin=$EPOCHREALTIME
    qemu-x86_64 "$(command -v "$1")" "${@:2}" <"$stdin" >"$work/stdout" 2>"$work/stderr" || code=$?
    echo "$name: $(awk "BEGIN { print $EPOCHREALTIME - $begin }") s under plain QEMU, exit $code"
    return
  fi
  if [[ $package == corun ]]; then
    program="a kernel of corun's own: crates/corun-trace/examples/kernels.rs"
  else
    program="Debian $(dpkg-query -W -f '${Package} ${Version}' "$package")"
  fi
  local begin=$SECONDS
  nice -n 10 "$RECORDER" -o "$out/$name.toml" --name "$name" --program "$program" \
    --input "$input" --shown "${shown//$work\//}" -- "$@" \
    <"$stdin" >"$work/stdout" 2>"$work/stderr" || code=$?
  grep '^record:' "$work/stderr" >&2 || true
  if ((code == 2)) && [[ ! -e $out/$name.toml ]]; then
    failed+=("$name")
  fi
  echo "$name: exit $code, $((SECONDS - begin)) s"
}

none=/dev/null
cc1=/usr/lib/gcc/x86_64-linux-gnu/12/cc1
text="1 MB of pseudo-words with Zipf's popularity"

entry gzip gzip $none "$text" gzip -9 -c text.txt
entry xz xz-utils $none "$text" xz -9 -T1 -c text.txt
entry zstd zstd $none "$text" zstd --single-thread -12 -q -c text.txt
entry bzip2 bzip2 $none "$text" bzip2 -9 -c text.txt
entry gnuchess gnuchess gnuchess.uci "the opening position, depth 9, 16 MB hash; it crashes when told to quit, untraced too" /usr/games/gnuchess -u
entry stockfish stockfish $none "its own bench: 16 MB hash, one search thread, depth 7" \
  /usr/games/stockfish bench 16 1 7
entry gnugo gnugo gnugo.gtp "six moves on a board of 9, level 4" /usr/games/gnugo --mode gtp --seed 1
entry cc1 cpp-12 $none "8 generated C functions, -O2" $cc1 -O2 -quiet source.c -o source.s
entry sqlite3 sqlite3 statements.sql "75,000 rows generated, joined and grouped in memory" \
  sqlite3 :memory:
entry povray povray $none "400 spheres on a reflecting plane, 128 x 96" \
  povray -D +WT1 +W128 +H96 +Iscene.pov +Oscene.png
entry x264 x264 $none "4 generated CIF frames" \
  x264 --threads 1 --preset medium -o video.264 video.y4m
entry python3 python3 $none "shortest paths in a graph of 20,011 nodes, word counts of a text" \
  /usr/bin/python3 work.py
entry perl perl-base $none "word pairs of a text of 52,000 words" perl work.pl
entry lua lua5.4 $none "binary trees of depth 12 and 16" lua5.4 work.lua
entry glpsol glpk-utils $none "a transport problem of 40 supplies and 140 demands, by simplex" \
  glpsol --lp transport.lp --nopresol
entry minisat minisat $none "random 3-SAT, 170 variables, 724 clauses" minisat -verb=0 small.cnf
entry cadical cadical $none "random 3-SAT, 160 variables, 682 clauses" cadical -q large.cnf
hmmbuild --cpu 0 family.hmm family.sto >/dev/null
entry hmmsearch hmmer $none "a family of 30 sequences against 2000 random proteins" \
  hmmsearch --cpu 0 family.hmm proteins.fa
entry xsltproc xsltproc $none "12,000 generated books sorted and counted" \
  xsltproc -o books.html books.xsl books.xml
entry openssl openssl $none "SHA-256 of 8 MB" openssl dgst -sha256 records.txt
entry flac flac $none "34 s of generated sound" flac -5 -s -f -o sound.flac sound.wav
entry graphviz graphviz $none "force-directed drawing of 200 nodes and 398 edges" \
  neato -Tplain -o network.txt network.gv
entry sort coreutils $none "300,000 random lines, 8 MB" sort --parallel=1 -S 200M -o sorted.txt records.txt
entry numpy python3-numpy $none "matrix product and solution of 300 x 300, FFT of 2^19, sort of 400,000" \
  /usr/bin/python3 work_numpy.py
entry kernel-triad corun $none "three arrays of 16 MiB each" ./kernels triad 48 20
entry kernel-chase corun $none "a random cycle through 64 MiB" ./kernels chase 64 30
entry kernel-stencil corun $none "two squares of 12 MiB each" ./kernels stencil 24 15
entry kernel-product corun $none "three matrices of 2 MiB in blocks of 32 KiB" ./kernels product 6 1
entry kernel-hash-join corun $none "a table of 16 MiB, probed 8 times a slot" ./kernels hash-join 16 1

if ((${#failed[@]})); then
  echo "not recorded: ${failed[*]}" >&2
  exit 1
fi
