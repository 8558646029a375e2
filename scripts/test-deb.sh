#!/usr/bin/env bash
# Installs the Debian package into a fresh Debian and takes it away again: `scripts/test-deb.sh PACKAGE [SUITE]`. SUITE is
# bookworm (12) or trixie (13). Needs root and debootstrap; DEBIAN_MIRROR names another mirror. It measures the
# time from the installation, also of what the package depends on, to the first answer about this machine, and fails from
# a minute on.
set -euo pipefail

package=$(realpath "${1:?usage: scripts/test-deb.sh PACKAGE [SUITE]}")
suite=${2:-bookworm}
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
    echo "corun: needs root and debootstrap (apt-get install debootstrap)" >&2
    exit 1
fi
work=$(mktemp -d)
root=$work/root
finish() {
    umount -R "$root/proc" "$root/sys" 2>/dev/null || true
    rm -rf --one-file-system "$work"
}
trap finish EXIT

inside() {
    chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"
}
# What a package could leave: all but what apt, dpkg and logs keep of their own accord.
files() {
    (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./var/cache -o -path ./var/lib/apt -o \
        -path ./var/lib/dpkg -o -path ./var/log -o -path ./tmp \) -prune -o -print | LC_ALL=C sort)
}
step() { echo "== $*"; }

step "a fresh $suite"
debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$work/debootstrap.log" || {
    tail -5 "$work/debootstrap.log" >&2
    exit 1
}
mount -t proc proc "$root/proc"
mount --bind -o ro /sys "$root/sys"
# No service may start: there is no systemd in here.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod +x "$root/usr/sbin/policy-rc.d"
# There are no terminals in here for dpkg to write through.
printf 'Dpkg::Use-Pty "0";\n' >"$root/etc/apt/apt.conf.d/99no-pty"
inside apt-get update -qq
# What the package asks for comes first, so that what is left afterwards is the package's own.
depends=$(dpkg-deb --field "$package" Depends | tr ',' '\n' | sed 's/ *(.*//; s/ *|.*//; s/^ *//')
# shellcheck disable=SC2086
before=$(date +%s.%N)
inside apt-get install -y -qq --no-install-recommends $depends >"$work/apt.log"
needed=$(echo "$(date +%s.%N) - $before" | bc)
files >"$work/before"
cp "$package" "$root/tmp/corun.deb"

step "install, and the first answer"
begin=$(date +%s.%N)
inside apt-get install -y -qq --no-install-recommends /tmp/corun.deb >>"$work/apt.log"
inside corun topology >"$work/topology"
inside corun doctor >"$work/doctor" || true
took=$(echo "$(date +%s.%N) - $begin" | bc)
total=$(echo "$needed + $took" | bc)
echo "from the package to an answer: $took s, with all that it depends on $total s"
[ "$(echo "$total < 60" | bc)" -eq 1 ] || { echo "corun: expected less than a minute" >&2; exit 1; }
head -3 "$work/topology"
grep -q "placing threads" "$work/doctor"

step "the daemon, dry"
inside corun check-config /etc/corun/config.toml
before=$(inside cat /proc/self/status | grep Cpus_allowed_list)
# Whom the configuration names there are none of in here: a program of this root stands in.
printf 'apply = false\npolicy = "di"\ncounters = "profiles"\nmetrics = "off"\njournals = "/run/corun"\n[[program]]\nname = "sleeper"\ncommand = "sleep"\nprofile = "sort"\n' \
    >"$root/tmp/config.toml"
inside sleep 30 &
sleeper=$!
inside timeout --signal=TERM 3 corun daemon --config /tmp/config.toml >"$work/daemon" 2>&1 || [ $? -eq 124 ]
kill "$sleeper" 2>/dev/null || true
wait "$sleeper" 2>/dev/null || true
grep -qi "sleeper" "$work/daemon" || { cat "$work/daemon" >&2; exit 1; }
[ "$before" = "$(inside cat /proc/self/status | grep Cpus_allowed_list)" ]
inside corun restore --config /tmp/config.toml
rm -rf "$root/run/corun"

step "the page's user"
inside getent passwd corun
[ "$(inside id -un corun)" = corun ]
inside setpriv --reuid=corun --regid=corun --clear-groups timeout --signal=TERM 5 \
    corun serve --machine this --config /etc/corun/config.toml >"$work/page" 2>&1 || [ $? -eq 124 ]
grep -q 'open http://127.0.0.1' "$work/page" || { cat "$work/page" >&2; exit 1; }

step "remove and purge"
inside apt-get purge -y -qq corun >>"$work/apt.log"
rm -f "$root/tmp/corun.deb" "$root/tmp/config.toml"
files >"$work/after"
if ! diff "$work/before" "$work/after"; then
    echo "corun: the lines above are what the package left or took" >&2
    exit 1
fi
echo "corun: $suite is as it was"
