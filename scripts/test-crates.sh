#!/usr/bin/env bash
# Installs the command from its source crates, as `cargo install corun` does from a registry that has them:
# `scripts/test-crates.sh CRATES [CARGO OPTION ..]`. CRATES is the folder with the files of `cargo package`.
set -euo pipefail

crates=$(realpath "${1:?usage: scripts/test-crates.sh CRATES [CARGO OPTION ..]}")
shift
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for crate in "$crates"/corun*.crate; do tar -xzf "$crate" -C "$work"; done
cp "$root/Cargo.lock" "$work"
{
    printf '[workspace]\nresolver = "3"\nmembers = ["corun*"]\n[patch.crates-io]\n'
    for folder in "$work"/corun*/; do
        name=$(basename "$folder")
        printf '%s = { path = "%s" }\n' "${name%-*}" "$name"
    done
} >"$work/Cargo.toml"
cd "$work"
cargo install --path "$(basename "$work"/corun-[0-9]*)" --root "$work/installed" --no-track "$@"
"$work/installed/bin/corun" --version
"$work/installed/bin/corun" compare --machine xeon-x5365 --apps sort,xz --seeds 1 --policy di >/dev/null
"$work/installed/bin/corun" check-config --example >/dev/null
echo "corun: the source crates build and have their machines, profiles and configuration"
