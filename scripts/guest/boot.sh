#!/usr/bin/env bash
# Boots the guest that build.sh built: 2 packages, 4 LLCs, 2 NUMA nodes, 8 CPUs.
#
#   scripts/guest/boot.sh FOLDER [CPU-SECONDS [KERNEL-ARGUMENT...]]
#
# Prints the guest's console. Each case ends in a line `case NAME: ok` or `case NAME: failed`, all of
# them in `guest: done`. Exit code 0 when all are ok. Killed once the emulator has used CPU-SECONDS of CPU time, all
# boots together: how busy the host is does not count. Below each case stands how much CPU time the emulator used since the
# case before, or since it began.
#
# The guest says every 10 s of its clock that it is up, whatever its cases do. It is booted anew, twice at most, when it
# says nothing while the emulator uses 90 s of CPU time (SILENCE), or sleeps for 90 s. Time for which the emulator waits for
# a CPU of the host does not count: on a busy host a guest that works says nothing for minutes. Before the guest is booted
# anew, lines that begin with `silence: ` say what the emulator was at: its threads, and the registers of all CPUs.
set -euo pipefail

folder=$1
cpu_seconds=${2:-600}
silence=${SILENCE:-90}
shift $(($# < 2 ? $# : 2))
# A busy host lets no tick of a timer through for so long that the kernel would take the timer for broken, and stop.
# The kernel does not check its ciphers against known answers: 1.7 of the 3.9 billion instructions of a boot.
arguments="console=ttyS0 quiet panic=-1 nokaslr no_timer_check cryptomgr.notests $*"
log=$folder/console.log
addresses=
# Hundredths of a second of CPU time that the boots before used.
spent=0
# The newer kernel panics where the emulator runs its CPUs side by side. One after the other they have a clock that
# counts instructions, 8 ns each: with the host's clock a busy host, and the emulator's turns of up to 100 ms a CPU,
# would look like threads that wait. ICOUNT="shift=0,sleep=off" counts a nanosecond an instruction. The older kernel does
# not boot so: its first CPU waits for the next one and never lets it run.
emulation=(-accel tcg,thread=multi)
[[ -e $folder/one-thread ]] && emulation=(-accel tcg,thread=single -icount "${ICOUNT:-shift=3,sleep=off}")

# ONE_CPU=1: a machine of one CPU, for costs: by a clock that counts instructions, those of all CPUs count.
# Otherwise the kernel leaves out what protects it from its programs: other page tables in the kernel make the emulator forget
# all addresses at each system call. And it is not told that copying byte by byte were fast. The cases take 30 % less CPU time.
processor=Skylake-Server-v4,l3-cache=on
if [[ ${ONE_CPU:-} ]]; then
  machine=(-smp 1)
else
  machine=(-smp 8,sockets=2,dies=2,cores=2,threads=1
    -object memory-backend-ram,id=m0,size=512M -object memory-backend-ram,id=m1,size=512M
    -numa node,nodeid=0,memdev=m0,cpus=0-3 -numa node,nodeid=1,memdev=m1,cpus=4-7
    -numa dist,src=0,dst=1,val=21)
  processor+=,-erms,-fsrm,-smap
  arguments+=" mitigations=off"
fi
# FOLDER/disk, where there is one, is the guest's /dev/nvme0n1.
[[ ! -e $folder/disk ]] || machine+=(-device nvme,drive=disk,serial=disk
  -drive "id=disk,file=$folder/disk,if=none,format=raw,cache=unsafe")

# ask COMMAND...: what the emulator answers within 5 s.
ask() {
  printf '%s\n' "$@" >"$folder/monitor.in" &
  local writer=$!
  timeout 5 cat "$folder/monitor.out" || true
  kill "$writer" 2>/dev/null || true
}

# The threads of a process: their states, their ticks of CPU time and where in the host's kernel they wait.
threads() {
  local task
  for task in /proc/"$1"/task/*; do
    sed 's/.*) //' "$task/stat" | awk -v name="$(cat "$task/comm")" -v waits="$(cat "$task/wchan" 2>/dev/null || true)" \
      '{ print "thread " name ": " $1 ", " $12 " ticks in user mode, " $13 " in the kernel, waits in " waits }'
  done
}

# What the emulator with this number is at, twice: what changes between them runs. The next boot names the functions of the
# kernel in which the guest's CPUs are (`nokaslr`: they are where they were).
explain() {
  local registers
  sed "/TCG doesn't support requested feature/d; s/^/silence: the emulator says: /" "$folder/qemu.log"
  for _ in 1 2; do
    threads "$1" | sed 's/^/silence: /'
    registers=$(ask 'info status' 'info registers -a' | tr -d '\r' | grep -E '^(VM status|CPU#|[ER](AX|SI|IP)|R8|R12)' || true)
    sed 's/^/silence: /' <<<"$registers"
    addresses+=$(sed -n 's/^[ER]IP=\([0-9a-f]*\).*/,\1/p' <<<"$registers" | tr -d '\n')
  done
}

# Hundredths of a second of CPU time that a process used; nothing where it is no more.
cpu_time() {
  local stat
  read -ra stat 2>/dev/null <"/proc/$1/stat" && echo $((stat[13] + stat[14]))
}

# Does a thread of the process run or wait for a CPU of the host, or was the process stopped by a signal?
wants_cpu() {
  cat "/proc/$1"/task/*/stat 2>/dev/null | sed 's/.*) //' | grep -q '^[RT]'
}

# Prints its input, and below each case the emulator's CPU time.
with_cpu_time() {
  local line now before=0
  while IFS= read -r line; do
    printf '%s\n' "$line"
    [[ $line == "case "* ]] || continue
    now=$(cpu_time "$(cat "$folder/pid" 2>/dev/null)") || continue
    echo "  $(((now - before) / 100)).$(((now - before) / 10 % 10)) s of the emulator's CPU time"
    before=$now
  done
}

# Returns when the emulator ends (0), or when its guest has stopped or has used up its CPU time (1).
watch_over() {
  local shown=0 size said=0 used=0 now asleep=0 pid
  while kill -0 "$1" 2>/dev/null; do
    sleep 1
    pid=$(cat "$folder/pid" 2>/dev/null) && now=$(cpu_time "$pid") || continue
    size=$(stat -c %s "$log")
    asleep=$((asleep + 1))
    if ((now > used)) || wants_cpu "$pid"; then asleep=0; fi
    used=$now
    if ((spent + used >= cpu_seconds * 100)); then
      echo "guest: used up the $cpu_seconds s of CPU time that it may use"
      spent=$((spent + used))
      return 1
    fi
    if ((size > shown)); then
      shown=$size said=$now asleep=0
    elif ((now - said >= silence * 100 || asleep >= silence)); then
      echo "guest: said nothing for $(((now - said) / 100)) s of the emulator's CPU time, and it sleeps for $asleep s"
      break
    fi
  done
  spent=$((spent + used))
  ! kill -0 "$1" 2>/dev/null
}

boot() {
  : >"$log"
  rm -f "$folder"/pid "$folder"/monitor.*
  mkfifo "$folder"/monitor.{in,out}
  qemu-system-x86_64 "${emulation[@]}" -pidfile "$folder/pid" \
    -cpu "$processor" "${machine[@]}" -m 1024 -monitor "pipe:$folder/monitor" \
    -kernel "$folder/vmlinuz" -initrd "$folder/initrd" -append "$arguments${addresses:+ corun_addresses=${addresses#,}}" \
    -nographic -no-reboot </dev/null 2>"$folder/qemu.log" | stdbuf -oL tr -d '\r' | tee "$log" | with_cpu_time &
  local console=$! is_ok=0
  watch_over "$console" || is_ok=1
  if ((is_ok != 0)); then
    explain "$(cat "$folder/pid")" || true
    kill -9 "$(cat "$folder/pid")" 2>/dev/null || true
  fi
  wait "$console" || true
  rm -f "$folder/pid"
  return "$is_ok"
}

trap 'kill -9 "$(cat "$folder/pid" 2>/dev/null)" 2>/dev/null || true' EXIT
for _ in 1 2 3; do
  ((spent < cpu_seconds * 100)) || break
  boot && break
done
rm -f "$folder"/monitor.*
grep -q '^guest: done' "$log" && ! grep -q '^case .*: failed' "$log"
