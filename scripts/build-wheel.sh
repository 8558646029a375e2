#!/usr/bin/env bash
# Builds the Python package's wheel and checks what its name promises: `scripts/build-wheel.sh PROFILE OUT`.
set -euo pipefail

profile=${1:?usage: scripts/build-wheel.sh PROFILE OUT}
out=${2:?usage: scripts/build-wheel.sh PROFILE OUT}
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
venv=$target/wheel-venv
# What pyproject.toml asks for to build it.
maturin='maturin>=1.9.4,<2'
if ! "$venv/bin/maturin" --version >/dev/null 2>&1; then
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$maturin"
fi
mkdir -p "$out"
rm -f "$out"/corun-*.whl
# maturin asks the library which glibc it needs, and names the wheel by it.
"$venv/bin/maturin" build --quiet --profile "$profile" --locked --strip --out "$out"
wheel=$(ls "$out"/corun-*.whl)
python3 scripts/check-wheel.py "$wheel" "$(scripts/version.sh)"
echo "$wheel"
