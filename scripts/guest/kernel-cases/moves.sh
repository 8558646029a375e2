# A plan takes effect within one event of the scheduler: at the next wake-up of who sleeps, at the next switch of who runs.
scx_exercise moves 40
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
