# The CPU on which threads are to run goes off line: while they are woken they run on an idle CPU elsewhere, and where no CPU
# is idle they have turns on the others.
errors() { dmesg | grep -cE 'sched_ext.*(error|stall)|BUG|Oops' || true; }
before=$(errors)
scx_exercise vanish 10
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
[ "$(errors)" = "$before" ]
