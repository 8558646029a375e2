# A plan takes effect at the next event of the scheduler: a thread that sleeps wakes where its last plan says, one that runs
# leaves a CPU that its plan takes away at once, or with the next tick of that CPU.
scx_exercise moves 40
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
