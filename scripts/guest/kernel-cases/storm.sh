# The scheduler comes and goes while threads come and go; threads wake each other while CPUs go off line and come back,
# and no wake-up is lost; when each thread was on its CPU is kept. long-kernel-cases have the same for longer.
scx_exercise storm 2
scx_exercise wake 2000 counted
scx_exercise wake 2000 kept
scx_exercise switches 30000 off
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
if dmesg | grep -E 'sched_ext.*(error|stall)|BUG|Oops'; then exit 1; fi
