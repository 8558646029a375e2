#!/usr/bin/env bash
# Boots the guest that build.sh built: 2 packages, 4 LLCs, 2 NUMA nodes, 8 CPUs.
#
#   scripts/guest/boot.sh FOLDER [SECONDS [KERNEL-ARGUMENT...]]
#
# Prints the guest's console. Each case ends in a line `case NAME: ok` or `case NAME: failed`, all of
# them in `guest: done`. Exit code 0 when all are ok. Killed after SECONDS (300).
#
# The guest says every 10 s of its clock that it is up, whatever its cases do. When it says nothing for 90 s (SILENCE) the
# emulator or its kernel has stopped, and it is booted anew, twice at most.
set -euo pipefail

folder=$1
seconds=${2:-300}
silence=${SILENCE:-90}
shift $(($# < 2 ? $# : 2))
arguments="console=ttyS0 quiet panic=-1 $*"
log=$folder/console.log
# The newer kernel panics where the emulator runs its CPUs side by side. One after the other they have a clock that
# counts instructions, 8 ns each: with the host's clock a busy host, and the emulator's turns of up to 100 ms a CPU,
# would look like threads that wait. ICOUNT="shift=0,sleep=off" counts a nanosecond an instruction.
emulation=(-accel tcg,thread=multi)
[[ -e $folder/one-thread ]] && emulation=(-accel tcg,thread=single -icount "${ICOUNT:-shift=3,sleep=off}")

# ONE_CPU=1: a machine of one CPU, for costs: by a clock that counts instructions, those of all CPUs count.
machine=(-smp 8,sockets=2,dies=2,cores=2,threads=1
  -object memory-backend-ram,id=m0,size=512M -object memory-backend-ram,id=m1,size=512M
  -numa node,nodeid=0,memdev=m0,cpus=0-3 -numa node,nodeid=1,memdev=m1,cpus=4-7
  -numa dist,src=0,dst=1,val=21)
[[ -z ${ONE_CPU:-} ]] || machine=(-smp 1)
# FOLDER/disk, where there is one, is the guest's /dev/nvme0n1.
[[ ! -e $folder/disk ]] || machine+=(-device nvme,drive=disk,serial=disk
  -drive "id=disk,file=$folder/disk,if=none,format=raw,cache=unsafe")

boot() {
  : >"$log"
  rm -f "$folder/pid"
  timeout -k 5 "$seconds" qemu-system-x86_64 "${emulation[@]}" -pidfile "$folder/pid" \
    -cpu Skylake-Server-v4,l3-cache=on "${machine[@]}" -m 1024 \
    -kernel "$folder/vmlinuz" -initrd "$folder/initrd" -append "$arguments" \
    -nographic -no-reboot </dev/null 2>"$folder/qemu.log" | stdbuf -oL tr -d '\r' | tee "$log" &
  local console=$! shown=0 silent=0 size
  while kill -0 "$console" 2>/dev/null; do
    sleep 1
    size=$(stat -c %s "$log")
    silent=$((size > shown ? 0 : silent + 1))
    shown=$size
    if ((silent == silence)); then
      kill -9 "$(cat "$folder/pid")" || true
      wait "$console" || true
      return 1
    fi
  done
  wait "$console" || true
}

for _ in 1 2 3; do
  boot && break
  echo "guest: said nothing for $silence s"
done
grep -q '^guest: done' "$log" && ! grep -q '^case .*: failed' "$log"
