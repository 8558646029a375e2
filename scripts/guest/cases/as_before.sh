# What was before comes back: with a CPU that was off line when corun came, and in a container that is widened
# afterwards (cgroups of version 2).
uname -r
root=/sys/fs/cgroup
echo +cpuset >$root/cgroup.subtree_control
mkdir $root/narrow
echo 0-3 >$root/narrow/cpuset.cpus
sh -c "echo \$\$ >$root/narrow/cgroup.procs; exec corun stand-in --cpu-ms 1 --wait-ms 99" &
boxed=$!
corun stand-in --cpu-ms 1 --wait-ms 99 &
plain=$!
echo 0 >/sys/devices/system/cpu/cpu7/online
profile heavy 32
profile light 1
cat >as_before.toml <<END2
apply = true
gate.on = false
policy = "di"
counters = "model"
profiles = "profiles"
interval_s = 1
journals = "/run/elsewhere"
[[program]]
name = "heavy"
pid = $boxed
[[program]]
name = "light"
pid = $plain
END2
ip link set lo up
seen_by() { sed -n 's/^Cpus_allowed_list:\t*//p' /proc/$1/status; }
started() {
  corun daemon --config as_before.toml &
  daemon=$!
  for _ in $(seq 60); do
    case "$(seen_by $boxed) $(seen_by $plain)" in *[-,]*) sleep 1 ;; *) break ;; esac
  done
  echo "held: $(seen_by $boxed) and $(seen_by $plain)"
  case "$(seen_by $boxed) $(seen_by $plain)" in *[-,]*) exit 1 ;; esac
}
started
if corun verify --config as_before.toml; then exit 1; fi
echo 1 >/sys/devices/system/cpu/cpu7/online
kill $daemon
wait $daemon
corun verify --config as_before.toml
echo "after SIGTERM: $(seen_by $boxed) and $(seen_by $plain)"
[ "$(seen_by $boxed)" = 0-3 ]
[ "$(seen_by $plain)" = 0-7 ]
echo 0-5 >$root/narrow/cpuset.cpus
[ "$(seen_by $boxed)" = 0-5 ]
# Widened while it is held, and nobody is left to let it go but restore.
started
echo 0-6 >$root/narrow/cpuset.cpus
# Until it is gone, what it changed is its own.
kill -9 $daemon
wait $daemon || true
corun restore --config as_before.toml
echo "after kill -9: $(seen_by $boxed) and $(seen_by $plain)"
[ "$(seen_by $boxed)" = 0-6 ]
[ "$(seen_by $plain)" = 0-7 ]
kill $boxed $plain
