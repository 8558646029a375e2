#!/usr/bin/env bash
# What the tracer costs, as a Markdown table: user seconds of each program under plain QEMU, under
# an empty memory callback, under the tracer's engines, and under valgrind's cachegrind.
#
#   scripts/tracer-cost.sh [FILE]
#
# FILE holds one program a line: a name, a blank, and a shell command with standard input and all.
# Without it, a few of the library's programs run on inputs made in a new folder.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
record=$root/target/release/examples/record
kernels=$root/target/release/examples/kernels
plugin=${CORUN_PLUGIN:-$root/target/release/deps/libcorun_trace.so}
[ -x "$record" ] && [ -f "$plugin" ] || {
  echo "run first: cargo build --release -p corun-trace --examples" >&2
  exit 2
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
list=$(realpath "${1:-$folder/programs}")
cd "$folder"
if [ $# -eq 0 ]; then
  python3 "$root/scripts/library-inputs.py"
  cat >"$list" <<END
sqlite3 /usr/bin/sqlite3 :memory: <statements.sql
python3 /usr/bin/python3 -c "print(len({w[:9]: w for w in sorted(open('text.txt').read().split() * 3)}))"
xz /usr/bin/xz -1 -T1 -c text.txt
chase $kernels chase 3 60
stencil $kernels stencil 3 40
walk $kernels walk 3 100
END
fi

# measure WORDS...: user seconds, and peak resident MiB.
measure() {
  /usr/bin/time -o time -f '%U %M' bash -c "$*" >/dev/null 2>errors || {
    tail -3 errors >&2
    return 1
  }
  awk '{ printf "%s %.0f", $1, $2 / 1024 }' time
}

echo "| program | plain QEMU s | empty callback s | fixed size | fixed rate 1 % | exact | cachegrind | MiB plain / fixed size / fixed rate / exact |"
echo "|---|---|---|---|---|---|---|---|"
while read -r name command; do
  read -r plain plain_mib < <(measure "qemu-x86_64 $command"; echo)
  read -r idle _ < <(measure "qemu-x86_64 -plugin $plugin,idle=on $command"; echo)
  traced() { measure "$record -o profile --engine $1 --rate 0.01 -- $command"; echo; }
  read -r size size_mib < <(traced fixed-size)
  read -r rate rate_mib < <(traced fixed-rate)
  read -r exact exact_mib < <(traced exact)
  grind="valgrind --tool=cachegrind --cache-sim=yes --cachegrind-out-file=/dev/null"
  read -r grind _ < <(measure "$grind $command"; echo)
  awk -v n="$name" -v p="$plain" -v i="$idle" -v s="$size" -v r="$rate" -v e="$exact" -v g="$grind" \
    -v m="$plain_mib / $size_mib / $rate_mib / $exact_mib" 'BEGIN {
      printf "| %s | %.2f | %.2f | %.1f x | %.1f x | %.1f x | %.1f x | %s |\n",
        n, p, i, s / i, r / i, e / i, g / i, m }'
done <"$list"
