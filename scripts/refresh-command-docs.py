#!/usr/bin/env python3
"""Runs the examples of docs/commands.md and README's `make demo` again and puts their output in the
place of the old. Sentences about the figures are for whoever runs it.

    cargo build -p corun && scripts/refresh-command-docs.py

A block of the page that begins with `$ corun ...` is one command and its output; further `$` lines
stay as they are. Long listings keep their first lines.
"""

import os
import pathlib
import re
import shlex
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/commands.md"
README = ROOT / "README.md"
# The last line of what `make demo` prints.
DEMO_END = "why a process is slow, and what would help"
PROGRAM = ROOT / "target/debug/corun"
MOST_LINES = 60


def refreshed(block: re.Match) -> str:
    words = shlex.split(block["command"])
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)
    lines = (done.stdout or done.stderr).rstrip().split("\n")
    if len(lines) > MOST_LINES:
        lines = lines[: MOST_LINES // 2] + ["..."]
    rest = block["rest"] or ""
    return f"```console\n$ corun {block['command']}\n" + "\n".join(lines) + f"\n{rest}```"


def main() -> None:
    block = r"```console\n\$ corun (?P<command>[^\n]*)\n(?:(?!\$ |```)[^\n]*\n)*(?P<rest>(?:\$[^`]*)?)```"
    PAGE.write_text(re.sub(block, refreshed, PAGE.read_text()))
    # In a folder of its own: the demo leaves pages behind.
    with tempfile.TemporaryDirectory() as folder:
        demo = subprocess.run(
            [ROOT / "scripts/demo.sh", PROGRAM],
            env={**os.environ, "CORUN_SHOWN": "target/quick/corun"},
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    old = rf"(?P<before>prints\s+this:\n\n```\n)[^`]*{DEMO_END}\n```"
    shown, count = re.subn(old, lambda found: f"{found['before']}{demo}```", README.read_text())
    if count != 1:
        raise SystemExit(f"{README}: the output of `make demo` stands {count} times, expected once")
    README.write_text(shown)


if __name__ == "__main__":
    main()
