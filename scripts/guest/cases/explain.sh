# Two of the 25 programs of scripts/explain-check.sh: one that others starve, and one that is swapped to compressed memory.
. /cases/judge
taskset 1 sha256sum /dev/zero & one=$!
taskset 1 md5sum /dev/zero & others=$!
explained "sha256sum beside md5sum on CPU 0" waiting-for-cpu $one
end $one $others

in_group most memory.max 24M
echo 128M >/sys/block/zram0/disksize
mkswap /dev/zram0 >/dev/null
swapon /dev/zram0
sh -c 'echo $$ >/sys/fs/cgroup/most/cgroup.procs; exec dd if=/dev/zero of=/dev/null bs=64M' & one=$!
explained "dd through 64 MiB of 24, compressed memory" waiting-for-memory $one
end $one
swapoff /dev/zram0
rmdir /sys/fs/cgroup/most
# As the next case would find it without this one.
echo "-cpu -memory" >/sys/fs/cgroup/cgroup.subtree_control
all_right
