# Four programs that share CPUs with others, by affinity, by nice values, and by the shares of cgroups.
. /cases/judge
in_group weak cpu.weight 1
in_group strong cpu.weight 1000

taskset 1 sha256sum /dev/zero & one=$!
taskset 1 gzip -c /dev/zero >/dev/null & others=$!
explained "sha256sum beside gzip on CPU 0" waiting-for-cpu $one
end $one $others

taskset 2 bzip2 -c /dev/zero >/dev/null & one=$!
others=
for _ in 1 2 3; do
  taskset 2 awk 'BEGIN { while (1) sum += 1 }' & others="$others $!"
done
explained "bzip2 beside three of awk on CPU 1" waiting-for-cpu $one
end $one $others

taskset 10 md5sum /dev/zero & one=$!
renice -n 10 -p $one
taskset 10 sha256sum /dev/zero & others=$!
explained "md5sum, nice 10, beside sha256sum on CPU 4" waiting-for-cpu $one
end $one $others

sha512sum /dev/zero & one=$!
gzip -c /dev/zero >/dev/null & others=$!
# A process that is moved may run on all CPUs of its new group.
into weak $one
into strong $others
for pid in $one $others; do taskset -p 20 $pid; done
explained "sha512sum with a small share beside gzip on CPU 5" waiting-for-cpu $one
end $one $others
all_right
