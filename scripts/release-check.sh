#!/usr/bin/env bash
# The check-list of a release: `scripts/release-check.sh [--quick]`. Each line says what was checked and whether it holds;
# the script fails where one does not. --quick leaves out what builds: tests, packages, and the packages' own checks.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

quick=0
[ "${1:-}" = --quick ] && quick=1
version=$(scripts/version.sh)
failed=0

check() {
    local what=$1 said
    shift
    if said=$("$@" 2>&1); then
        echo "yes  $what"
    else
        echo "NO   $what"
        [ -z "$said" ] || printf '%s\n' "$said" | tail -20 | sed 's/^/       /'
        failed=1
    fi
}

# MAJOR.MINOR.PATCH, as semver.org has it.
is_semantic() { [[ $version =~ ^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$ ]]; }
is_clean() {
    local changed
    changed=$(git status --porcelain) && [ -z "$changed" ] || { echo "$changed"; false; }
}
is_after_last_tag() {
    local last
    last=$(git tag --list 'v[0-9]*' --sort=-version:refname | head -1)
    [ -z "$last" ] && return 0
    [ "$last" = "v$version" ] && { echo "the tag $last is there already"; return 1; }
    [ "$(printf '%s\n%s\n' "${last#v}" "$version" | sort -V | tail -1)" = "$version" ] ||
        { echo "$version is before $last"; return 1; }
}
# Crates that are published have the version, and ask each other for it alone; the lock file is that of the manifests.
do_crates_agree() {
    cargo metadata --locked --no-deps --format-version 1 | VERSION=$version python3 -c '
import json, os, sys
version, wrong = os.environ["VERSION"], []
for one in json.load(sys.stdin)["packages"]:
    if one["version"] != version:
        wrong.append("{name} {version}".format(**one))
    for need in one["dependencies"]:
        if need["name"].startswith("corun") and need["kind"] is None and need["req"] != "=" + version:
            wrong.append("{} asks for {} {}".format(one["name"], need["name"], need["req"]))
print("\n".join(wrong))
sys.exit(bool(wrong))'
}
do_images_agree() {
    local other
    other=$(grep -rhoE 'image: \S*/corun:\S+' packaging | grep -v ":$version\$") || return 0
    echo "$other"
    return 1
}
is_python_version_dynamic() { grep -q '^dynamic = \["version"\]' pyproject.toml && ! grep -q '^version' pyproject.toml; }
has_changelog() {
    local section
    section=$(sed -n "/^## $version - [0-9-]*\$/,/^## /p" CHANGELOG.md | grep -c '^- ')
    [ "$section" -gt 0 ] || { echo "expected \`## $version - YEAR-MONTH-DAY\` with what changed"; return 1; }
}
is_nothing_unreleased() {
    local open
    open=$(sed -n '/^## Unreleased/,/^## [0-9]/p' CHANGELOG.md | grep -c '^- ')
    [ "$open" -eq 0 ] || { echo "$open lines stand under Unreleased"; return 1; }
}
is_rust_version_said() {
    local least
    least=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    grep -q "$least or later" README.md || { echo "README does not name Rust $least"; return 1; }
}
deb_goes_in_and_out() {
    local deb suite
    deb=$(ls target/packages/corun_"$version"_*.deb) || return 1
    for suite in bookworm trixie; do scripts/test-deb.sh "$deb" "$suite" || return 1; done
}
static_binary_runs_alone() { scripts/test-static.sh "$(ls target/packages/corun-"$version"-*-linux-musl)"; }
wheel_runs() { scripts/test-wheel.sh "$(ls target/packages/corun-"$version"-*.whl)"; }
wheel_keeps_its_name() { python3 scripts/check-wheel.py "$(ls target/packages/corun-"$version"-*.whl)" "$version"; }

# By the database as it is now; without a network by the copy that SECURITY.md tells of.
are_dependencies_sound() { cargo deny check advisories || cargo deny --offline check advisories; }

echo "corun $version"
check "the version is a semantic one" is_semantic
check "the version is after the last tag" is_after_last_tag
check "all crates have the version, and ask each other for it" do_crates_agree
check "the images of the manifests have the version" do_images_agree
check "the wheel takes its version from Cargo.toml" is_python_version_dynamic
check "README names the least Rust" is_rust_version_said
check "the changelog has the version with its day" has_changelog
check "nothing stands under Unreleased" is_nothing_unreleased
check "the tree is clean" is_clean
if [ "$quick" -eq 0 ]; then
    check "make test" make test
    check "make packages" make packages
    check "the command installs from its source crates" scripts/test-crates.sh target/packages/crates
    check "the wheel keeps what its name promises" wheel_keeps_its_name
    check "the wheel installs into a fresh environment and runs README's example" wheel_runs
    check "the static binary runs where there is nothing else" static_binary_runs_alone
    check "the Debian package goes in and out of a fresh Debian 12 and 13" deb_goes_in_and_out
    check "licences and sources of dependencies" cargo deny --offline check licenses bans sources
    check "no advisory concerns a dependency" are_dependencies_sound
fi
exit $failed
