#!/usr/bin/env python3
"""How near are static figures of programs with several phases to their simulated runs?

    scripts/whole-programs.py CORUN [--placements N]

The eight programs of the demonstration run on xeon-x5365 under N random placements, each held for a whole run of
restart-3 (`corun compare --policy random`). Each placement is then predicted with each program as a whole, and with
its longest phase alone (`corun predict --place`). Prints by how much both are off. Two runs print the same.
"""

import argparse
import json
import random
import re
import statistics
import subprocess
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MACHINE = "xeon-x5365"
PROGRAMS = ["sort", "numpy", "xsltproc", "xz", "glpsol", "sqlite3", "hmmsearch", "flac"]


def ask(corun, command, apps, *options):
    asked = [corun, command, "--machine", MACHINE, "--apps", ",".join(apps), "--format", "json", *options]
    return json.loads(subprocess.run(asked, check=True, capture_output=True, text=True, cwd=ROOT).stdout)


def simulated(corun, apps):
    """The CPUs and slowdowns of one run. `random` draws the same CPUs with each call: the programs' order makes another
    placement. As each program takes one of eight CPUs, a program that starts again finds its own CPU free alone."""
    found = ask(corun, "compare", apps, "--policy", "random", "--seeds", "1")
    run = next(one for one in found["policies"] if one["policy"] == "random")
    return run["cpu"], run["slowdown"]


def with_longest_phase(name, folder):
    """Writes the program's profile with its longest phase alone into `folder`."""
    text = (ROOT / "profiles" / f"{name}.toml").read_text()
    phases = [one["instructions"] for one in tomllib.loads(text)["phase"]]
    longest = phases.index(max(phases))
    # Tables of a phase follow it. A profile of one phase has no sequence.
    head, *parts = re.split(r"(?m)^(?=\[(?!phase\.))", text)
    head = re.sub(r"(?ms)^sequence = \[.*?\]$\n(?=\w|$)", "", head)
    kept = [one for one in parts if one.startswith(("[origin]", "[micro_traces]"))]
    kept.append([one for one in parts if one.startswith("[[phase]]")][longest])
    (folder / f"{name}.toml").write_text(head + "".join(kept))


def report(name, predicted, runs):
    means = [(statistics.mean(one), statistics.mean(run)) for one, run in zip(predicted, runs)]
    of_mean = [abs(one / run - 1) * 100 for one, run in means]
    pairs = [(one, run) for some, others in zip(predicted, runs) for one, run in zip(some, others)]
    of_program = [abs(one / run - 1) * 100 for one, run in pairs]
    correlation = statistics.correlation(*zip(*means))
    print(
        f"{name}: mean slowdown off by {statistics.mean(of_mean):.1f} % (at most {max(of_mean):.1f} %), a program's by "
        f"{statistics.mean(of_program):.1f} % ({max(of_program):.1f} %), correlation of mean slowdowns {correlation:.2f}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corun")
    parser.add_argument("--placements", type=int, default=60)
    given = parser.parse_args()
    draw = random.Random(1)
    runs, by_whole, by_longest = [], [], []
    with tempfile.TemporaryDirectory() as made:
        for name in PROGRAMS:
            with_longest_phase(name, Path(made))
        for _ in range(given.placements):
            apps = draw.sample(PROGRAMS, len(PROGRAMS))
            cpus, slowdowns = simulated(given.corun, apps)
            place = ("--place", ",".join(map(str, cpus)))
            runs.append(slowdowns)
            by_whole.append(ask(given.corun, "predict", apps, *place)["slowdown"])
            by_longest.append(ask(given.corun, "predict", apps, *place, "--profiles", made)["slowdown"])
    report("the whole", by_whole, runs)
    report("its longest phase alone", by_longest, runs)


main()
