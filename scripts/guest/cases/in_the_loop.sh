# Eight threads, their counters computed by the model, DIO by real system calls: who shares an
# LLC with whom becomes what DIO decides in simulation, and stays.
# No two are alike, so that there is one way to pair the heaviest with the lightest.
profile a 32; profile b 16; profile c 8; profile d 4; profile e 2; profile f 1; profile g 0.5
profile h 0.25
apps="a e c g b f d h"
mix $apps >mix.toml
corun run mix.toml --profiles profiles --policy dio-2010 --counters model --interval 2 --duration 200 -o run.json &
run=$!
held 8
# Three looks more: what is decided stays.
sleep 6
# pairs: names by the LLC (two CPUs each) to which their threads are bound.
names=$(sed -n 's/^profile = "\(.*\)"/\1/p' mix.toml)
for pid in $(stand_ins); do
  echo "$pid $(sed -n 's/^Cpus_allowed_list:\t*//p' "/proc/$pid/status")"
done >bound
paste -d' ' bound - <<END >named
$names
END
cat named
awk '{ print int($2 / 2), $3 }' named | sort >found
kill $run
wait $run || [ $? = 130 ]
# The same in simulation.
corun place --machine this --profiles profiles --apps "$(echo $apps | tr ' ' ',')" --policy dio-2010 --format json >place.json
tr -d ' \n' <place.json | sed 's/.*"llc":\[\([^]]*\)\].*/\1\n/' | tr ',' '\n' >llcs
paste -d' ' llcs - <<END | sort >expected
$names
END
groups() { awk '{ g[$1] = g[$1] " " $2 } END { for (i in g) print g[i] }' "$1" | sort; }
groups found >found.groups
groups expected >expected.groups
echo "live:"; cat found.groups
echo "simulated:"; cat expected.groups
diff found.groups expected.groups
# One decision a thread and no more: it stays.
grep '"carried_out": 8' run.json
grep -q '"as_before"' run.json
