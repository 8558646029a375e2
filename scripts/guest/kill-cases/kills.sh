# kill -9 at random moments while threads, nice values and a cgroup's CPU set are changed and threads come and go: the
# program is the test `killed` of corun-live (build.sh: KILLED). CORUN_KILLS on the kernel's command line.
uname -r
[ -x /bin/killed ] || { echo "skipped: no test program"; exit 0; }
export CORUN_KILLS=$(sed -n 's/.*corun_kills=\([0-9]*\).*/\1/p' /proc/cmdline)
: "${CORUN_KILLS:=20}"
killed killed_under_churn --nocapture --test-threads 1 >out 2>&1 || { cat out; exit 1; }
grep -v '^running\|^$' out
! grep -q skipped out
