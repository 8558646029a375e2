#!/usr/bin/env bash
# Makes sure that the system packages for a goal are there: `scripts/setup.sh build|test|deb|packages|test-packages|bench-counts`.
# Installs what is missing when root on Debian or Ubuntu; otherwise says exactly what to install.
set -euo pipefail

goal=${1:?usage: scripts/setup.sh build|test|deb|packages|test-packages|bench-counts}

# command -> Debian package that has it
declare -A package_of=([cc]=gcc)
if [ "$goal" = bench-counts ]; then
    package_of[valgrind]=valgrind
    package_of[python3]=python3
elif [ "$goal" != build ]; then
    # The Debian package: its libraries are looked up, its programs stripped. The tests make one too.
    package_of[dpkg-shlibdeps]=dpkg-dev
    package_of[strip]=binutils
fi
if [ "$goal" = packages ]; then
    package_of[musl-gcc]=musl-tools
    package_of[python3]=python3
fi
if [ "$goal" = test-packages ]; then
    package_of[debootstrap]=debootstrap
    package_of[bc]=bc
fi
if [ "$goal" = test ]; then
    package_of[qemu-x86_64]=qemu-user
    # The guest with several LLCs and nodes.
    package_of[qemu-system-x86_64]=qemu-system-x86
    package_of[cpio]=cpio
    package_of[xz]=xz-utils
    package_of[zstd]=zstd
    # Tests of resctrl mount a file system of their own.
    package_of[fusermount3]=fuse3
    # What hwloc finds in captured machines is held against what we find.
    package_of[lstopo-no-graphics]=hwloc-nox
    # The scheduler in the kernel is compiled again and held against the shipped object.
    package_of[clang-19]=clang-19
    package_of[llvm-strip-19]=llvm-19
    # The page of `corun serve` is tested in a browser. Its bundle is held against its sources where Node.js is.
    package_of[chromium]=chromium
    # Completions are asked of the shells, and Slurm's plug-in runs in its language.
    package_of[fish]=fish
    package_of[zsh]=zsh
    package_of[lua]=lua5.4
    # The Python package is tested in a virtual environment.
    package_of[python3]=python3
    # A sweep runs as jobs of a Slurm on this host. Only root can start one; without root that test is skipped.
    if [ "$(id -u)" -eq 0 ]; then
        package_of[slurmctld]=slurmctld
        package_of[slurmd]=slurmd
        package_of[sbatch]=slurm-client
        package_of[munged]=munge
    fi
fi

missing=()
for command in "${!package_of[@]}"; do
    command -v "$command" >/dev/null 2>&1 || missing+=("${package_of[$command]}")
done
if [[ $goal = test || $goal = packages ]] && ! python3 -c 'import ensurepip, venv' >/dev/null 2>&1; then
    missing+=(python3-venv)
fi
if ! command -v cargo >/dev/null 2>&1; then
    echo "corun: no Rust toolchain found (cargo). Install Rust 1.88 or later, then try again." >&2
    exit 1
fi
[ ${#missing[@]} -eq 0 ] && exit 0

mapfile -t missing < <(printf '%s\n' "${missing[@]}" libc6-dev | sort -u)
install="apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "corun: installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    $install
else
    echo "corun: missing system packages. Run: sudo $install" >&2
    exit 1
fi
