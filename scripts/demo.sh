#!/usr/bin/env bash
# What `make demo` shows: `scripts/demo.sh CORUN`. CORUN_SHOWN is how the program is called in what is printed.
set -euo pipefail

corun=${1:?usage: scripts/demo.sh CORUN}
shown=${CORUN_SHOWN:-$corun}
programs=sort,numpy,xsltproc,xz,glpsol,sqlite3,hmmsearch,flac
# One program for each core.
server=$(for _ in 1 2 3 4 5 6 7 8; do printf '%s,' "$programs"; done)

"$corun" compare --report report.html
echo
echo "A server of today, full: 64 programs on 64 cores, under 8 last-level caches."
echo
"$corun" compare --machine epyc-9554 --apps "${server%,}" --seeds 3 --time-limit 4 --report report-epyc-9554.html
cat <<END

report.html, report-epyc-9554.html: the same as pages

What to try next, on this machine:
  $shown doctor         what can be measured and controlled here
  $shown top            which programs run where, live
  $shown explain PID    why a process is slow, and what would help
END
