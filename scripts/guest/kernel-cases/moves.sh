# A plan takes effect at the next event of the scheduler: a thread that sleeps wakes where its last plan says.
scx_exercise moves 40
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
