# The CPU on which threads are to run goes off line: while they are woken they run on an idle CPU elsewhere, and where no CPU
# is idle they have turns on the others.
errors() { dmesg | grep -cE 'sched_ext.*(error|stall)|BUG|Oops' || true; }
before=$(errors)
scx_exercise vanish 10
# Threads with deadlines need more than seven CPUs: the kernel lets none of the eight go.
for _ in 1 2 3 4 5 6 7 8; do
  /usr/local/bin/chrt -d -T 85000000 -P 100000000 -D 100000000 0 sleep 1000 &
done
sleep 1
scx_exercise refused
kill $(jobs -p)
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
[ "$(errors)" = "$before" ]
