# DIO's placement by the scheduler in the kernel: threads sit where the plan says and stay, nobody's affinity is
# touched, and who shares an LLC with whom is as in simulation (as cases/in_the_loop.sh finds it with affinities). Then
# the kernel detaches the scheduler, as its watchdog does and a person who presses SysRq-S: corun goes on by affinities.
profile a 32; profile b 16; profile c 8; profile d 4; profile e 2; profile f 1; profile g 0.5
profile h 0.25
apps="a e c g b f d h"
mix $apps >mix.toml
# where PID: the LLC (two CPUs each) on which its thread ran last, and its scheduling policy.
where() { sed 's/.*) //' /proc/$1/stat | awk '{ print int($37 / 2), $39 }'; }
corun run mix.toml --profiles profiles --policy dio-2010 --counters model --interval 1 --duration 1000 \
  --backend sched-ext --spill-after never 2>run.log &
run=$!
for _ in $(seq 480); do
  [ "$(grep -c dio-2010: run.log)" -ge 8 ] && break
  sleep 0.5
done
cat run.log
# Wake-ups and switches go by; who is placed stays.
for look in 1 2 3; do
  sleep 1
  for pid in $(stand_ins); do where $pid; done >look.$look
done
cat look.1
[ "$(awk '$2 == 7' look.1 | wc -l)" = 8 ]
cmp look.1 look.2
cmp look.1 look.3
for pid in $(stand_ins); do
  [ "$(sed -n 's/^Cpus_allowed_list:\t*//p' /proc/$pid/status)" = 0-7 ]
done
[ "$(grep -c dio-2010: run.log)" = 8 ]
echo S >/proc/sysrq-trigger
held 8
grep "the kernel detached corun's scheduler" run.log
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
kill $run
wait $run || [ $? = 130 ]
corun place --machine this --profiles profiles --apps "$(echo $apps | tr ' ' ',')" --policy dio-2010 --format json >place.json
tr -d ' \n' <place.json | sed 's/.*"llc":\[\([^]]*\)\].*/\1\n/' | tr ',' '\n' >llcs
names() { for app in $apps; do echo $app; done; }
groups() { names | paste -d' ' "$1" - | sort | awk '{ g[$1] = g[$1] " " $2 } END { for (i in g) print g[i] }' | sort; }
awk '{ print $1 }' look.1 >found
groups found >found.groups
groups llcs >expected.groups
cat found.groups
[ "$(wc -l <found.groups)" = 4 ]
diff found.groups expected.groups
