# What places threads does not change what policies decide: with counters computed by the model from where threads are, a
# policy brings the same programs to the same LLCs by the scheduler in the kernel as by affinities, for the same reasons.
apps="a e c g b f d h"
profile a 32; profile b 16; profile c 8; profile d 4; profile e 2; profile f 1; profile g 0.5; profile h 0.2
mix $apps >mix.toml
# decided POLICY BACKEND: the programs of each LLC (two CPUs each) by the policy's last word on each, a line an LLC, and the
# misses by which it decided.
decided() {
  corun run mix.toml --profiles profiles --policy $1 --counters model --interval 1 --duration 1000 --backend $2 \
    --spill-after never 2>run.log &
  run=$!
  for _ in $(seq 480); do
    [ "$(grep -c "$1:" run.log)" -ge 8 ] && break
    sleep 0.5
  done
  sleep 2
  kill $run
  wait $run || [ $? = 130 ]
  sed -n "s/.* $1: \([a-h]\) on CPU \([0-9]*\) .*/\1 \2/p" run.log |
    awk '{ at[$1] = int($2 / 2) } END { for (p in at) print at[p], p }' | sort |
    awk '{ g[$1] = g[$1] " " $2 } END { for (i in g) print g[i] }' | sort
  sed -n "s/.* $1: .*(\([a-h]: [0-9.]* MPKI\).*/\1/p" run.log | sort -u
}
for policy in dio-2010 di; do
  decided $policy sched-ext >by.kernel
  grep -q 'in the kernel: .* switches to threads' run.log
  decided $policy affinity >by.affinity
  echo "$policy:"
  cat by.kernel
  diff by.kernel by.affinity
  [ "$(wc -l <by.kernel)" -ge 12 ]
done
