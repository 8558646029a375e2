# The kernel's own scheduling by last-level caches, on and off by turns (corun ab --sched-cache): its switch ends as it was
# found, also after a kill -9 and corun restore. By its commands on and off the same.
switch=/sys/kernel/debug/sched/llc_balancing/enabled
found=$(cat $switch)
echo "found $found"
# seen FILE: notes the switch while corun ab runs.
seen() { while kill -0 $ab 2>/dev/null; do cat $switch; sleep 0.5; done >$1; sort $1 | uniq -c; }
ab() {
  corun ab "$@" --metric rate='echo 5' --block 3 --washout 0.5 --sample 1 --longest 16 --collapse 100 --harm 99 \
    --format json >ab.json 2>ab.log &
  ab=$!
}
for start in 0 1; do
  echo $start >$switch
  ab --sched-cache
  seen states
  wait $ab
  cat ab.json
  # Both were in force, and it is as it was.
  [ "$(sort -u states | wc -l)" = 2 ]
  grep -q '"pairs": [1-9]' ab.json
  [ "$(cat $switch)" = "$(sort -u states | sed -n $((start + 1))p)" ]
done
# Killed while it is switched: the journal knows how it was.
before=$(cat $switch)
ab --sched-cache
for _ in $(seq 100); do [ "$(cat $switch)" != "$before" ] && break; sleep 0.2; done
[ "$(cat $switch)" != "$before" ]
kill -9 $ab
wait $ab || true
[ "$(cat $switch)" != "$before" ]
corun verify | grep 'SCHED_CACHE: .* left by a corun that is no more'
corun restore
[ "$(cat $switch)" = "$before" ]
ab --on "echo 1 >$switch" --off "echo 0 >$switch"
seen states
wait $ab
[ "$(sort -u states | wc -l)" = 2 ]
[ "$(cat $switch)" = "$(sort -u states | sed -n 1p)" ]
echo "$found" >$switch
