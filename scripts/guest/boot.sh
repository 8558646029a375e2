#!/usr/bin/env bash
# Boots the guest that build.sh built: 2 packages, 4 LLCs, 2 NUMA nodes, 8 CPUs.
#
#   scripts/guest/boot.sh FOLDER [SECONDS]
#
# Prints the guest's console. Each case ends in a line `case NAME: ok` or `case NAME: failed`, all of
# them in `guest: done`. Exit code 0 when all are ok. Killed after SECONDS (300).
set -euo pipefail

folder=$1
log=$folder/console.log
timeout -k 5 "${2:-300}" qemu-system-x86_64 -accel tcg,thread=multi \
  -cpu Skylake-Server-v4,l3-cache=on -smp 8,sockets=2,dies=2,cores=2,threads=1 -m 1024 \
  -object memory-backend-ram,id=m0,size=512M -object memory-backend-ram,id=m1,size=512M \
  -numa node,nodeid=0,memdev=m0,cpus=0-3 -numa node,nodeid=1,memdev=m1,cpus=4-7 \
  -numa dist,src=0,dst=1,val=21 \
  -kernel "$folder/vmlinuz" -initrd "$folder/initrd.gz" -append "console=ttyS0 quiet panic=-1" \
  -nographic -no-reboot </dev/null 2>"$folder/qemu.log" | stdbuf -oL tr -d '\r' | tee "$log"
grep -q '^guest: done' "$log" && ! grep -q '^case .*: failed' "$log"
