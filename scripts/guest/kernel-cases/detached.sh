# The kernel detaches the scheduler, as its watchdog does and a person who presses SysRq-S: corun says so and goes on
# by affinities.
cat >mix.toml <<END
version = 1
[[app]]
profile = "sort"
[[app]]
profile = "xz"
END
corun run mix.toml --policy dio-2010 --counters model --interval 1 --duration 200 --backend sched-ext 2>run.log &
run=$!
for _ in $(seq 120); do [ "$(grep -c dio-2010: run.log)" -ge 2 ] && break; sleep 0.5; done
echo S >/proc/sysrq-trigger
held 2
cat run.log
grep -q "the kernel detached corun's scheduler" run.log
kill $run
wait $run || [ $? = 130 ]
