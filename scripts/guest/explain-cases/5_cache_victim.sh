# Four programs beside a stream under the same cache. The emulated machine has no cache that could be missed: programs
# with the names of recorded ones stand in, and the model says what they do to each other in a cache of 3 MiB.
. /cases/judge
corun topology --format toml | sed 's/^size_kib = 4096$/size_kib = 256/; s/^size_kib = 16384$/size_kib = 3072/' >machine.toml
ln /usr/local/bin/corun kernel-triad
for victim in glpsol clp gawk xz; do ln -f /usr/local/bin/corun "$victim"; done

of_two() {
  taskset "$2" "./$1" stand-in & one=$!
  taskset "$3" ./kernel-triad stand-in & others=$!
  sleep 1
  explained "$1 beside kernel-triad" cache-because-of-neighbour $one --machine machine.toml
  end $one $others
}
of_two glpsol 1 2
of_two clp 4 8
of_two gawk 20 10
of_two xz 80 40
all_right
