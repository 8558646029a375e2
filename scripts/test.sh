#!/usr/bin/env bash
# The tests of `make test`, and its lints. Prints the failures, what was skipped and why, and the counts.
#
# What takes longest begins first: the three guests, each an emulator that one test waits for, run from the moment on when the
# command is built, beside the build of all other tests and the other tests. These run as two streams of like length,
# those of the two commands from outside and all others, and the Python package as a third, since many of them wait: on two
# cores there is work for both until the last test ends.
#
# Nothing is waited for without a limit: what reaches its own is ended and told of, with what it had printed last. The limits
# are of what hangs, several times what all takes on a busy host.
set -euo pipefail
cd "$(dirname "$0")/.."

# The Python package's native part is built by the package's own build (scripts/test-python.sh), and by nothing before it.
tested=(--workspace --exclude corun-python --locked)
target=$PWD/target
mkdir -p "$target"
# What commands keep for the next ones; none of whoever runs the tests.
export CORUN_CACHE_DIR=$target/tmp/caches

# bounded NAME SECONDS COMMAND..: in the background; ended after so many seconds, or with this script, and all that it
# started with it.
bounded() {
  local name=$1 seconds=$2 status=0
  shift 2
  timeout -k 30 "$seconds" "$@" &
  trap "kill $! 2>/dev/null || true" TERM
  wait "$!" || status=$?
  ((status != 124 && status != 137)) || echo "corun: $name did not end within $seconds s"
  return "$status"
}

# print_while PID LOG: what a process writes to its log, but for what passing tests print. What it leaves running and
# still holds the log is not waited for.
print_while() {
  tail -n +1 -f --pid="$1" -s 0.2 "$2" 2>/dev/null \
    | sed -u '/^successes:$/,/^\(failures:\|test result:\)/{/^\(failures:\|test result:\)/!d}'
}

running=()
trap 'kill "${running[@]}" 2>/dev/null || true' EXIT

# Made while crates are built: what the Python package needs is mostly waited for.
bounded "making the Python environment" 900 scripts/test-python.sh --environment >"$target/test-python.log" 2>&1 &
environment=$!
running+=("$environment")

# State from which changed crates are built faster the next time is written to the disk at a cost; most runs are of fresh clones
# or follow a merge.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}

# Crates of the workspace are linted, with their documentation, as they are built. The underscored word is what cargo clippy
# itself separates the arguments with that it hands to its driver: these are `-D warnings`.
CORUN_SYSROOT=$(rustc --print sysroot)
export CORUN_SYSROOT RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/rustc-with-lints.sh
export CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__

cargo build "${tested[@]}" --test guest --example scx_exercise --example resctrl_server
CORUN_EXAMPLES=$target/debug/examples bounded "the guests" 7200 \
  cargo test "${tested[@]}" --test guest -- --show-output >"$target/test-guests.log" 2>&1 &
guests=$!
running+=("$guests")
# cargo looks once more whether the test is built, and would wait for what is being built below.
until grep -q '^ *Running' "$target/test-guests.log" || ! kill -0 "$guests" 2>/dev/null; do sleep 0.1; done

cargo fmt --all --check
# Not by --all-targets, which would build the examples as tests alone: some tests start them.
cargo test "${tested[@]}" --no-run
cargo test "${tested[@]}" --benches --no-run
wait "$environment" || true
echo "corun: all is checked and built after $SECONDS s"

# Tests write what they print to the log, where count-tests.sh finds those that skip; the terminal has that of failures alone.
# stream NAME ARGUMENT..: tests, in the background, after one another. All packages are named each time: with fewer, cargo
# would choose other features for what they share, and build it anew.
streams=() logs=()
stream() {
  local name=$1 log=$target/test-$1.log
  shift
  : >"$log"
  bounded "the $name tests" 7200 cargo test "${tested[@]}" --no-fail-fast "$@" >"$log" 2>&1 &
  streams+=($!) logs+=("$log")
  running+=($!)
}
stream commands --test 'c*' -- --show-output
stream others --lib --bins --test '[!c]*' -- --show-output --skip all_cases_of_the_guest
stream documentation --doc
# Last: its build would have the others wait for cargo.
bounded "the Python package" 7200 scripts/test-python.sh >>"$target/test-python.log" 2>&1 &
python=$!
running+=("$python")

failed=0
for index in "${!streams[@]}"; do
  print_while "${streams[index]}" "${logs[index]}"
  wait "${streams[index]}" || failed=1
done
echo "corun: the workspace's tests ended after $SECONDS s; waiting for the Python package and the guests"
wait "$python" || failed=1
cat "$target/test-python.log"
echo "corun: the Python package's tests ended after $SECONDS s"
wait "$guests" || {
  failed=1
  # A test that was ended has not printed what it saw.
  tail -n 40 "$target"/tmp/guest*/console.log || true
}
cat "$target/test-guests.log"
echo "corun: the guests ended after $SECONDS s at the latest"
scripts/count-tests.sh "${logs[@]}" "$target/test-guests.log" "$target/test-python.log"
exit "$failed"
