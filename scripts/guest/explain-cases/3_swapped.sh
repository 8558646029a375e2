# Four programs with less memory than they go through: two of which the pages lie in compressed memory, where a fault
# takes time on a CPU alone, and two that wait for a disk.
. /cases/judge
in_group most memory.max 24M
in_group high memory.high 24M
swapoff_all() { for device in $(awk 'NR > 1 { print $1 }' /proc/swaps); do swapoff "$device"; done; }
# paged WHAT LIMIT: of the last program, once some of its memory is in swap. The limit is the one that is advised to be doubled.
paged() {
  for _ in $(seq 60); do
    [ "$(awk '/^VmSwap/ { print $2 }' /proc/$one/status)" -gt 8000 ] && break
    sleep 1
  done
  explained "$1" waiting-for-memory $one
  if ! grep -q "\"echo 50331648 > /sys/fs/cgroup/$2\"" explained.json; then
    echo "wrong: $1: $2 is not advised to be doubled"
    cat explained.json
    wrong=$((wrong + 1))
  fi
  end $one
}
# begin_in GROUP COMMAND...
begin_in() {
  sh -c 'echo $$ >/sys/fs/cgroup/$0/cgroup.procs; exec "$@"' "$@" & one=$!
}

echo 128M >/sys/block/zram0/disksize
mkswap /dev/zram0 >/dev/null
swapon /dev/zram0
begin_in most dd if=/dev/zero of=/dev/null bs=64M
paged "dd through 64 MiB of 24, compressed memory" most/memory.max
begin_in high awk 'BEGIN { for (i = 0; i < 400000; i++) a[i] = i; while (1) for (i = 0; i < 400000; i++) a[i]++ }'
paged "awk above its memory.high, compressed memory" high/memory.high
swapoff_all

mkswap /dev/nvme0n1 >/dev/null
swapon /dev/nvme0n1
begin_in most dd if=/dev/zero of=/dev/null bs=48M
paged "dd through 48 MiB of 24, a disk" most/memory.max
begin_in high awk 'BEGIN { for (i = 0; i < 400000; i++) a[i] = i; while (1) for (i = 0; i < 400000; i++) a[i]++ }'
paged "awk above its memory.high, a disk" high/memory.high
swapoff_all
all_right
