# A CPU goes off line under its thread and comes back; at the end every affinity is as before.
corun stand-in --cpu-ms 1 --wait-ms 99 & one=$!
taskset -p 0xff $one >/dev/null
profile a 32; profile b 8; profile c 1
mix a b c >mix.toml
corun run mix.toml --profiles profiles --policy dio-2010 --counters model --interval 1 --duration 200 -o off.json &
run=$!
held 3
for pid in $(stand_ins); do
  [ "$pid" = $one ] || sed -n 's/^Cpus_allowed_list:\t*//p' "/proc/$pid/status"
done | sort >bound
cat bound
# Whatever CPU the second one has; CPU 0 cannot go.
cpu=$(grep -v '^0$' bound | grep -v '[-,]' | head -1)
echo 0 >/sys/devices/system/cpu/cpu$cpu/online
sleep 5
echo 1 >/sys/devices/system/cpu/cpu$cpu/online
kill $run
wait $run || [ $? = 130 ]
grep -q '"failed": \[\]' off.json
[ "$(sed -n 's/^Cpus_allowed_list:\t*//p' /proc/$one/status)" = 0-7 ]
kill $one
