#!/usr/bin/env bash
# Holds `corun explain` against 25 programs that are slow for known reasons, in a guest with several caches and nodes
# (scripts/guest): four each that are starved, throttled, swapped, far from their memory and beside a stream in their
# cache, and five of which nobody could tell. `scripts/explain-check.sh FOLDER CORUN [CPU-SECONDS]`. FOLDER keeps the guest.
# Exit code 0 when all 25 are right.
set -euo pipefail

folder=${1:?usage: scripts/explain-check.sh FOLDER CORUN [CPU-SECONDS]}
corun=${2:?usage: scripts/explain-check.sh FOLDER CORUN [CPU-SECONDS]}
here=$(cd "$(dirname "$0")/guest" && pwd)

mkdir -p "$folder"
# The disk that two of the programs are swapped to.
truncate -s 128M "$folder/disk"
"$here/build.sh" "$folder" "$corun" "$here"/explain-cases/*.sh
"$here/boot.sh" "$folder" "${3:-1800}" | tee "$folder/explained"
right=$(grep -c ': right: ' "$folder/explained" || true)
echo "corun explain: $right of 25 right"
[ "$right" -eq 25 ]
