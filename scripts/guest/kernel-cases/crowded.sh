# Eight busy threads on two CPUs: they leave after their bound, and stay where there is none; nobody starves. Then all CPUs
# are crowded, so that leaving helps nobody: who waits is served after the turns of those before.
scx_exercise crowd 4 2
scx_exercise crowd never 2
scx_exercise overload 6 3
