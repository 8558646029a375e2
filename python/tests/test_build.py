"""Building the package builds its own crates alone: everything else is what the tests of the workspace have built."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# What only the package needs.
OWN = {"corun-python", "numpy", "pyo3", "pyo3-build-config", "pyo3-ffi", "target-lexicon"}


def units(*command):
    """What cargo would build: with the same features, profile and dependencies it is built once."""
    command = ["cargo", *command, "--locked", "--unit-graph", "-Zunstable-options"]
    env = {**os.environ, "RUSTC_BOOTSTRAP": "1"}
    told = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    graph = json.loads(told.stdout)["units"]
    known = {}

    def name(at):
        if at not in known:
            unit = graph[at]
            # `cargo test` builds by the profile of tests, which is the one of development.
            profile = {**unit["profile"], "name": "dev"}
            what = [unit[key] for key in ("pkg_id", "target", "mode", "platform", "features")]
            below = sorted(name(one["index"]) for one in unit["dependencies"])
            known[at] = json.dumps([what, profile, hash(tuple(below))], sort_keys=True)
        return known[at]

    return {name(at): unit["pkg_id"] for at, unit in enumerate(graph)}


def crate(package):
    """The name in an identifier as `registry+https://..#serde@1.0.1` or `path+file:///../corun-sim#0.1.0`."""
    folder, fragment = package.split("#")
    return fragment.split("@")[0] if "@" in fragment else folder.rsplit("/", 1)[-1]


def test_the_package_builds_nothing_that_other_tests_have_built():
    if not shutil.which("cargo"):
        pytest.skip("there is no cargo")
    tests = units("test", "--workspace", "--exclude", "corun-python", "--no-run")
    package = units("rustc", "--manifest-path", "crates/corun-python/Cargo.toml", "--lib", "--profile", "dev")
    again = {crate(package[unit]) for unit in package.keys() - tests.keys()}
    # A crate with other features is built again, and so is all that stands on it. crates/corun-python and crates/corun
    # (for tests) bring the features together; `cargo tree -e features -i CRATE` tells whose they are.
    assert not again - OWN, sorted(again - OWN)
