#!/usr/bin/env bash
# Kills a corun that acts, at random moments while threads come and go, and checks after each kill that restoring
# gives every thread its CPUs and its nice value, and a cgroup its CPU set, as they were before.
#
#   scripts/kills.sh KILLS                                     on this machine: its kernel, its cgroups
#   scripts/kills.sh --guest 6.1|current [--cgroups 1|2] KILLS   in the guest of scripts/guest
#
# `current` is the kernel of Debian's backports. The guest is emulated: 100 kills take a minute. It is booted anew for each
# 250 (PIECE), with other moments each time (SEED is the first piece's). Prints a line for each piece, and at the
# end the sum; exit code 1 after the first kill that leaves something. Needs what scripts/guest needs.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
guest='' cgroups=2 piece=${PIECE:-250} seed=${SEED:-2}
while [[ ${1:-} == --* ]]; do
  case $1 in
    --guest) guest=$2 ;;
    --cgroups) cgroups=$2 ;;
    *) echo "unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
kills=${1:?how many kills}
[[ $guest =~ ^(|6\.1|current)$ && $cgroups =~ ^[12]$ && $kills =~ ^[0-9]+$ ]] || { sed -n '2,11p' "$0" >&2; exit 2; }

cd "$root"
killed=$(cargo test -j2 --locked -p corun-live --test killed --no-run 2>&1 |
  sed -n 's/.*Executable.*(\(.*\))$/\1/p')
if [[ ! $guest ]]; then
  CORUN_KILLS=$kills CORUN_KILLS_SEED=$seed "$killed" killed_under_churn --nocapture --test-threads 1 |
    grep -v '^running\|^$'
  exit
fi
folder=$root/target/kills-$guest
new=()
# Of the programs that a guest has as a rule this one needs none: they are not in that folder.
[[ $guest == 6.1 ]] || new=(--new-kernel "$(dirname "$killed")")
KILLED=$killed scripts/guest/build.sh "${new[@]}" "$folder" "$killed" scripts/guest/kill-cases/kills.sh
made=0 undone=0
while ((made < kills)); do
  count=$((kills - made < piece ? kills - made : piece))
  scripts/guest/boot.sh "$folder" 1800 "corun_kills=$count" "corun_seed=$seed" "corun_cgroups=$cgroups" >"$folder/piece.log" ||
    { cat "$folder/piece.log"; exit 1; }
  grep '  kills: ' "$folder/piece.log"
  undone=$((undone + $(sed -n 's/.*kills, \([0-9]*\) changes.*/\1/p' "$folder/piece.log")))
  made=$((made + count)) seed=$((seed + 1))
done
echo "$made kills, $undone changes were in force and are undone"
