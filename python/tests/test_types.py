"""The stubs say what the native module has."""

import subprocess
import sys
from pathlib import Path

import pytest

import corun

pytest.importorskip("mypy", reason="needs the extra `test`")


def test_the_stubs_agree_with_the_native_module():
    folder = Path(__file__).parent
    config = folder.parents[1] / "pyproject.toml"
    command = [sys.executable, "-m", "mypy.stubtest", "--mypy-config-file", config, "corun._corun"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_everything_that_is_exported_says_what_it_is():
    for name in corun.__all__:
        thing = getattr(corun, name)
        if not isinstance(thing, str):
            assert thing.__doc__, name
