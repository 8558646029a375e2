# Who wakes whom decides: two pairs of processes, of which each wakes its partner by a pipe. linux-sched-cache with
# wakes-together brings each pair to one LLC and says why; the kernel's own rule leaves processes of one thread alone.
# corun stat counts the wake-ups of such a process.
{
  echo "version = 1"
  for pair in a b; do
    mkfifo $pair.there $pair.back
    printf '[[app]]\nname = "%s-left"\ncmd = ["scx_exercise", "bounce", "%s.there", "%s.back", "begins"]\n' $pair $pair $pair
    printf '[[app]]\nname = "%s-right"\ncmd = ["scx_exercise", "bounce", "%s.back", "%s.there", "waits", "5"]\n' $pair $pair $pair
  done
} >mix.toml
profile a 1
corun run mix.toml --profiles profiles --policy linux-sched-cache --set wakes-together=50 --interval 1 --counters profiles \
  --duration 1000 --backend sched-ext --spill-after never 2>run.log &
run=$!
llc() { sed -n "s/.*($1: to those that it wakes and that wake it, on LLC \([0-9]*\)).*/\1/p" run.log | tail -1; }
for _ in $(seq 480); do
  [ "$(llc a-left)" ] && [ "$(llc a-right)" ] && [ "$(llc b-left)" ] && [ "$(llc b-right)" ] && break
  sleep 0.5
done
bouncer=$(ps -o pid,args | awk '$2 == "scx_exercise" { print $1 }' | head -1)
corun stat -p "$bouncer" -e wake-ups,run-queue-wait,task-clock --interval 1s --count 2 --format csv >stat.csv
kill $run
wait $run || [ $? = 130 ]
head -40 run.log
tail -2 run.log
cat stat.csv
[ "$(llc a-left)" = "$(llc a-right)" ]
[ "$(llc b-left)" = "$(llc b-right)" ]
grep -q 'a-left woke a-right [0-9]* times' run.log
head -1 stat.csv | grep -q 'wake-ups,run-queue-wait_ns'
awk -F, 'NR > 1 && $9 > 10 { woken = 1 } END { exit !woken }' stat.csv
