# The scheduler comes and goes while threads come and go; two threads wake each other, and no wake-up is lost.
scx_exercise storm 2
scx_exercise wake 3000 counted
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
if dmesg | grep -E 'sched_ext.*(error|stall)|BUG|Oops'; then exit 1; fi
