# The CPU for which threads are woken goes off line; they are to run elsewhere. Judged by a clock, and no part of make test: in two of
# five boots most of the threads waited until the CPU came back, also after they were looked for.
scx_exercise vanish 20
