# The kernel's own tree: 2 packages, 4 LLCs of 2 CPUs, 2 nodes.
corun topology --format json >topology.json
check() { grep -q "$1" topology.json || { echo "no $1 in:"; cat topology.json; exit 1; }; }
check '"packages": 2'
check '"numa_nodes": 2'
check '"cpus": 8'
for cpus in 0-1 2-3 4-5 6-7; do
  check "\"cpus\": \"$cpus\""
done
