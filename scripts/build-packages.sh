#!/usr/bin/env bash
# Makes all packages of what is checked out: `scripts/build-packages.sh PROFILE OUT`. A part that this machine cannot
# make is named at the end, and the script fails.
set -uo pipefail

profile=${1:?usage: scripts/build-packages.sh PROFILE OUT}
out=${2:?usage: scripts/build-packages.sh PROFILE OUT}
cd "$(dirname "$0")/.." || exit 1
target=${CARGO_TARGET_DIR:-target}
built=$target/$profile
[ "$profile" = dev ] && built=$target/debug
version=$(scripts/version.sh)
failed=()

part() {
    echo "== $1"
    shift
    "$@"
}

deb() {
    scripts/build-command.sh "$profile" && scripts/build-deb.sh "$built" "$out"
}

# The sources as cargo publishes them, of the command and all crates that it is made of.
crates() {
    cargo package --workspace --exclude corun-python --exclude corun-studies --locked --no-verify --quiet \
        ${ALLOW_DIRTY:+--allow-dirty} &&
        mkdir -p "$out/crates" && cp "$target"/package/corun*-"$version".crate "$out/crates/"
}

mkdir -p "$out"
part "Debian package" deb || failed+=("the Debian package")
part "wheel" scripts/build-wheel.sh "$profile" "$out" || failed+=("the wheel")
part "source crates" crates || failed+=("the source crates")
part "static binary" scripts/build-static.sh "$profile" "$out" || failed+=("the static binary")
(cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum >SHA256SUMS)
if [ ${#failed[@]} -gt 0 ]; then
    printf 'corun: not made: %s\n' "${failed[@]}" >&2
    exit 1
fi
echo "corun $version: all packages are in $out"
