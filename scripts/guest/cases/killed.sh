# kill -9 while threads are bound: the next corun undoes it.
profile a 32; profile b 1
mix a b >mix.toml
corun run mix.toml --profiles profiles --policy dio-2010 --counters model --interval 1 --duration 200 &
run=$!
held 2
pids=$(stand_ins)
kill -9 $run
wait $run || true
for pid in $pids; do
  bound=$(sed -n 's/^Cpus_allowed_list:\t*//p' /proc/$pid/status)
  echo "$pid on $bound"
  [ "$bound" != 0-7 ]
done
corun restore
for pid in $pids; do
  [ "$(sed -n 's/^Cpus_allowed_list:\t*//p' /proc/$pid/status)" = 0-7 ]
done
kill $pids
