# The unit file: the daemon can do its work within what the unit leaves it, tells systemd when it is
# ready, and whatever ends it, all is as before.
cat >/etc/systemd/system/threads.service <<END
[Service]
User=nobody
ExecStart=/usr/local/bin/corun stand-in --cpu-ms 1 --wait-ms 99
END
cat >/etc/systemd/system/boxed.service <<END
[Service]
AllowedCPUs=0-7
ExecStart=/usr/local/bin/corun stand-in --threads 2 --cpu-ms 1 --wait-ms 99
END
cd /etc/corun
profile heavy 32
profile light 1
cat >/etc/corun/config.toml <<END
apply = true
gate.on = false
policy = "di"
counters = "model"
profiles = "/etc/corun/profiles"
interval_s = 1
[[program]]
name = "heavy"
unit = "threads.service"
[[program]]
name = "light"
unit = "boxed.service"
hold = "cgroup"
END
systemctl daemon-reload
systemctl start threads boxed
one=$(cat /sys/fs/cgroup/system.slice/threads.service/cgroup.procs)
box=/sys/fs/cgroup/system.slice/boxed.service
of_one() { sed -n 's/^Cpus_allowed_list:\t*//p' "/proc/$one/status"; }
of_box() { cat "$box/cpuset.cpus"; }
said() { journalctl --no-pager -u corun -o cat; systemctl --no-pager status corun; }
# A minute in which the daemon has started. Its start is not counted: while the host is busy it takes minutes of the
# guest's clock.
held() {
  waited=0
  while [ $waited -lt 60 ]; do
    [ "$(of_one)" != 0-7 ] && [ "$(of_box)" != 0-7 ] && return
    [ "$(systemctl is-active corun)" = activating ] || waited=$((waited + 1))
    sleep 1
  done
  said
  return 1
}
as_before() {
  for _ in $(seq 60); do
    [ "$(of_one)" = 0-7 ] && [ "$(of_box)" = 0-7 ] && return
    sleep 1
  done
  echo "thread on $(of_one), box on $(of_box)"
  said
  return 1
}
systemctl start corun || { said; exit 1; }
held
echo "started: thread on $(of_one), box on $(of_box)"
# The daemon has no network; systemd listens for it.
wget -q -O - http://127.0.0.1:9748/metrics | grep '^corun_threads{program="heavy"} 1' || { said; exit 1; }
systemctl reload corun
sleep 3
systemctl is-active corun
systemctl stop corun
as_before
systemctl start corun
held
# The daemon alone: its cgroup may be gone before systemd has looked whom else there is to kill.
systemctl kill --kill-who=main -s KILL corun
# Before it is started again: RestartSec is 10.
as_before
held
systemctl stop corun
as_before
systemctl stop threads boxed
