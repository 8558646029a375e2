#!/usr/bin/env bash
# Installs the wheel into a fresh virtual environment and runs README's example: `scripts/test-wheel.sh WHEEL [PYTHON]`.
# Needs the network for numpy and pandas.
set -euo pipefail

wheel=$(realpath "${1:?usage: scripts/test-wheel.sh WHEEL [PYTHON]}")
python=${2:-python3}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel"
example=$(sed -n "s/^\$ python -c '\(.*\)'\$/\1/p" "$root/README.md")
[ -n "$example" ] || { echo "corun: README has no line \`\$ python -c '..'\`" >&2; exit 1; }
# Nothing of the clone is on Python's path here.
cd "$work"
table=$("$work/venv/bin/python" -c "$example")
echo "$table"
grep -q optimal <<<"$table"
