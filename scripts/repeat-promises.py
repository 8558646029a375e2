#!/usr/bin/env python3
"""Runs each test that docs/operating.md names beside a promise again and again: a test that fails once in fifty runs is
found here, and hardly in CI.

  scripts/repeat-promises.py [TIMES] [--at-most SECONDS] [--only NAME..]

TIMES is 50. The tests that boot a guest are left out: scripts/guest repeats their cases (corun_repeat= on the kernel's
command line). A test is repeated for at most SECONDS (600). Prints a line a test, and at the end a sum; the exit code is 1
where a run failed, and where a promise's test was not found.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATES = ["corun-linux", "corun-live", "corun-sim", "corun-app", "corun-hosting", "corun-top", "corun-daemon", "corun"]


def promised():
    """The names of the tests, each once, in the order of the page. What has no underscore is a case of a guest."""
    page = (ROOT / "docs/operating.md").read_text()
    rows = page.split("| promise | test |")[1].split("\n\n")[0].splitlines()[2:]
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row.rsplit("|", 2)[1])]
    return [name for name in dict.fromkeys(names) if "_" in name and "all_cases_of_the_guest" not in name]


def programs():
    """The test programs, each with the folder in which cargo runs it."""
    packages = [word for name in CRATES for word in ("-p", name)]
    command = ["cargo", "test", "--locked", *packages, "--no-run", "--message-format", "json"]
    lines = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    for message in map(json.loads, lines):
        if message.get("executable") and message.get("profile", {}).get("test"):
            yield message["executable"], Path(message["manifest_path"]).parent


def tests():
    """By the last part of its name: the program, the folder and the whole name of each test."""
    found = {}
    for program, folder in programs():
        listed = subprocess.run([program, "--list"], cwd=folder, capture_output=True, text=True, check=True).stdout
        for name in re.findall(r"^(\S+): test$", listed, re.MULTILINE):
            found.setdefault(name.rsplit("::", 1)[-1], []).append((program, folder, name))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times", type=int, nargs="?", default=50)
    parser.add_argument("--at-most", type=float, default=600)
    parser.add_argument("--only", nargs="+", default=[])
    options = parser.parse_args()
    names = options.only or promised()
    known = tests()
    missing = [name for name in names if name not in known]
    runs = failures = 0
    short = []
    for name in [name for name in names if name in known]:
        began, made, failed = time.monotonic(), 0, 0
        while made < options.times and time.monotonic() - began < options.at_most:
            made += 1
            for program, folder, whole in known[name]:
                command = [program, "--exact", whole, "--show-output"]
                run = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                if run.returncode:
                    failed += 1
                    print(run.stdout)
                if made == 1 and "skipped:" in run.stdout:
                    print(f"{name}: skips here")
        runs, failures = runs + made, failures + failed
        if made < options.times:
            short.append(name)
        print(f"{name}: {made} runs, {failed} failed, {time.monotonic() - began:.1f} s", flush=True)
    print(f"{len(names) - len(missing)} tests, {runs} runs, {failures} failed")
    if short:
        print(f"fewer than {options.times} runs in {options.at_most:.0f} s: {', '.join(short)}")
    if missing:
        print(f"no such test: {', '.join(missing)}")
    sys.exit(1 if failures or missing else 0)


main()
