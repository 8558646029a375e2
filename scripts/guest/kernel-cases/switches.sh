# A policy that goes by switches hears of them from the scheduler in the kernel: CASC has measured the groups of its matrix
# before its patience of 15 s with them is over, which it does by switches alone. Five programs on four CPUs; the other four
# go off line. The emulator runs its CPUs by turns: with eight busy ones corun had an eighth of the clock, a look took up to
# 18 s, and that patience was over before the second group. Its looks are far apart for the same reason.
online() { for cpu in 4 5 6 7; do echo "$1" >/sys/devices/system/cpu/cpu$cpu/online; done; }
online 0
trap 'online 1' EXIT
apps="a b c d e"
mpki=32
for app in $apps; do
  profile $app $mpki
  mpki=$((mpki > 1 ? mpki / 2 : 1))
done
{
  echo "version = 1"
  for app in $apps; do printf '[[app]]\nprofile = "%s"\n' "$app"; done
} >mix.toml
corun run mix.toml --profiles profiles --policy casc --set look-ms=4000 --counters model --duration 1000 --backend sched-ext \
  --spill-after never --wakers 2>run.log &
run=$!
for _ in $(seq 480); do
  grep -q '[a-e]: measured)' run.log && break
  sleep 0.5
done
# All five are in the kernel's scheduler, also those of which no plan has said anything.
for pid in $(stand_ins); do sed 's/.*) //' /proc/$pid/stat | cut -d' ' -f39; done >policies
kill $run
wait $run || [ $? = 130 ]
head -40 run.log
tail -3 run.log
# at TEXT: when a line with it was first said, in seconds.
at() { sed -n "s/^corun: \([0-9.]*\) s: casc: .*$1.*/\1/p" run.log | head -1; }
echo "$(at 'its group is measured') $(at '[a-e]: measured)')" | awk '{ exit !(NF == 2 && $2 - $1 < 15) }'
grep 'in the kernel: .* switches to threads' run.log
[ "$(grep -c 7 policies)" = 5 ]
