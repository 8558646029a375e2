# A scheduler's life: a CPU of its sets goes off line and comes back, a second one is refused with a clear line, and
# after a kill -9 the kernel has everything back at once. restore takes back a name, no more.
profile a 32; profile b 1
CPU_MS=10 mix a b >mix.toml
options="--profiles profiles --policy dio-2010 --counters model --interval 1 --duration 1000 --backend sched-ext --spill-after never"
corun run mix.toml $options &
run=$!
field() { sed 's/.*) //' /proc/$1/stat | cut -d' ' -f$2; }
policy() { field $1 39; }
for _ in $(seq 480); do
  pids=$(stand_ins)
  [ "$(for pid in $pids; do policy $pid; done | grep -c 7)" = 2 ] && break
  sleep 0.5
done
[ "$(cat /sys/kernel/sched_ext/root/ops)" = corun ]
sleep 1
first=$(echo $pids | cut -d' ' -f1)
at=$(field $first 37)
[ "$at" != 0 ] || { first=$(echo $pids | cut -d' ' -f2); at=$(field $first 37); }
echo 0 >/sys/devices/system/cpu/cpu$at/online
before=$(field $first 12)
sleep 1
echo "was on $at, is on $(field $first 37); ticks $before, then $(field $first 12)"
[ "$(field $first 37)" != "$at" ]
[ "$(field $first 12)" -gt "$((before + 5))" ]
echo 1 >/sys/devices/system/cpu/cpu$at/online
corun run mix.toml $options --journals /run/other 2>other.log &
other=$!
for _ in $(seq 480); do grep -q 'placed by their affinities' other.log && break; sleep 0.5; done
cat other.log
grep -q 'another scheduler is in force: corun' other.log
corun doctor | grep 'another scheduler is in force: corun'
kill $other
wait $other || [ $? = 130 ]
[ "$(cat /sys/kernel/sched_ext/root/ops)" = corun ]
kill -9 $run
wait $run || true
for _ in $(seq 20); do grep -q disabled /sys/kernel/sched_ext/state && break; sleep 0.5; done
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
for pid in $pids; do
  grep -q 'ext.enabled.* 0$' /proc/$pid/sched
  [ "$(sed -n 's/^Cpus_allowed_list:\t*//p' /proc/$pid/status)" = 0-7 ]
done
# The journal has the policies and no preferred CPUs.
grep -q scheduling-policy /run/corun/*.journal
! grep -q prefer /run/corun/*.journal
corun restore
for pid in $pids; do [ "$(policy $pid)" = 0 ]; done
kill $pids
