# kill -9 at random moments while threads, nice values and a cgroup's CPU set are changed and threads come and go: the
# program is the test `killed` of corun-live (build.sh: KILLED). corun_kills and corun_seed are on the kernel's command
# line.
uname -r
[ -x /bin/killed ] || { echo "skipped: no test program"; exit 0; }
export CORUN_KILLS=$(sed -n 's/.*corun_kills=\([0-9]*\).*/\1/p' /proc/cmdline)
: "${CORUN_KILLS:=20}"
export CORUN_KILLS_SEED=$(sed -n 's/.*corun_seed=\([0-9]*\).*/\1/p' /proc/cmdline)
: "${CORUN_KILLS_SEED:=2}"
[ -d /sys/fs/cgroup/cpuset ] && echo "cgroups of version 1" || echo "cgroups of version 2"
killed killed_under_churn --nocapture --test-threads 1 >out 2>&1 || { cat out; exit 1; }
grep -v '^running\|^$' out
! grep -q skipped out
