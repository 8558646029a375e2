#!/usr/bin/env bash
# Installs the Python package into a virtual environment of its own, as a user does but for the
# build profile, and runs its tests: `scripts/test-python.sh [PYTEST ARGUMENT ..]`.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
venv=$(cd "$target" && pwd)/python-venv

# The environment is made anew when what it must hold changes.
wanted=$(sha256sum pyproject.toml | cut -d' ' -f1)
if [ "$(cat "$venv/made-for" 2>/dev/null || true)" != "$wanted" ]; then
    echo "corun: making a Python environment in $venv"
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.9.4,<2'
fi

# The development profile shares what cargo has built already. pip installs a folder anew whatever is installed.
export PATH=$venv/bin:$PATH
pip install --quiet --disable-pip-version-check --no-build-isolation \
    --config-settings=build-args="--profile dev --locked" '.[plot,dask,test]'
echo "$wanted" >"$venv/made-for"
cd python/tests
exec python -m pytest --rootdir=../.. --config-file=../../pyproject.toml "$@"
