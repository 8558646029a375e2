#!/usr/bin/env bash
# Builds corun without any library, for machines of any distribution and for containers: `scripts/build-static.sh
# PROFILE OUT`. It has no plug-in, so that it records no profiles; all else is there. It needs Rust's target
# ARCHITECTURE-unknown-linux-musl and musl's compiler (package musl-tools).
set -euo pipefail

profile=${1:?usage: scripts/build-static.sh PROFILE OUT}
out=${2:?usage: scripts/build-static.sh PROFILE OUT}
root=$(cd "$(dirname "$0")/.." && pwd)
version=$("$root/scripts/version.sh")
target=$(uname -m)-unknown-linux-musl

if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    echo "corun: Rust's target $target is not installed. Run: rustup target add $target" >&2
    exit 1
fi
if ! command -v musl-gcc >/dev/null; then
    echo "corun: musl's compiler is not installed. Run: sudo apt-get install musl-tools" >&2
    exit 1
fi

cd "$root"
env "CC_${target//-/_}=musl-gcc" scripts/build-command.sh "$profile" --target "$target"
folder=$profile
[ "$profile" = dev ] && folder=debug
built=${CARGO_TARGET_DIR:-target}/$target/$folder/corun
if readelf -lW "$built" | grep -q INTERP; then
    echo "corun: $built asks for a dynamic linker, and should not" >&2
    exit 1
fi
mkdir -p "$out"
name=corun-$version-$target
install -m 755 "$built" "$out/$name"
strip --strip-unneeded "$out/$name"
echo "$out/$name"
