#!/usr/bin/env bash
# What cargo test and pytest counted, in one line, below the tests that were skipped and why:
# `scripts/count-tests.sh CARGO.log PYTEST.log`.
#
# A Rust test that cannot run prints a line `skipped: REASON` and passes. With `--show-output` the log of cargo test
# has that line below `---- NAME stdout ----`; the test then counts as skipped and not as passed.
set -euo pipefail

awk '
    function skip(name, reason) { list[++listed] = "skipped: " name ": " reason }

    # cargo: "     Running tests/cli/main.rs (target/debug/deps/cli-0123456789abcdef)" and "   Doc-tests corun", then a line for each ignored test
    /^ +(Running|Doc-tests) / {
        # The executable is named for the crate or the test, with a hash at its end.
        suite = $NF
        gsub(/^.*\/|-[0-9a-f]+\)$/, "", suite)
    }
    /^test .* \.\.\. ignored/ {
        reason = $0
        sub(/^test .* \.\.\. ignored(, )?/, "", reason)
        skip(suite "::" $2, reason == "" ? "ignored" : reason)
    }
    # Of a test that failed it does not matter what else it printed.
    /^successes:$/ { passing = 1 }
    /^(failures|test result):/ { passing = 0; name = "" }
    /^---- .* stdout ----$/ && passing { name = $2; told = 0 }
    /^skipped: / && name != "" && !told {
        told = 1
        hidden++
        skip(suite "::" name, substr($0, 10))
    }
    /^test result:/ { passed += $4; failed += $6; skipped += $8 }

    # pytest: "SKIPPED [1] test_slurm.py:28: no Slurm here" and "3 failed, 40 passed, 1 skipped in 5.9s"
    /^SKIPPED \[[0-9]+\] / { where = $3; sub(/:$/, "", where); skip(where, substr($0, index($0, $3) + length($3) + 1)) }
    / in [0-9.]+s/ && /(passed|failed|error|skipped)/ && !/^test result:/ {
        for (field = 2; field <= NF; field++) {
            if ($field ~ /^passed/) passed += $(field - 1)
            if ($field ~ /^(failed|errors?)/) failed += $(field - 1)
            if ($field ~ /^skipped/) skipped += $(field - 1)
        }
    }
    END {
        for (at = 1; at <= listed; at++) print list[at]
        printf "%d passed, %d failed, %d skipped\n", passed - hidden, failed, skipped + hidden
    }
' "$@"
