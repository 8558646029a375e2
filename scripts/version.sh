#!/usr/bin/env bash
# Prints corun's version. It stands in one place, [workspace.package] of Cargo.toml.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
sed -n '/^\[workspace\.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml"
