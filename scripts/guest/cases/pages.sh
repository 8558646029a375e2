# Five programs with all their memory on node 0, which has four CPUs: the memory of those that have to
# run on node 1 follows them, and comes back when all is undone.
profile heavy 32
# Linux 6.1 does not move pages that its own balancing is watching (mended in 6.5).
echo 0 >/proc/sys/kernel/numa_balancing
ip link set lo up
pids=""
# Always busy: one that rests at a look needs no CPU, and four find room on node 0.
for _ in 1 2 3 4 5; do
  taskset 0x0f corun stand-in &
  pids="$pids $!"
done
# They have their memory, and rest until the daemon has started: each busy CPU takes the emulator as long as the daemon's.
sleep 3
kill -STOP $pids
cat >pages.toml <<END2
apply = true
gate.on = false
policy = "n-mass"
parameters = { move-pages-after-epochs = 1 }
counters = "model"
profiles = "profiles"
END2
for pid in $pids; do
  taskset -p 0xff "$pid" >/dev/null
  printf '[[program]]\nname = "p%s"\nprofile = "heavy"\npid = %s\n' "$pid" "$pid" >>pages.toml
done
# pages PID..: how many pages of its heap and stack each has on node 0 and node 1.
pages() {
  for pid in "$@"; do cat "/proc/$pid/numa_maps"; echo "end $pid"; done | awk '
    /heap|stack/ { for (i = 1; i <= NF; i++) if ($i ~ /^N[01]=/) on[substr($i, 2, 1)] += substr($i, 4) }
    $1 == "end" { print $2 ": " on[0] + 0 " and " on[1] + 0 " pages"; delete on }'
}
moved() {
  pages $pids | awk '$2 == 0 && $4 > 0 { count++ } END { print count + 0 }'
}
echo "before: $(moved) of 5 on node 1"
[ "$(moved)" = 0 ]
corun daemon --config pages.toml 2>log &
daemon=$!
for _ in $(seq 120); do
  ! grep -q started log || break
  sleep 0.5
done
kill -CONT $pids
for _ in $(seq 120); do
  [ "$(moved)" -gt 0 ] && break
  sleep 1
done
kill -STOP $pids
cat log
echo "moved: $(moved) of 5 to node 1"
pages $pids
for pid in $pids; do
  echo "$pid on $(sed -n 's/^Cpus_allowed_list:\t*//p' "/proc/$pid/status")"
done
[ "$(moved)" -gt 0 ]
kill $daemon
wait $daemon || true
echo "after: $(moved) of 5 on node 1"
[ "$(moved)" = 0 ]
kill -9 $pids
