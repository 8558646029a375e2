# A scheduler that serves its queues no more: the kernel's watchdog detaches it and has all threads run.
scx_exercise stall
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
dmesg | grep 'sched_ext.*stall'
