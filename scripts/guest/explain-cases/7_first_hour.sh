# README's first hour: why a program is slow, what explain advises, what that is worth by turns, and all back.
. /cases/judge
PATH=/usr/local/bin:$PATH
taskset 1 sha256sum /dev/zero & one=$!
taskset 1 md5sum /dev/zero & others=$!
sleep 1
corun explain $one
corun explain --format json $one >explained.json
# The first of the advice, and what takes it back.
on=$(sed -n 's/^ *"command": "\(.*\)",*$/\1/p' explained.json | head -1)
off=$(sed -n 's/^ *"undo": "\(.*\)",*$/\1/p' explained.json | head -1)
echo "\$ corun ab --on '$on' --off '$off'"
corun ab --until-clear --block 3 --washout 1 --on "$on >/dev/null" --off "$off >/dev/null" \
  --count cpu="cut -d' ' -f14 /proc/$one/stat" | tee measured
# The time on CPUs nearly doubles: 60 to 140 % more.
awk '$1 == "cpu" { for (i = 2; i <= NF; i++) if ($i + 0 >= 60 && $i + 0 <= 140) found = 1 } END { exit !found }' measured
[ "$(sed -n 's/^Cpus_allowed_list:\t*//p' /proc/$one/status)" = 0 ]
corun verify
corun restore
end $one $others
