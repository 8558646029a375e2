# The CPU on which threads are to run goes off line: while they are woken they run on an idle CPU elsewhere, and where no CPU
# is idle they have turns on the others.
scx_exercise vanish 10
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
if dmesg | grep -E 'sched_ext.*(error|stall)|BUG|Oops'; then exit 1; fi
