# Threads of a cgroup that has CPUs in the scheduler begin there, before anybody looked at them. Then a daemon holds a
# container by its cgroup: it needs no cpuset for that, touches nobody's affinity, and brings who comes from elsewhere along
# at its next look.
scx_exercise groups 20
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]

# A shell in a cgroup of its own that starts a process for each line: where that ran first, by which policy.
cat >starts.sh <<'END'
echo $$ >/sys/fs/cgroup/$1/cgroup.procs
exec 8<>$1.fifo
while read -r line <&8; do cat /proc/self/stat >$1.part; mv $1.part $1.stat; done
END
for box in left right; do
  mkdir /sys/fs/cgroup/$box
  mkfifo $box.fifo
  sh starts.sh $box &
done
profile left 20; profile right 1
cat >config.toml <<'END'
apply = true
profiles = "profiles"
policy = "di"
counters = "profiles"
backend = "sched-ext"
spill_after_s = "never"
interval_s = 1.0
metrics = "off"
gate = { on = false }
[[program]]
name = "left"
cgroup = "/left"
hold = "cgroup"
[[program]]
name = "right"
cgroup = "/right"
hold = "cgroup"
END
corun daemon --config config.toml >daemon.log 2>&1 &
daemon=$!
shells() { cat /sys/fs/cgroup/left/cgroup.procs /sys/fs/cgroup/right/cgroup.procs; }
field() { sed 's/.*) //' $1 | cut -d' ' -f$2; }
policies() { for pid in $(shells); do field /proc/$pid/stat 39; done | tr -d '\n'; }
for _ in $(seq 240); do [ "$(policies)" = 77 ] && break; sleep 0.5; done
cat daemon.log
[ "$(policies)" = 77 ]
# born BOX: the CPU on which a process that is born there runs first.
born() {
  rm -f $1.stat
  echo x >$1.fifo
  for _ in $(seq 100); do [ -f $1.stat ] && break; sleep 0.1; done
  [ "$(field $1.stat 39)" = 7 ]
  field $1.stat 37
}
left=$(born left) right=$(born right)
echo "left on $left, right on $right"
[ $((left / 2)) != $((right / 2)) ]
for _ in 1 2 3; do [ "$(born left) $(born right)" = "$left $right" ]; done
# Nobody's affinity is another, and there is no cpuset.
for pid in $(shells); do [ "$(sed -n 's/^Cpus_allowed_list:\t*//p' /proc/$pid/status)" = 0-7 ]; done
[ ! -e /sys/fs/cgroup/left/cpuset.cpus ]
# Who comes from elsewhere is brought along at the next look.
sleep 1000 &
stranger=$!
echo $stranger >/sys/fs/cgroup/left/cgroup.procs
for _ in $(seq 60); do [ "$(field /proc/$stranger/stat 39)" = 7 ] && break; sleep 0.5; done
[ "$(field /proc/$stranger/stat 39)" = 7 ]
kill $daemon
wait $daemon
cat daemon.log
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
for pid in $(shells); do [ "$(field /proc/$pid/stat 39)" = 0 ]; done
kill $(shells)
