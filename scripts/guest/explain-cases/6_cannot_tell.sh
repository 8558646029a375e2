# Five programs of which nobody could tell here: two that sleep, two of which nothing says what they do in a cache, and
# one beside a program of which nobody knows.
. /cases/judge
ln -f /usr/local/bin/corun xz

sleep 1000 & one=$!
explained "sleep" cannot-tell $one
end $one

mkfifo silent
exec 9<>silent
cat silent >/dev/null & one=$!
explained "cat at a pipe into which nobody writes" cannot-tell $one
end $one

sha256sum /dev/zero & one=$!
explained "sha256sum alone, without a profile" cannot-tell $one
end $one

awk 'BEGIN { while (1) sum += 1 }' & one=$!
explained "awk alone, without a profile" cannot-tell $one
end $one

taskset 1 ./xz stand-in & one=$!
taskset 2 sha256sum /dev/zero & others=$!
explained "xz beside sha256sum" cannot-tell $one
end $one $others
all_right
