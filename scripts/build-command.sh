#!/usr/bin/env bash
# Builds the command for a package: `scripts/build-command.sh PROFILE [CARGO OPTION ..]`. The Python package is named too
# and not built: so the command's dependencies have the features that the Python package asks for, and its wheel is made of
# the same compiled parts.
set -euo pipefail

profile=${1:?usage: scripts/build-command.sh PROFILE [CARGO OPTION ..]}
shift
cd "$(dirname "$0")/.."
cargo build --locked --profile "$profile" -p corun -p corun-python --bin corun "$@"
