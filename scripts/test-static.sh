#!/usr/bin/env bash
# Runs the static binary where there is nothing else: `scripts/test-static.sh BINARY`. Needs root, for a folder of its own
# as root, with the kernel's /proc and /sys and no library, shell or file beside the binary.
set -euo pipefail

binary=$(realpath "${1:?usage: scripts/test-static.sh BINARY}")
if [ "$(id -u)" -ne 0 ]; then
    echo "corun: needs root, for chroot" >&2
    exit 1
fi
if libraries=$(ldd "$binary" 2>/dev/null | grep '=>'); then
    echo "corun: $binary asks for libraries:" >&2
    echo "$libraries" >&2
    exit 1
fi
work=$(mktemp -d)
root=$work/root
finish() {
    umount "$root/proc" "$root/sys" 2>/dev/null || true
    rm -rf --one-file-system "$work"
}
trap finish EXIT
mkdir -p -m 700 "$root"/{proc,sys,tmp,run}
cp "$binary" "$root/corun"
mount -t proc proc "$root/proc"
mount --bind -o ro /sys "$root/sys"

inside() { env -i "$(command -v chroot)" "$root" /corun "$@"; }
says() {
    local expected=$1 said
    shift
    said=$(inside "$@" 2>&1) || true
    grep -q -- "$expected" <<<"$said" || {
        echo "corun: \`corun $*\` does not say \`$expected\`:" >&2
        echo "$said" >&2
        exit 1
    }
}
says "^corun $("$(dirname "$0")/version.sh")" --version
says "placing threads" doctor
says "LLC" topology
says "mean slowdown" predict --machine xeon-x5365 --apps sort,xz
says "^optimal" compare --machine xeon-x5365 --apps sort,xz --seeds 1 --policy di
# One busy program at a time: itself.
says "given back\|under random" run --policy random --journals /run --duration 1 -- /corun stand-in
# What it cannot do, it says.
says "is needed to trace" profile -o /tmp/mine.toml -- /corun --version
echo "corun: the static binary runs without libraries, a shell and files"
