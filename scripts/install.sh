#!/usr/bin/env bash
# Installs what is built, or takes it away again: `scripts/install.sh BUILT PREFIX`, `scripts/install.sh --remove PREFIX`.
# BUILT is cargo's folder with corun, corun-study and deps/libcorun_trace.so. DESTDIR puts a root before PREFIX, as
# packagers do; then nothing of this machine is asked or stopped.
set -euo pipefail

first=${1:?usage: scripts/install.sh BUILT PREFIX, or scripts/install.sh --remove PREFIX}
prefix=${2:?usage: scripts/install.sh BUILT PREFIX, or scripts/install.sh --remove PREFIX}
root=$(cd "$(dirname "$0")/.." && pwd)
to=${DESTDIR:-}$prefix
units=(corun.service corun-page.service corun.socket)

if [ "$first" != --remove ]; then
    umask 022
    install -D -m 755 "$first/corun" "$to/bin/corun"
    install -D -m 755 "$first/corun-study" "$to/bin/corun-study"
    install -D -m 755 "$first/deps/libcorun_trace.so" "$to/lib/corun/libcorun_trace.so"
    mkdir -p "$to/lib/systemd/system"
    for unit in "${units[@]}"; do
        sed "s|/usr/local/bin/|$prefix/bin/|" "$root/packaging/$unit" >"$to/lib/systemd/system/$unit"
    done
    install -D -m 644 "$root/packaging/sysusers.conf" "$to/lib/sysusers.d/corun.conf"
    "$root/scripts/install-documentation.sh" "$first/corun" "$to/share"
    exit 0
fi

if [ -z "${DESTDIR:-}" ] && [ -x "$to/bin/corun" ]; then
    if systemctl is-active --quiet corun.service corun-page.service corun.socket 2>/dev/null; then
        echo "corun: the daemon runs. Stop it first, so that it undoes what it did:" >&2
        echo "    systemctl disable --now corun.service corun-page.service corun.socket" >&2
        exit 1
    fi
    # What a killed corun left behind only corun undoes.
    "$to/bin/corun" restore
fi
rm -f "$to/bin/corun" "$to/bin/corun-study" "$to/lib/sysusers.d/corun.conf" "${units[@]/#/$to/lib/systemd/system/}" \
    "$to/share/man/man1/corun.1" "$to"/share/man/man1/corun-*.1 "$to/share/bash-completion/completions/corun" \
    "$to/share/zsh/site-functions/_corun" "$to/share/fish/vendor_completions.d/corun.fish"
rm -rf "$to/lib/corun" "$to/share/doc/corun"
