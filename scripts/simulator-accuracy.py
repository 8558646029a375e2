#!/usr/bin/env python3
"""How near are predictions to what a cycle-level simulator says?

    scripts/simulator-accuracy.py CHAMPSIM FOLDER [--skip N] [--instructions N] [--jobs N] [--pairs N] [--orders N]
                                 [--cores N] [--core wide|narrow] [PROGRAM ...]

CHAMPSIM is a checkout of ChampSim (github.com/ChampSim/ChampSim, tried with commit 2ff25011) in which `make` works. It is
built for each order of pages (below), with one core and with two or more that share the last-level cache, without prefetchers. The shipped programs of one
process and one thread are recorded from one instruction to another, as a profile and as the trace that the simulator runs;
FOLDER/inputs is what `scripts/record-library.sh -p` makes. The simulator's latencies, widths and rates are found by traces
written by hand, as `corun calibrate` finds a machine's by loops, and make FOLDER/machine.toml. Then each program runs alone
and pairs of them together, and `corun validate --measured` holds the cycles against what is predicted: once as recorded, and
once with as many mispredicted branches as the simulator's predictor made of them, since that is another one than the
recording's. No noise: two runs give the same bytes. The simulator gives physical pages out in a random order, which decides
in what sets of the last cache they lie: with --orders all run in so many orders, and times are means over them. With --cores 8
the machine has eight cores, a last cache of four times the size and the same memory, and --pairs is how many groups of eight
programs run together. With --core narrow each core executes two instructions a cycle in place of four and reorders 96 in place of 352.
What is there already in FOLDER, which is for one number and kind of cores, is not made again. CORUN names the command, KERNELS the kernels.
"""

import argparse
import gzip
import itertools
import json
import os
import random
import re
import shlex
import statistics
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from champsim import CLOCK_MHZ, CORES, LLC_KIB_A_CORE, Bench, build, cycles, machine, of_order, simulate

ROOT = Path(__file__).resolve().parent.parent
# Programs that press on the last-level cache or the memory: kernel, MiB on a machine of two cores, rounds.
STRESSORS = {
    "stream": ("walk", 4, 100_000),
    "writer": ("triad", 6, 100_000),
    "llc-walk": ("walk", 0.375, 100_000),
}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("champsim", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--skip", type=int, default=20_000_000, help="instructions of each program's start that are left out")
    parser.add_argument("--instructions", type=int, default=3_000_000, help="instructions of each that are run")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=16, help="random pairs, and as many of a program beside a stressor")
    parser.add_argument("--cores", type=int, default=2, help="cores of the machine; as many programs run together")
    parser.add_argument("--core", choices=CORES, default="wide", help="the kind of these cores")
    parser.add_argument("--orders", type=int, default=1, help="random orders of physical pages in which each is run")
    given = parser.parse_intermixed_args()
    if given.cores < 2:
        parser.error("--cores: programs run together on two cores at least")
    return given


# Programs.


class Programs:
    def __init__(self, folder, skip, instructions, cores):
        self.folder, self.skip, self.instructions, self.cores = folder, skip, instructions, cores
        self.corun = str(Path(os.environ.get("CORUN", ROOT / "target/release/corun")).resolve())
        self.kernels = os.environ.get("KERNELS", str(ROOT / "target/release/examples/kernels"))
        for name in ["profiles", "traces"]:
            (folder / name).mkdir(exist_ok=True)

    def commands(self, wanted):
        found = {}
        for path in sorted((ROOT / "profiles").glob("*.toml")):
            profile = tomllib.loads(path.read_text())
            alone = len(profile.get("process", [])) < 2 and all(phase.get("threads", 1) == 1 for phase in profile["phase"])
            command = profile["origin"]["command"]
            length = sum(count for _, count in profile.get("sequence", [])) or profile["phase"][0]["instructions"]
            if alone and not path.stem.startswith("kernel-") and length >= self.skip + self.instructions:
                found[path.stem] = command
        for name, (kernel, size, rounds) in STRESSORS.items():
            found[name] = [self.kernels, kernel, str(size * self.cores / 2), str(rounds)]
        return {name: found[name] for name in wanted or found}

    def record(self, name, command):
        profile, trace = self.folder / "profiles" / f"{name}.toml", self.trace(name)
        if profile.exists() and trace.exists():
            return
        plain = trace.with_suffix("")
        # Of a recorded command, `<` alone is the shell's.
        line = " ".join(word if word == "<" else shlex.quote(word) for word in command)
        script = f'. ./environment; exec "$@" {line}'
        recorder = [self.corun, "profile", "-o", profile.resolve(), "--no-kernel", "--max-lines", "65536", "--main-only"]
        recorder += ["--skip", self.skip, "--instructions", self.instructions, "--instruction-trace", plain.resolve(), "--"]
        subprocess.run(
            ["sh", "-c", script, "sh", *map(str, recorder)],
            cwd=self.folder / "inputs", check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        )
        subprocess.run(["gzip", "-1", "-f", plain], check=True)

    def trace(self, name):
        return self.folder / "traces" / f"{name}.champsim.gz"

    def pages(self, name):
        """How many pages a trace touches, of code and data. They have not been touched before it."""
        found = set()
        with gzip.open(self.trace(name)) as file:
            while records := file.read(1 << 22):
                words = memoryview(records).cast("Q")
                # The instruction's address, then those that it stores to and loads from.
                for field in (0, 2, 3, 4, 5, 6, 7):
                    found.update(address >> 12 for address in words[field::8].tolist())
        return len(found - {0})


def kept(path, make):
    if not path.exists():
        path.write_text(json.dumps(make()))
    return json.loads(path.read_text())


def with_first_touches(profile, pages):
    """A profile's text in which each first touch of a page counts as a page fault, and none as one of a file."""
    instructions = sum(phase["instructions"] for phase in tomllib.loads(profile)["phase"])
    counts = {"page": f"{1000 * pages / instructions:.6g}", "file": "0.0"}
    return re.sub(r"(?m)^(page|file)_faults_pki = .*$", lambda found: f"{found[1]}_faults_pki = {counts[found[1]]}", profile)


MISPREDICTED = re.compile(r"(mispredicted_(?:large_)?pki = )([0-9.]+)")


def with_mispredictions(profile, pki):
    """A profile's text in which both predictors have so many mispredicted branches in 1000 instructions, the phases in proportion
    to what they had."""
    phases = tomllib.loads(profile)["phase"]
    all_of_it = sum(phase["instructions"] for phase in phases)
    mean = lambda count: sum(phase["instructions"] * count(phase) for phase in phases) / all_of_it
    had = {
        "mispredicted_pki = ": mean(lambda phase: phase["mix"]["mispredicted_pki"]),
        "mispredicted_large_pki = ": mean(lambda phase: phase["core"]["mispredicted_large_pki"]),
    }
    scaled = lambda field, count: count * pki / had[field] if had[field] else pki
    return MISPREDICTED.sub(lambda found: f"{found[1]}{scaled(found[1], float(found[2])):.6g}", profile)


def mispredictions(phase):
    """Branches in 1000 instructions that the simulator's predictor got wrong."""
    core = phase["cores"][0]
    return 1000 * sum(core["mispredict"].values()) / core["instructions"]


def pairs(names, count):
    """So many programs beside a stressor each, and as many pairs of others, drawn at random."""
    chance, programs = random.Random(7), sorted(set(names) - set(STRESSORS))
    stressors = itertools.cycle(name for name in STRESSORS if name in names)
    beside = list(zip(chance.sample(programs, min(count, len(programs))), stressors))
    possible = list(itertools.combinations(programs, 2))
    return beside + chance.sample(possible, min(count, len(possible)))


def groups(names, size, count):
    """So many groups of programs and stressors, drawn at random. None is in a second group as long as there are others enough."""
    chance, drawn = random.Random(7), []
    while len(drawn) < size * count:
        drawn += chance.sample(sorted(names), len(names) // size * size)
    return [tuple(drawn[at : at + size]) for at in range(0, size * count, size)]


def estimate(middle, by_order):
    """A figure, from the least to the most that it is in any order of pages. Of one order it is exact."""
    orders = len(by_order)
    confidence = 1 - 2 * 0.5**orders if orders > 1 else 1.0
    return {"median": middle, "low": min(by_order), "high": max(by_order), "confidence": confidence, "rounds": orders}


def document(alone, together):
    """`alone`: by name, and `together`: by pair and member, the cycles in each order of pages."""
    seconds = lambda count: count / CLOCK_MHZ / 1e6
    mean = lambda counts: sum(counts) / len(counts)

    def member(name, took):
        by_order = [count / own for count, own in zip(took, alone[name], strict=True)]
        # Of mean times: which order alone stands beside which together means nothing.
        return {"name": name, "measured_slowdown": estimate(mean(took) / mean(alone[name]), by_order)}

    time_alone = lambda counts: estimate(seconds(mean(counts)), [seconds(count) for count in counts])
    orders = max(len(counts) for counts in alone.values())
    return {
        "rounds": orders,
        "load": {"others_share": 0.0, "stolen_share": 0.0},
        "core": {"additions_per_cycle": 4.0, "runs": orders * len(alone), "shared_runs": 0},
        "alone": [{"name": name, "measured_s": time_alone(counts), "had_core": True} for name, counts in alone.items()],
        "groups": [{"members": list(map(member, pair, took))} for pair, took in together],
    }


def rank_correlation(one, other):
    """Spearman's; equal figures have the mean of their ranks. None where there is no order."""

    def ranks(figures):
        placed = sorted(figures)
        return [placed.index(figure) + (placed.count(figure) - 1) / 2 for figure in figures]

    try:
        return statistics.correlation(ranks(one), ranks(other))
    except statistics.StatisticsError:
        return None


def agreement_of_orders(held, took, together):
    """How well slowdowns in one order of pages rank those in another, mean over all pairs of orders: no prediction of a single
    order can be expected to rank better. Of all, and of those that are clear."""
    clear = [member["clear"] for group in held["groups"] for member in group["members"]]
    by_order = list(zip(*([count / own for count, own in zip(counts, took[name])] for pair, members in together for name, counts in zip(pair, members))))
    lines = []
    for which, wanted in [("all", [True] * len(clear)), ("clear", clear)]:
        kept_of = lambda slowdowns: list(itertools.compress(slowdowns, wanted))
        found = [rank_correlation(kept_of(one), kept_of(other)) for one, other in itertools.combinations(by_order, 2)]
        if found and None not in found:
            lines.append(f"{sum(wanted)} {which}: one order of pages ranks another with {statistics.mean(found):.2f}\n")
    return "".join(lines)


def main():
    given = options()
    folder = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    orders = range(1, given.orders + 1)
    if kept(folder / "cores.json", lambda: given.cores) != given.cores:
        sys.exit(f"{folder} was made with another --cores")
    if kept(folder / "core.json", lambda: given.core) != given.core:
        sys.exit(f"{folder} was made with another --core")
    llc_kib = given.cores * LLC_KIB_A_CORE
    simulators = {cores: [build(given.champsim, folder, given.core, cores, order, llc_kib) for order in orders] for cores in (1, 2, given.cores)}
    figures = kept(folder / "figures.json", lambda: Bench(folder, simulators[1][0], simulators[2][0], llc_kib).measure())
    print(json.dumps(figures, indent=1), file=sys.stderr)
    (folder / "machine.toml").write_text(machine(figures, given.core, given.cores, llc_kib))
    programs = Programs(folder, given.skip, given.instructions, given.cores)
    commands = programs.commands(given.programs)
    if given.cores > 2 and len(commands) < given.cores:
        sys.exit(f"--cores {given.cores}: there are {len(commands)} programs to run together")
    simulated = folder / "simulated"
    simulated.mkdir(exist_ok=True)

    def run(names, record=lambda: None):
        """What the simulator says of programs together, in each order of pages."""

        def simulation(simulator):
            record()
            return simulate(simulator, [programs.trace(name) for name in names], given.instructions)

        paths = [simulated / f"{of_order('+'.join(names), order)}.json" for order in orders]
        return [kept(path, lambda: simulation(simulator)) for path, simulator in zip(paths, simulators[len(names)])]

    def alone(name):
        try:
            return name, run((name,), lambda: programs.record(name, commands[name]))
        except subprocess.CalledProcessError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            return name, None

    with ThreadPoolExecutor(given.jobs) as pool:
        # Of larger groups the members alone run alone; of pairs all do.
        larger = groups(commands, given.cores, given.pairs) if given.cores > 2 else None
        wanted = commands if larger is None else sorted(set(itertools.chain(*larger)))
        phases = {name: by_order for name, by_order in pool.map(alone, wanted) if by_order}
        if larger is None:
            together = pairs(list(phases), given.pairs)
        else:
            together = [group for group in larger if phases.keys() >= set(group)]
        ran_together = list(zip(together, pool.map(run, together)))
    by_member = lambda by_order: list(zip(*map(cycles, by_order), strict=True))
    took = {name: by_member(by_order)[0] for name, by_order in phases.items()}
    members_together = [(pair, by_member(by_order)) for pair, by_order in ran_together]
    held = document(took, members_together)
    (folder / "measured.json").write_text(json.dumps(held, indent=1))
    judged, branches = folder / "profiles-with-first-touches", folder / "profiles-with-its-branches"
    for made in (folder / "pages", judged, branches):
        made.mkdir(exist_ok=True)
    for name, (phase, *_) in phases.items():
        pages = kept(folder / "pages" / f"{name}.json", lambda: programs.pages(name))
        text = with_first_touches((folder / "profiles" / f"{name}.toml").read_text(), pages)
        (judged / f"{name}.toml").write_text(text)
        (branches / f"{name}.toml").write_text(with_mispredictions(text, mispredictions(phase)))
    judge(programs.corun, folder, judged.name, "accuracy")
    judge(programs.corun, folder, branches.name, "accuracy-with-its-branches")
    print((folder / "accuracy.txt").read_text())
    print(agreement_of_orders(json.loads((folder / "accuracy.json").read_text()), took, members_together), end="")


def judge(corun, folder, profiles, name):
    """Writes NAME.txt, .json, .html and .svg: what is predicted of these profiles against what was simulated."""
    common = [corun, "validate", "--profiles", profiles, "--measured", "measured.json", "--machine", "machine.toml"]
    for extra, ending in ((["--report", f"{name}.html", "--svg", f"{name}.svg"], "txt"), (["--format", "json"], "json")):
        done = subprocess.run([*common, *extra], cwd=folder, check=True, capture_output=True, text=True)
        (folder / f"{name}.{ending}").write_text(done.stdout)


if __name__ == "__main__":
    main()
