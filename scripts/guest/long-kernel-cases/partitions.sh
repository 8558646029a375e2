# DIO's placement and LFOC's partitions together, by the scheduler in the kernel and resctrl: threads sit on the LLCs that
# `corun place` says, and are in groups with the ways that `corun partition` says for the programs of their LLC. The
# emulated processor has no resctrl: resctrl_server keeps its rules, and divides nothing. When corun ends, and after a kill -9
# and `corun restore`, the groups are gone and the scheduler is detached.
mount -t tmpfs fs /sys/fs
mkdir /sys/fs/cgroup /sys/fs/resctrl
mount -t cgroup2 cgroup /sys/fs/cgroup
resctrl_server /sys/fs/resctrl 16 16 >server.log 2>&1 &
server=$!
for _ in $(seq 60); do grep -q mounted server.log && break; sleep 0.5; done
cat server.log
# Three programs stream, three are sensitive to their share, two need next to none.
profile a 40; profile b 34; profile c 28; profile d 20; profile e 12; profile f 5; profile g 0.5; profile h 0.25
for app in a b c; do sed -i "s/^memory_level_parallelism = .*/memory_level_parallelism = 8.0/" profiles/$app.toml; done
falls() { sed -i "s/^curve = .*/curve = [[4096, $2], [1048576, $2], [12582912, $3], [1073741824, $3]]/" profiles/$1.toml; }
falls d 20 12.5
falls e 12 5.5
falls f 5 1
apps="a e c g b f d h"
mix $apps >mix.toml
# The plan: each program's LLC, and its ways there.
corun place --machine this --profiles profiles --apps "$(echo $apps | tr ' ' ',')" --policy dio-2010 --format json >place.json
items() { tr -d ' \n"' <"$1" | sed "s/.*$2:\[\([^]]*\)\].*/\1\n/" | tr ',' '\n'; }
items place.json llc >llcs
for app in $apps; do echo $app; done | paste -d' ' llcs - >places
neighbours() { awk '{ on[$1] = on[$1] "," $2 } END { for (llc in on) print substr(on[llc], 2) }' | sort; }
sort places | neighbours >expected.neighbours
# Who comes first in the mix has the lower ways.
neighbours <places >in_order
while read -r neighbours; do
  corun partition --machine this --profiles profiles --apps "$neighbours" --policy lfoc --format json >partition.json
  items partition.json mask | sed 's/^0x//' >masks
  echo "$neighbours" | tr ',' '\n' | paste -d' ' - masks
done <in_order | sort >expected.masks
cat expected.neighbours expected.masks
# A program that streams is kept to a way, and two that are sensitive divide their cache.
[ "$(awk '{ print $2 }' expected.masks | sort -u | wc -l)" -ge 5 ]

groups() { ls /sys/fs/resctrl | grep '^corun-' || true; }
for cpu in 0 1 2 3 4 5 6 7; do echo "$cpu $(cat /sys/devices/system/cpu/cpu$cpu/cache/index3/id)"; done >caches
# One process for all files: each takes an emulator some tenths of a second, in which corun gets on.
# look: of each program its LLC, its scheduling policy, its group, and its ways of the cache on which it is. The stand-ins'
# numbers ascend as the mix has them.
look() {
  awk '{ depth = split(FILENAME, part, "/") }
    part[depth] == "tasks" { print $1, part[depth - 1], ways; next }
    sub(/^ *L3:/, "") { ways = $0 }' $(for one in $(groups) .; do
    echo /sys/fs/resctrl/$one/schemata /sys/fs/resctrl/$one/tasks
  done) >members
  awk '{ pid = $1; sub(/.*\) /, ""); print pid, $37, $39 }' $(stand_ins | sed 's,.*,/proc/&/stat,') >stats
  awk -v apps="$apps" 'BEGIN { split(apps, name, " ") }
    FILENAME == "caches" { cache[$1] = $2; next }
    FILENAME == "members" { group[$1] = $2; ways[$1] = $3; next }
    {
      mask = ""
      count = split(ways[$1], of, ";")
      for (i = 1; i <= count; i++) { split(of[i], part, "="); if (part[1] == cache[$2]) mask = part[2] }
      sub(/^0+/, "", mask)
      print name[++programs], int($2 / 2), $3, group[$1], mask
    }' caches members stats | sort >look
}
is_as_planned() {
  look
  awk '{ print $1, $5 }' look >found.masks
  awk '{ print $2, $1 }' look | neighbours >found.neighbours
  cmp -s found.masks expected.masks && cmp -s found.neighbours expected.neighbours
}
begin() {
  corun run mix.toml --profiles profiles --policy dio-2010+lfoc --counters model --interval 1 --duration 1000 \
    --backend sched-ext --spill-after never 2>run.log &
  run=$!
  for _ in $(seq 100); do
    [ "$(stand_ins | wc -l)" = 8 ] && is_as_planned && break
    sleep 2
  done
  cat run.log look
  diff found.neighbours expected.neighbours
  diff found.masks expected.masks
  # All are in the scheduler's class, nobody's affinity is touched.
  [ "$(awk '$3 == 7' look | wc -l)" = 8 ]
  for pid in $(stand_ins); do [ "$(sed -n 's/^Cpus_allowed_list:\t*//p' /proc/$pid/status)" = 0-7 ]; done
  [ "$(cat /sys/kernel/sched_ext/root/ops)" = corun ]
}
is_detached() {
  for _ in $(seq 20); do grep -q disabled /sys/kernel/sched_ext/state && return; sleep 0.5; done
  return 1
}

begin
# And stay there.
for _ in 1 2 3; do sleep 1; is_as_planned; done
kill $run
wait $run || [ $? = 130 ]
[ "$(groups)" = "" ]
is_detached

begin
ours=$(stand_ins)
kill -9 $run
is_detached
[ "$(groups)" != "" ]
corun restore
[ "$(groups)" = "" ]
look
[ "$(awk '$3 == 0 && $4 == "."' look | wc -l)" = 8 ]
kill $ours
kill $server
umount /sys/fs/resctrl /sys/fs/cgroup /sys/fs
