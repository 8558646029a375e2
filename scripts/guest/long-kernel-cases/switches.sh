# Threads wake each other while CPUs go off line and come back, until they were switched to as often as the kernel's
# command line says with corun_switches=, and no wake-up is lost.
count=$(sed -n 's/.*corun_switches=\([0-9]*\).*/\1/p' /proc/cmdline)
scx_exercise switches "${count:-2000000}" off
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
if dmesg | grep -E 'sched_ext.*(error|stall)|BUG|Oops'; then exit 1; fi
