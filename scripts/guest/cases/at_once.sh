# A process of many threads, which the daemon reads at once by a BPF program: all are placed, one that somebody else moves
# is left alone, and at the end every affinity is as before.
uname -r
corun doctor | grep 'many threads.*at once'
corun stand-in --threads 80 --cpu-ms 1 --wait-ms 60000 &
many=$!
profile many 8
# The guest's clock goes on while the emulator waits for a CPU of the host, and the guest's kernel does not count that as a
# wait: on a busy host the first round, which loads the BPF program, takes longer than the 30 s after which the daemon
# takes its loop for stalled.
cat >at_once.toml <<END2
apply = true
gate.on = false
policy = "di"
counters = "profiles"
profiles = "profiles"
threads_by = "bpf"
interval_s = 1
stall_s = 600
metrics = "off"
journals = "/run/at_once"
[[program]]
name = "many"
pid = $many
END2
# on LIST: how many of the threads may run on these CPUs, and on no others; a pattern.
on() { grep -h '^Cpus_allowed_list:' /proc/$many/task/*/status | cut -f2 | grep -cx "$1" || true; }
# until_on LIST COUNT
until_on() {
  for _ in $(seq 120); do
    [ "$(on "$1")" != "$2" ] || return 0
    sleep 1
  done
  echo "on $1: $(on "$1")"
  cat log
  exit 1
}
until_on 0-7 80
corun daemon --config at_once.toml 2>log & daemon=$!
until_on '[0-7]' 80
# Once it is held, it is read at once.
sleep 3
moved=$(ls /proc/$many/task | tail -1)
taskset -cp 0-1 $moved >/dev/null
for _ in $(seq 60); do
  ! grep -q "left alone from now on.*$moved" log || break
  sleep 1
done
grep "left alone from now on.*$moved" log
[ "$(on '[0-7]')" = 79 ]
if corun verify --config at_once.toml; then exit 1; fi
kill $daemon
wait $daemon
[ "$(on 0-7)" = 79 ]
[ "$(on 0-1)" = 1 ]
corun verify --config at_once.toml
kill $many
