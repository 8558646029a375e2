# Another's scheduler is in force: corun says so, places threads by their affinities and leaves the other alone. One that
# comes while corun's is in force is refused by the kernel, and corun's goes on.
profile a 32; profile b 1
mix a b >mix.toml
options="--profiles profiles --policy dio-2010 --counters model --interval 1 --duration 1000 --backend sched-ext --spill-after never"
ops() { cat /sys/kernel/sched_ext/root/ops 2>/dev/null; }
scx_exercise foreign 1000 >foreign.log 2>&1 &
foreign=$!
for _ in $(seq 120); do [ "$(ops)" = foreign ] && break; sleep 0.5; done
cat foreign.log
corun doctor >doctor.log
grep 'another scheduler is in force: foreign' doctor.log
corun run mix.toml $options 2>run.log &
run=$!
held 2
cat run.log
grep -q 'no scheduler in the kernel: another scheduler is in force: foreign (enabled)' run.log
grep -q 'threads are placed by their affinities instead' run.log
[ "$(ops)" = foreign ]
kill $run
wait $run || [ $? = 130 ]
[ "$(ops)" = foreign ]
kill $foreign
wait $foreign || true
for _ in $(seq 60); do [ "$(cat /sys/kernel/sched_ext/state)" = disabled ] && break; sleep 0.5; done
corun run mix.toml $options 2>run.log &
run=$!
policies() { for pid in $(stand_ins); do sed 's/.*) //' /proc/$pid/stat | cut -d' ' -f39; done; }
for _ in $(seq 480); do [ "$(policies | grep -c 7)" = 2 ] && break; sleep 0.5; done
if scx_exercise foreign 1 >second.log 2>&1; then exit 1; fi
cat second.log
grep -q 'putting the scheduler in force.*busy' second.log
sleep 2
[ "$(ops)" = corun ]
[ "$(policies | grep -c 7)" = 2 ]
! grep 'the kernel detached' run.log
kill $run
wait $run || [ $? = 130 ]
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
