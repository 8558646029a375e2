# README's first hour where neighbours are the cause: explain names them, the daemon says what it would do and then does
# it, past its gate; it is killed, and all is taken back. Last, what the policy is worth is measured, and ends as before.
. /cases/judge
PATH=/usr/local/bin:$PATH
# One CPU an LLC: a kernel that has as many CPUs as busy programs moves few of them, and the emulator has less to do.
for cpu in 1 3 5 7; do echo 0 >/sys/devices/system/cpu/cpu$cpu/online; done
# What Linux does not tell: each package has a bus that two of the programs fill.
corun topology --format toml >machine.toml
for package in 0,2 4,6; do
  printf '[[bandwidth]]\nname = "bus of %s"\nkind = "front-side-bus"\nstage = 0\npeak_mb_per_s = 2500.0\nfrom_cpus = "%s"\n' \
    "$package" "$package" >>machine.toml
done
profile solver 32; profile render 30; profile web 1; profile mail 0.5
cat >config.toml <<END
apply = false
policy = "di"
counters = "model"
profiles = "profiles"
machine = "machine.toml"
metrics = "off"
END
# The two that miss most are both on the first package.
cpu=0
pids=
for name in solver render web mail; do
  ln -f /usr/local/bin/corun "$name"
  taskset -c $cpu "./$name" stand-in --cpu-ms 4 --wait-ms 6 &
  renice -n 19 -p $! >/dev/null
  pids="$pids $!"
  printf '[[program]]\nname = "%s"\ncommand = "%s"\n' "$name" "$name" >>config.toml
  cpu=$((cpu + 2))
done
first=${pids# }
first=${first%% *}
allowed() { sed -n 's/^Cpus_allowed_list:\t*//p' /proc/$1/status; }
# all_may LIST: may each program run on these CPUs? `one`: on one.
all_may() {
  for pid in $pids; do
    case "$1 $(allowed $pid)" in "one "[0246] | "$1 $1") ;; *) return 1 ;; esac
  done
}
# Each program is where it was started, and may run anywhere from then on.
begun() {
  cpu=0
  for pid in $pids; do
    taskset -cp $cpu $pid >/dev/null
    cpu=$((cpu + 2))
  done
  for pid in $pids; do taskset -cp 0-7 $pid >/dev/null; done
}
# said TEXT FILE: waits until the text is in the file.
said() {
  for _ in $(seq 120); do
    ! grep -q "$1" "$2" || return 0
    sleep 0.5
  done
  cat "$2"
  return 1
}
# `corun verify` says that the machine is not as corun found it.
differs() { if corun verify --config config.toml; then exit 1; fi; }
corun explain --machine machine.toml --profiles profiles $first >explained
cat explained
tr -s '\n ' ' ' <explained | grep -q 'slowed by render ([0-9]*, CPU 2) by 1'
corun check-config config.toml
corun daemon --config config.toml 2>log & daemon=$!
said started log
begun
all=$(allowed $first)
kill -HUP $daemon
said 'would do: ' log
all_may $all
corun verify --config config.toml
sed -i 's/^apply = false/apply = true/' config.toml
# Where the kernel moves them before the daemon looks there is nothing to gain: they are put where they were until it looks
# in time, and it begins anew now and then.
for _ in $(seq 10); do
  begun
  kill -HUP $daemon
  for look in $(seq 20); do
    ! all_may one || break 2
    [ $((look % 3)) != 0 ] || ! all_may $all || begun
    sleep 0.5
  done
done
cat log
all_may one
differs
kill -9 $daemon
wait $daemon || true
differs
corun restore --config config.toml
all_may $all
corun verify --config config.toml
corun ab --config config.toml --block 1 --washout 0.5 --longest 4
all_may $all
corun verify --config config.toml
end $pids
for cpu in 1 3 5 7; do echo 1 >/sys/devices/system/cpu/cpu$cpu/online; done
