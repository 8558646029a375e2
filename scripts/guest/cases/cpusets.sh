# Containers are moved as a whole by their cpusets (cgroups of version 2), with what is born in them,
# and are as before after SIGTERM and after kill -9 and restore.
root=/sys/fs/cgroup
echo +cpuset >$root/cgroup.subtree_control
pids=""
for box in one other; do
  mkdir $root/$box
  sh -c "echo \$\$ >$root/$box/cgroup.procs; exec corun stand-in --threads 2 --cpu-ms 1 --wait-ms 99" &
  pids="$pids $!"
done
profile heavy 32
profile light 1
cat >cpusets.toml <<END2
apply = true
gate.on = false
policy = "di"
counters = "model"
profiles = "profiles"
interval_s = 1
[[program]]
name = "heavy"
cgroup = "/one"
hold = "cgroup"
[[program]]
name = "light"
cgroup = "/other"
hold = "cgroup"
END2
ip link set lo up
cpus_of() { cat $root/$1/cpuset.cpus; }
seen_by() { sed -n 's/^Cpus_allowed_list:\t*//p' /proc/$1/status; }
started() {
  corun daemon --config cpusets.toml &
  daemon=$!
  for _ in $(seq 60); do
    [ "$(cpus_of one)" != "$free" ] && [ "$(cpus_of other)" != "$free" ] && break
    sleep 1
  done
  for box in one other; do
    echo "$box: $(cpus_of $box)"
    [ "$(cpus_of $box)" != "$free" ]
  done
  # Born in the group, by somebody else.
  sh -c "echo \$\$ >$root/one/cgroup.procs; exec sleep 100" &
  born=$!
  sleep 3
  [ "$(seen_by $born)" = "$(cat $root/one/cpuset.cpus.effective)" ]
}
as_before() {
  for box in one other; do
    # An empty list means all.
    case "$(cpus_of $box)" in 0-7 | "") ;; *) return 1 ;; esac
  done
  for pid in $pids $born; do
    [ "$(seen_by $pid)" = 0-7 ]
  done
  kill $born
}
free=$(cpus_of one)
started
kill $daemon
wait $daemon || true
as_before
free=$(cpus_of one)
started
kill -9 $daemon
wait $daemon || true
corun restore
as_before
kill $pids
