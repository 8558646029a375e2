# Four programs with quotas from a tenth to seven tenths of a CPU, one of a group above its own, one of several threads.
. /cases/judge
in_group tenth cpu.max "10000 100000"
in_group half cpu.max "25000 50000"
in_group above cpu.max "30000 100000"
echo +cpu >/sys/fs/cgroup/above/cgroup.subtree_control
in_group above/below cpu.weight 100
in_group threads cpu.max "70000 100000"

sha256sum /dev/zero & one=$!
into tenth $one
explained "sha256sum with a tenth of a CPU" throttled-by-quota $one
end $one

gzip -c /dev/zero >/dev/null & one=$!
into half $one
explained "gzip with half a CPU" throttled-by-quota $one
end $one

awk 'BEGIN { while (1) sum += 1 }' & one=$!
into above/below $one
explained "awk below a group with 0.3 CPUs" throttled-by-quota $one
end $one

corun stand-in --threads 3 & one=$!
into threads $one
explained "three threads with 0.7 CPUs" throttled-by-quota $one
end $one
all_right
