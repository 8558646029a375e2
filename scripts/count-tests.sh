#!/usr/bin/env bash
# What cargo test and pytest counted, in one line: `scripts/count-tests.sh CARGO.log PYTEST.log`.
set -euo pipefail

awk '
    /^test result:/ { passed += $4; failed += $6; skipped += $8 }
    # pytest: "3 failed, 40 passed, 1 skipped in 5.9s", with or without lines around it
    / in [0-9.]+s/ && /(passed|failed|error|skipped)/ && !/^test result:/ {
        for (field = 2; field <= NF; field++) {
            if ($field ~ /^passed/) passed += $(field - 1)
            if ($field ~ /^(failed|errors?)/) failed += $(field - 1)
            if ($field ~ /^skipped/) skipped += $(field - 1)
        }
    }
    END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }
' "$@"
