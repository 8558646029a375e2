# Inside a cpuset (cgroups of version 2) topology, doctor and run tell what may be used from what there is.
root=/sys/fs/cgroup
echo "+cpuset +cpu" >$root/cgroup.subtree_control
mkdir $root/job
echo 2-3 >$root/job/cpuset.cpus
echo 0 >$root/job/cpuset.mems
echo "150000 100000" >$root/job/cpu.max
inside() { sh -c "echo \$\$ >$root/job/cgroup.procs; exec $*"; }
profile a 4
printf 'version = 1\n[[app]]\nprofile = "a"\n' >mix.toml
may='his process may use CPUs 2-3 of 0-7, memory of nodes 0 of 0-1, CPU time of 1.5 CPUs (cgroup /job)'
inside corun topology >topology.txt
inside corun topology --format json >topology.json
inside corun doctor | tr -s '\n ' ' ' >doctor.txt
inside corun run mix.toml --profiles profiles --policy di --counters model --duration 1 --dry-run 2>run.txt
cat topology.txt run.txt
for file in topology.txt doctor.txt run.txt; do grep -qF "$may" $file; done
# The machine is drawn whole: eight CPUs.
grep -q '"cpus": *"2-3"' topology.json
grep -q '"of_cpus": *"0-7"' topology.json
# And outside nothing is said of it.
! corun topology | grep -q 'may use'
rmdir $root/job
