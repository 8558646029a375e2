# Five busy threads on two CPUs: they leave after their bound, and stay where there is none; nobody starves.
scx_exercise crowd 4 2
scx_exercise crowd never 2
