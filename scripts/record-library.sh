#!/bin/bash
# Records the profile library: real programs from Debian's packages on generated inputs, and the
# tracer's own kernels, at low priority.
#
#   scripts/record-library.sh [-o FOLDER] [-j JOBS] [-x OPTIONS] [-n] [NAME...]
#   scripts/record-library.sh -p FOLDER
#
# -o: where the profiles go (profiles/). -j: how many programs at a time (1). -x: options for the
# recorder, in words at blanks, in place of "--engine fixed-size"; {name} stands for the program's name.
# -n: only run each program under plain QEMU, timed. -p: only put what the programs read into FOLDER,
# for `corun validate --folder FOLDER`, with a file `environment` for the shell that runs it.
# RECORDER and KERNELS name the two executables, if they are built already.
# profiles/README.md says what each program stands for. Where PostgreSQL is recorded by root, user
# namespaces must be allowed: it refuses to run as root.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/profiles
dry= prepared= jobs=1 options=(--engine fixed-size)
while getopts o:j:x:np: option; do
  case $option in
    o) mkdir -p "$OPTARG"; out=$(cd "$OPTARG" && pwd) ;;
    j) [[ $OPTARG =~ ^[1-9][0-9]*$ ]] || { echo "$0: -j takes a number from 1" >&2; exit 2; }
       jobs=$OPTARG ;;
    x) read -ra options <<<"$OPTARG" ;;
    n) dry=1 ;;
    p) mkdir -p "$OPTARG"; prepared=$(cd "$OPTARG" && pwd) ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
wanted=("$@")
for name in "${wanted[@]}"; do
  grep -q "^entry $name " "$0" || { echo "$0: no program is named $name" >&2; exit 2; }
done

packages=(bwa bzip2 cadical calculix-ccx coinor-clp coreutils cpp-12 espeak-ng flac gawk gcc git
  glpk-utils gnuchess gnugo graphviz gzip hmmer imagemagick-6.q16 lammps liblemon-utils
  libquantum-dev lua5.4 memcached metis minisat openssl perl pocketsphinx pocketsphinx-en-us
  postgresql-15 povray python3 python3-igraph python3-numpy qemu-user redis-server ruby3.1 sqlite3
  stockfish tcc x264 xalan xsltproc xz-utils z3 zstd)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed' || missing+=("$package")
done
if ((${#missing[@]})); then
  if (($(id -u))); then
    echo "install these first: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  # RUNLEVEL keeps the packages of servers from starting them.
  apt-get update -qq && RUNLEVEL=1 apt-get install -y --no-install-recommends "${missing[@]}"
fi

if [[ -z ${RECORDER:-} || -z ${KERNELS:-} ]]; then
  (cd "$root" && cargo build --release --locked -p corun-trace --examples)
  RECORDER=${RECORDER:-$root/target/release/examples/record}
  KERNELS=${KERNELS:-$root/target/release/examples/kernels}
fi
RECORDER=$(realpath "$RECORDER") KERNELS=$(realpath "$KERNELS")

if [[ $prepared ]]; then
  work=$prepared
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
cd "$work"
mkdir -p log .povray
cp "$root"/scripts/library/* .
ln -sf "$KERNELS" kernels
# What programs do depends on it; whoever times them later reads this file too.
cat >environment <<END
export LC_ALL=C TZ=UTC HOME='$work' PYTHONHASHSEED=0 OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
export MAGICK_THREAD_LIMIT=1 OMPI_MCA_ess_singleton_isolated=1
export GIT_CONFIG_NOSYSTEM=1
END
. ./environment
python3=/usr/bin/python3
postgres=/usr/lib/postgresql/15/bin

# PostgreSQL refuses root: it gets another user's number, in a namespace.
as_user=()
(($(id -u))) || as_user=(unshare --user --map-user=1000)

is_wanted() {
  ((${#wanted[@]} == 0)) || [[ " ${wanted[*]} " == *" $1 "* ]]
}

# Inputs that programs make rather than library-inputs.py.
prepare() {
  $python3 "$root/scripts/library-inputs.py"
  hmmbuild --cpu 0 family.hmm family.sto >/dev/null
  bwa index genome.fa 2>/dev/null
  gcc -O2 -o shor shor.c -lquantum -lgomp -lm
  espeak-ng -v en-us -s 170 -w spoken.wav "go forward"
  $python3 resample.py spoken.wav speech.wav 16000
  git init -q --bare repository
  git --git-dir=repository fast-import --quiet <history
  # The first time it has other page faults than each later one.
  git --git-dir=repository -c pack.threads=1 pack-objects --all --no-reuse-delta --no-reuse-object -q --stdout >/dev/null
  if is_wanted postgres; then
    gcc -O2 -shared -fPIC -o no_timer.so no_timer.c
    "${as_user[@]}" $postgres/initdb -D pgdata -U postgres -A trust -E UTF8 --no-sync >/dev/null
  fi
}

# Says `quit` to a chess engine after its best move: one that finds it waiting stops thinking.
chess_player() {
  exec >"$1.pipe"
  cat "$2"
  until grep -qs '^bestmove' "log/$1.out"; do sleep 1; done
  echo quit
}

# The exit codes a program may end with besides 0 (also the code of a recording that was stopped at a
# limit). Those of SAT solvers are their answers. GNU Chess crashes when told to quit, untraced too.
declare -A good_codes=([minisat]="10 20" [cadical]="10 20" [gnuchess]="1 139")

# run_one NAME PACKAGE STDIN INPUT COMMAND...: one log line; leaves NAME in log/failed on failure.
run_one() {
  local name=$1 package=$2 stdin=$3 input=$4 program code=0 helper= figures=
  shift 4
  local shown="$*" runner=()
  [[ $stdin == /dev/null ]] || shown+=" < $stdin"
  shown=${shown//$work\//}
  case $name in
    gnuchess)
      mkfifo "$name.pipe"
      chess_player "$name" "$stdin" & helper=$!
      stdin=$name.pipe ;;
    redis | memcached*)
      $python3 load.py "$name" "$name.sock" 2>"log/$name.load" & helper=$! ;;
    postgres) runner=("${as_user[@]}" env LD_PRELOAD="$work/no_timer.so") ;;
  esac
  if [[ $dry ]]; then
    runner+=(qemu-x86_64 "$(command -v "$1")" "${@:2}")
  else
    if [[ $package == corun ]]; then
      program="a kernel of corun's own: crates/corun-trace/examples/kernels.rs"
    else
      program="Debian $(dpkg-query -W -f '${Package} ${Version}' "$package")"
      [[ $name != libquantum ]] || program+=", called by scripts/library/shor.c"
    fi
    runner+=(nice -n 10 "$RECORDER" -o "$out/$name.toml" --name "$name" --program "$program"
      --input "$input" --shown "$shown" "${options[@]//\{name\}/$name}" -- "$@")
  fi
  local begin=$EPOCHREALTIME
  touch "log/$name.begin"
  "${runner[@]}" <"$stdin" >"log/$name.out" 2>"log/$name.err" || code=$?
  local seconds
  seconds=$(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $begin }")
  if [[ $helper ]]; then
    # A server or an engine that ended before its time leaves its client waiting.
    ((code == 0)) || kill "$helper" 2>/dev/null || true
    if ! wait "$helper" && ((code == 0)); then
      code="$code, its load failed: $(tail -n 1 "log/$name.load")"
    fi
  fi
  if [[ -z $dry && $out/$name.toml -nt log/$name.begin ]]; then
    local instructions
    instructions=$(awk '/^\[/ { phase = /^\[\[phase\]\]/ }
      phase && /^instructions = / { sum += $3 } END { printf "%.0f", sum }' "$out/$name.toml")
    echo "$instructions" >>log/instructions
    figures=", $((instructions / 1000000)) M instructions"
  elif [[ -z $dry ]]; then
    figures=", not recorded"
  fi
  echo "$name: $seconds s$figures, exit $code"
  # What the recorder says; the program's own words where it went wrong.
  grep '^record:' "log/$name.err" | sed 's/^/  /' || true
  if [[ $figures == *not* || " 0 ${good_codes[$name]:-} " != *" $code "* ]]; then
    echo "$name" >>log/failed
    grep -v '^record:' "log/$name.err" | tail -n 3 | sed 's/^/  /' || true
  fi
}

count=0

# entry NAME PACKAGE STDIN INPUT COMMAND...
entry() {
  is_wanted "$1" || return 0
  count=$((count + 1))
  while (($(jobs -rp | wc -l) >= jobs)); do wait -n || true; done
  run_one "$@" &
}

none=/dev/null
cc1=/usr/lib/gcc/x86_64-linux-gnu/12/cc1
text="1 MB of pseudo-words with Zipf's popularity"

begin=$SECONDS
prepare
if [[ $prepared ]]; then
  echo "$prepared has what the programs read"
  exit
fi

# The longest first, so that two at a time end together.
entry pocketsphinx pocketsphinx $none "the words \"go forward\", spoken by eSpeak NG, US English model" \
  pocketsphinx_continuous -infile speech.wav -ds 2 -topn 2 -maxhmmpf 3000 -logfn /dev/null
entry lammps lammps $none "a Lennard-Jones fluid of 4000 atoms that melts, 20 steps" \
  lmp -in melt.lammps -log none
entry imagemagick imagemagick-6.q16 $none "a picture of 640 x 480 enlarged, sharpened and turned" \
  /usr/bin/convert-im6.q16 picture.ppm -resize 120% -unsharp 0x1 -rotate 7 picture.png
entry igraph python3-igraph $none "a graph of 20,000 nodes and 80,000 edges: page rank, cores, distances, communities" \
  $python3 work_igraph.py
entry xz xz-utils $none "$text" xz -9 -T1 -c text.txt
entry graphviz graphviz $none "force-directed drawing of 200 nodes and 398 edges" \
  neato -Tplain -o network.txt network.gv
entry stockfish stockfish $none "its own bench: 16 MB hash, one search thread, depth 7" \
  /usr/games/stockfish bench 16 1 7
entry numpy python3-numpy $none "matrix product and solution of 300 x 300, FFT of 2^19, sort of 400,000" \
  $python3 work_numpy.py
entry redis redis-server $none "20,000 keys set, then 60,000 requests, from one client in batches of 64" \
  redis-server --port 0 --unixsocket redis.sock --save "" --appendonly no
entry memcached memcached $none "20,000 keys set, then 60,000 requests, from one client in batches of 64" \
  memcached -u root -A -s memcached.sock -t 1 -m 16
entry postgres postgresql-15 queries.sql "32,000 rows generated, joined and grouped; 150 updates; single-user server" \
  $postgres/postgres --single -D pgdata -c fsync=off postgres
entry clp coinor-clp $none "a sparse program of 400 rows and 1200 columns, by simplex" clp packing.lp
entry calculix calculix-ccx $none "a bent beam of 600 bricks, solved directly" ccx beam
entry bwa bwa $none "1200 reads of 100 bases against a genome of 3 M bases" bwa mem genome.fa reads.fq
entry gawk gawk $none "an index of a text of 150,000 words" gawk -f work.awk text.txt
entry ruby ruby3.1 $none "an index of a text of 52,000 words" /usr/bin/ruby3.1 work.rb
entry xalan xalan $none "12,000 generated books sorted and counted" xalan -in books.xml -xsl books.xsl -out books2.html
entry git git $none "150 commits of 3 of 40 files packed anew" \
  /usr/bin/git --git-dir=repository -c pack.threads=1 pack-objects --all --no-reuse-delta --no-reuse-object -q --stdout
entry libquantum libquantum8 $none "Shor's algorithm on 55" ./shor 55 2
entry metis metis $none "a grid of 40,000 nodes with long edges in 16 parts" gpmetis -seed=1 mesh.graph 16
entry lemon liblemon-utils $none "a minimum-cost flow of 4000 nodes and 40,000 arcs, by network simplex" \
  dimacs-solver network.min
entry z3 z3 $none "a job shop of 6 jobs and 6 machines, in differences" z3 shop.smt2
entry tcc tcc $none "1200 generated C functions" tcc -c large.c -o large.o
entry x264-mt x264 $none "4 generated CIF frames, 3 threads" \
  x264 --threads 3 --preset medium -o video-mt.264 video.y4m

entry gzip gzip $none "$text" gzip -9 -c text.txt
entry zstd zstd $none "$text" zstd --single-thread -12 -q -c text.txt
entry zstd-mt zstd $none "8 MB of random records, 3 threads" zstd -T3 -3 -B1048576 -q -c records.txt
entry bzip2 bzip2 $none "$text" bzip2 -9 -c text.txt
entry gnuchess gnuchess gnuchess.uci "the opening position, depth 9, 16 MB hash; it crashes when told to quit, untraced too" /usr/games/gnuchess -u
entry gnugo gnugo gnugo.gtp "six moves on a board of 9, level 4" /usr/games/gnugo --mode gtp --seed 1
entry cc1 cpp-12 $none "8 generated C functions, -O2" $cc1 -O2 -quiet source.c -o source.s
entry sqlite3 sqlite3 statements.sql "75,000 rows generated, joined and grouped in memory" \
  sqlite3 :memory:
entry povray povray $none "400 spheres on a reflecting plane, 128 x 96" \
  povray -D +WT1 +W128 +H96 +Iscene.pov +Oscene.png
entry x264 x264 $none "4 generated CIF frames" \
  x264 --threads 1 --preset medium -o video.264 video.y4m
entry python3 python3 $none "shortest paths in a graph of 20,011 nodes, word counts of a text" \
  $python3 work.py
entry perl perl-base $none "word pairs of a text of 52,000 words" perl work.pl
entry lua lua5.4 $none "binary trees of depth 12 and 16" lua5.4 work.lua
entry glpsol glpk-utils $none "a transport problem of 40 supplies and 140 demands, by simplex" \
  glpsol --lp transport.lp --nopresol
entry minisat minisat $none "random 3-SAT, 170 variables, 724 clauses" minisat -verb=0 small.cnf
entry cadical cadical $none "random 3-SAT, 160 variables, 682 clauses" cadical -q large.cnf
entry hmmsearch hmmer $none "a family of 30 sequences against 2000 random proteins" \
  hmmsearch --cpu 0 family.hmm proteins.fa
entry xsltproc xsltproc $none "12,000 generated books sorted and counted" \
  xsltproc -o books.html books.xsl books.xml
entry openssl openssl $none "SHA-256 of 8 MB" openssl dgst -sha256 records.txt
entry flac flac $none "34 s of generated sound" flac -5 -s -f -o sound.flac sound.wav
entry sort coreutils $none "300,000 random lines, 8 MB" sort --parallel=1 -S 200M -o sorted.txt records.txt
entry kernel-triad corun $none "three arrays of 16 MiB each" ./kernels triad 48 20
entry kernel-chase corun $none "a random cycle through 64 MiB" ./kernels chase 64 30
entry kernel-stencil corun $none "two squares of 12 MiB each" ./kernels stencil 24 15
entry kernel-product corun $none "three matrices of 2 MiB in blocks of 32 KiB" ./kernels product 6 1
entry kernel-hash-join corun $none "a table of 16 MiB, probed 8 times a slot" ./kernels hash-join 16 1
wait

total=
[[ ! -e log/instructions ]] || total=", $(awk '{ s += $1 } END { printf "%.1f", s / 1e9 }' log/instructions) G instructions"
echo "$count programs, $((SECONDS - begin)) s$total"
if [[ -e log/failed ]]; then
  echo "failed: $(sort log/failed | tr '\n' ' ')" >&2
  exit 1
fi
