# corun explain goes by who wakes whom: two processes that wake each other by pipes, held on different LLCs, and a daemon that
# has them in the kernel's scheduler. Without that scheduler, and where the scheduler was not asked to count, explain cannot
# tell by whom a process is woken, and says so. Where the scheduler counts, explain names the partner, with figures, and
# what it advises brings the two together.
mkfifo there back
/usr/local/bin/taskset -c 0-1 scx_exercise bounce back there begins &
left=$!
/usr/local/bin/taskset -c 4-5 scx_exercise bounce there back waits &
right=$!
# A stored profile that neither of the two processes is recorded by.
profile a 1
cat >config.toml <<'END'
apply = true
profiles = "profiles"
policy = "linux-default"
counters = "profiles"
backend = "sched-ext"
wakers = false
interval_s = 1.0
metrics = "off"
[[program]]
name = "left"
arguments = "*begins"
[[program]]
name = "right"
arguments = "*waits"
END
explain() { corun explain "$left" --profiles profiles --duration 3 --format json >explained.json || true; }
# explained PATTERN...: explain says all of these, at the latest the fifth time: a daemon that begins takes its time, in
# which an emulator's processes wake each other seldom.
explained() {
  for _ in 1 2 3 4 5; do
    explain
    for pattern in "$@"; do grep "$pattern" explained.json || continue 2; done
    return
  done
  cat explained.json daemon.log
  return 1
}
# number FIELD: of the first line with it.
number() { sed -n "s/^ *\"$1\": \([0-9.]*\),*$/\1/p" explained.json | head -1; }
policy() { sed 's/.*) //' /proc/$1/stat | cut -d' ' -f39; }
operations() { cat /sys/kernel/sched_ext/root/ops 2>/dev/null || true; }

sleep 1
explained '"why": "no-scheduler"' 'it is woken [0-9]* times a second; by whom only' '"far_partner": null'

corun daemon --config config.toml >daemon.log 2>&1 &
daemon=$!
for _ in $(seq 240); do [ "$(operations)" = corun ] && break; sleep 0.5; done
explained '"why": "not-asked"' 'was not asked to count by whom'
# The daemon looks at none of those that it was not told of.
[ "$(policy $$)" = 0 ]

sed -i 's/^wakers = false/wakers = true/' config.toml
kill -HUP $daemon
for _ in $(seq 240); do [ "$(policy $left)$(policy $right)" = 77 ] && break; sleep 0.5; done
cat daemon.log
[ "$(policy $left)$(policy $right)" = 77 ]
[ "$(policy $$)" = 0 ]
explained '"far_partner": {' '"is_measured": true'
sed -n '/"far_partner": {/,/^  },*$/p' explained.json
corun explain "$left" --profiles profiles --duration 3
[ "$(sed -n '/"far_partner": {/,/}/s/^ *"pid": \([0-9]*\),$/\1/p' explained.json | head -1)" = "$right" ]
[ "$(number wakeups_per_s | cut -d. -f1)" -ge 500 ]
sed -n '/"far_partner": {/,$s/^ *"share": \([0-9.]*\),*$/\1/p' explained.json | head -1 |
  awk '{ share = $1 } END { exit !(share > 0.9 && share <= 1) }'
# A process of nobody's is not in the scheduler, and what was counted is not its.
corun explain $$ --profiles profiles --duration 1 --format json | grep '"why": "not-in-scheduler"'
advised=$(sed -n "s/^ *\"command\": \"\(taskset -a -cp 4-5 $left\)\",*$/\1/p" explained.json)
[ "$advised" ]
/usr/local/bin/$advised
# Its plan follows: the scheduler takes it for no thread whose CPUs are off line.
for _ in $(seq 60); do grep -q 'somebody set its affinity to 4-5' daemon.log && break; sleep 0.5; done
grep 'somebody set its affinity to 4-5' daemon.log
sleep 2
explained '"far_partner": null' '"per_s": [0-9][0-9][0-9]'
number per_s
[ "$(number per_s | cut -d. -f1)" -ge 500 ]
[ "$(number across_llcs_per_s | cut -d. -f1)" = 0 ]
kill $daemon
wait $daemon
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
[ "$(policy $left)$(policy $right)" = 00 ]
kill $left $right
