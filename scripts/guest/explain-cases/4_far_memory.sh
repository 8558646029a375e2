# Four programs that run on one node, with their memory on the other.
. /cases/judge
# far NODE CPUS MIB: dd through so much memory of the node, on these CPUs.
far() {
  mkdir -p /sys/fs/cgroup/far
  echo 0-7 >/sys/fs/cgroup/far/cpuset.cpus
  echo "$1" >/sys/fs/cgroup/far/cpuset.mems
  sh -c 'echo $$ >/sys/fs/cgroup/far/cgroup.procs; exec "$@"' sh taskset "$2" \
    dd if=/dev/zero of=/dev/null "bs=${3}M" & one=$!
  sleep 3
  explained "dd through $3 MiB of node $1" far-node $one
  end $one
}
far 1 f 32
far 1 2 64
far 0 f0 48
far 0 40 96
all_right
