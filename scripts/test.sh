#!/usr/bin/env bash
# The tests of `make test`: those of the workspace, and beside them, since much of it is waiting, the guests and the
# Python package. Prints the failures, what was skipped and why, and the counts.
#
# Nothing is waited for without a limit: what reaches its own is ended and told of, with what it had printed last.
set -euo pipefail
cd "$(dirname "$0")/.."

# The Python package's native part is built by the package's own build (scripts/test-python.sh), and by nothing before it.
tested=(--workspace --exclude corun-python --locked)
target=target
mkdir -p "$target"

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
cargo test "${tested[@]}" --no-run
wait "$environment" || true

bounded "the guests" 2400 cargo test "${tested[@]}" --test guest -- --show-output >"$target/test-guests.log" 2>&1 &
guests=$!
bounded "the Python package" 1800 scripts/test-python.sh >>"$target/test-python.log" 2>&1 &
python=$!
# Tests write what they print to the log, where count-tests.sh finds those that skip; the terminal has that of failures alone.
: >"$target/test.log"
bounded "the workspace" 2400 cargo test "${tested[@]}" --no-fail-fast -- --show-output --skip all_cases_of_the_guest \
  >"$target/test.log" 2>&1 &
workspace=$!
running+=("$guests" "$python" "$workspace")

failed=0
print_while "$workspace" "$target/test.log"
wait "$workspace" || failed=1
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
scripts/count-tests.sh "$target/test.log" "$target/test-guests.log" "$target/test-python.log"
exit "$failed"
