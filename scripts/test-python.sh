#!/usr/bin/env bash
# Installs the Python package into a virtual environment of its own, as a user does but for the build profile, and runs
# its tests: `scripts/test-python.sh [PYTEST ARGUMENT ..]`. `scripts/test-python.sh --environment` makes the environment
# alone, with all that the package and its tests need; that is mostly waiting for the network.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
venv=$(cd "$target" && pwd)/python-venv
# What is never imported is not compiled; what is, once: dozens of processes import it.
unset PYTHONDONTWRITEBYTECODE
install=(pip install --quiet --disable-pip-version-check --no-compile)

# The environment is made anew when what it must hold changes.
wanted=$(sha256sum pyproject.toml scripts/test-python.sh | sha256sum | cut -d' ' -f1)
made_for=$(cat "$venv/made-for" 2>/dev/null || true)
export PATH=$venv/bin:$PATH
if [ "$made_for" != "$wanted" ]; then
    echo "corun: making a Python environment in $venv"
    python3 -m venv --clear "$venv"
    mapfile -t requirements < <(python - <<'END'
try:
    import tomllib
except ModuleNotFoundError:
    from pip._vendor import tomli as tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)
extras = project["project"]["optional-dependencies"]
wanted = [project["build-system"]["requires"], project["project"]["dependencies"]]
for requirements in wanted + [extras[name] for name in ("plot", "dask", "test")]:
    print(*requirements, sep="\n")
END
    )
    "${install[@]}" "${requirements[@]}"
    echo "$wanted" >"$venv/made-for"
fi
[ "${1:-}" != --environment ] || exit 0

# The development profile shares what cargo has built already. pip installs a folder anew whatever is installed.
"${install[@]}" --no-deps --no-build-isolation --config-settings=build-args="--profile dev --locked" .
cd python/tests
exec python -m pytest --rootdir=../.. --config-file=../../pyproject.toml "$@"
