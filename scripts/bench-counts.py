#!/usr/bin/env python3
"""What corun's main jobs cost in instructions, beside a baseline: `make bench-counts`.

  scripts/bench-counts.py [--tree FOLDER] [--baseline FILE] [--write FILE] [--list] [WORD ..]

Instructions are counted by valgrind's callgrind, so that the figures do not depend on what else the machine does. A job
is a benchmark of `make bench` or a command of `corun`, built as one ships it (profile `release`). Of a benchmark the
figure is one iteration: a run of some iterations more less a run of one, which leaves out what both do once. Of a
command it is the whole run. With one thread, since threads that wait for work count instructions, too.

The table has each job's count, the baseline's (scripts/bench-counts.tsv) and the ratio. Jobs that take over 5 % more are
named at the end, and the exit code is 1. WORDs choose the jobs whose names hold one of them. `--tree` counts another
checkout of corun, for a comparison with an older one; a job that it does not have is left out. `--write` writes
a baseline.

Counts depend a little on the C library, which picks other code on other processors, and much on the compiler: the
baseline names both, and the table says where they differ.
"""

import argparse
import concurrent.futures
import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
BASELINE = HERE / "scripts/bench-counts.tsv"
TOLERANCE = 1.05


@dataclass
class Job:
    """`name` is the key of the baseline; a benchmark is a crate, its program and its path there."""

    name: str
    more: int = 0
    bench: tuple = ()
    command: tuple = ()


def bench(name, crate, program, path, more):
    return Job(name, more=more, bench=(crate, program, path))


def command(name, *arguments):
    return Job(name, command=arguments)


def decision(policy, case, more):
    name = f"decision, 256 threads, {case.replace('_', ' ')}, {policy}"
    return bench(name, "corun-policy", "decide", f"{case}::{policy}", more)


def partition(policy, path, more):
    return bench(f"decision, partition, {policy}", "corun-policy", "partition", path, more)


def of_corun(count, where, more, case="searched"):
    name = f"decision, corun, {count} threads, {where}, {case.replace('_', ' ')}"
    return bench(name, "corun-policy", "corun", f"{case}::{count}-{where.replace(' ', '-')}", more)


def model(case, path, more):
    return bench(f"model, {case}", "corun-model", "solve", path, more)


def simulator(case, path):
    return bench(f"simulator, {case}", "corun-sim", "simulation", path, 1)


def optimum(case, program, path, more):
    return bench(f"optimum, {case}", "corun-optimal", program, path, more)


def engine(kind, path, more):
    return bench(f"tracer's engine, {kind}, 2 million events", "corun-trace", "engine", f"engine::{path}", more)


JOBS = [
    model("8 programs on 4 LLCs", "eight_on_four_llcs::fill-time", 2000),
    model("8 programs on one LLC", "eight_on_one_llc::fill-time", 2000),
    model("64 programs on 8 LLCs", "sixty_four_on_epyc::fill-time", 400),
    model("64 programs on 2 LLCs", "sixty_four_on_two_llcs::fill-time", 400),
    model("a table loaded", "load", 400),
    simulator("8 programs, 4 policies, 10 seeds", "eight_programs_four_policies_ten_seeds"),
    simulator("16 programs on 8 CPUs in slices, 10 s", "sixteen_on_eight_for_10_s"),
    optimum("8 on 4 LLCs of 2, X5365", "placement", "optimum::0", 5),
    optimum("8 on 4 LLCs of 2, one controller", "placement", "optimum::1", 5),
    optimum("partition, strict, 10 programs, 20 ways", "partition", "strict_stp::(20, 10)", 10),
    optimum("partition, clusters, 8 programs, STP", "partition", "cluster_stp::8", 1),
    optimum("partition, clusters, 8 programs, unfairness", "partition", "cluster_unfairness::8", 1),
    *[decision(policy, "nothing_changed", 100) for policy in ("di", "dio", "dio-power", "maximum-local", "n-mass")],
    *[decision(policy, "all_changed", 20) for policy in ("di", "dio")],
    bench("decision, 100 threads on 32 CPUs, casc", "corun-policy", "casc", "bucketize_100_threads_on_32_cpus", 50),
    *[of_corun(count, where, 1) for count, where in ((64, "one node"), (64, "two nodes"), (16, "ways"))],
    of_corun(64, "one node", 10, "nothing_changed"),
    partition("lfoc, 11 programs, 11 ways", "lfoc_11_ways::11", 5000),
    partition("kpart, 11 programs, 11 ways", "kpart_11_ways::11", 200),
    partition("ucp, 8 programs, 20 ways", "eight_programs_20_ways::ucp", 5000),
    engine("exact", "Exact", 1),
    engine("fixed rate", "FixedRate", 3),
    engine("fixed size", "FixedSize", 3),
    command("corun compare, 4 policies, 10 seeds", "compare", "--policy", "linux-default,random,di,dio"),
    command("corun compare, corun without profiles, 2 seeds", "compare", "--policy", "corun:profiles=0", "--seeds", "2"),
]


def executables(tree, jobs):
    """What the jobs need, built: programs of benchmarks by name, and the command."""
    crates = sorted({job.bench[0] for job in jobs if job.bench})
    programs = sorted({job.bench[1] for job in jobs if job.bench})
    cargo = ["cargo", "--color=never"]
    found = {}
    if crates:
        benches = [part for name in programs for part in ("--bench", name)]
        packages = [part for crate in crates for part in ("-p", crate)]
        found |= built(tree, [*cargo, "bench", "--no-run", "--locked", *packages, *benches])
    if any(job.command for job in jobs):
        found |= built(tree, [*cargo, "build", "--release", "--locked", "-p", "corun", "--bin", "corun"])
    return found


def built(tree, cargo):
    words = [*cargo, "--message-format=json-render-diagnostics"]
    ended = subprocess.run(words, cwd=tree, check=True, stdout=subprocess.PIPE, text=True)
    messages = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    artifacts = [one for one in messages if one.get("executable")]
    # Two crates have a benchmark named `partition`.
    return {(crate(one), one["target"]["name"]): one["executable"] for one in artifacts}


def crate(artifact):
    return Path(artifact["manifest_path"]).parent.name


def instructions(tree, arguments):
    """Counts one run; None where the program says that it cannot do what it was asked."""
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    environment = {**os.environ, "RAYON_NUM_THREADS": "1", "CORUN_CACHE_DIR": ""}
    ended = subprocess.run([*valgrind, *arguments], cwd=tree, env=environment, capture_output=True, text=True)
    counted = re.search(r"^==\d+== Collected : (\d+)", ended.stderr, re.MULTILINE)
    if ended.returncode != 0 or counted is None:
        return None, ended.stdout
    return int(counted[1]), ended.stdout


def count(tree, job, programs):
    """Instructions of a job, or None where this checkout does not have it."""
    if job.command:
        return instructions(tree, [programs["corun", "corun"], *job.command])[0]
    crate, program, path = job.bench
    executable = programs.get((crate, program))
    if executable is None:
        return None
    runs = []
    for iterations in (1, 1 + job.more):
        one = [executable, "--bench", "--exact", f"{program}::{path}", "--sample-count=1", f"--sample-size={iterations}"]
        counted, output = instructions(tree, one)
        if counted is None or path.split("::")[-1] not in output:
            return None
        runs.append(counted)
    return round((runs[1] - runs[0]) / job.more)


def tools():
    rustc = subprocess.run(["rustc", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[1]
    return f"rustc {rustc}, {' '.join(platform.libc_ver())}"


def baseline(file):
    lines = [line.split("\t") for line in file.read_text().splitlines() if line]
    return lines[0][0].removeprefix("# "), {name: int(figure) for name, figure in lines[1:]}


def write(file, counts):
    """Writes a baseline. Where only some jobs were counted, the others keep their rows."""
    kept = baseline(file)[1] if file.exists() else {}
    figures = {job.name: counts.get(job.name, kept.get(job.name)) for job in JOBS}
    rows = [f"{name}\t{figure}" for name, figure in figures.items() if figure is not None]
    file.write_text("\n".join([f"# {tools()}", *rows]) + "\n")


def show(counts, before):
    """Prints the table; the jobs that take more than they may."""
    worse = []
    print(f"{'job':<54} {'instructions':>14} {'baseline':>14} {'ratio':>6}")
    for name, figure in counts.items():
        was = before.get(name)
        ratio = f"{figure / was:.3f}" if was else ""
        print(f"{name:<54} {figure:>14,} {was or '':>14{',' if was else ''}} {ratio:>6}")
        if was and figure > TOLERANCE * was:
            worse.append(f"{name}: {figure / was - 1:+.1%}")
    return worse


def main():
    arguments = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    arguments.add_argument("--tree", type=Path, default=HERE)
    arguments.add_argument("--baseline", type=Path, default=BASELINE)
    arguments.add_argument("--write", type=Path)
    arguments.add_argument("--list", action="store_true")
    arguments.add_argument("words", nargs="*")
    given = arguments.parse_args()
    jobs = [job for job in JOBS if not given.words or any(word in job.name for word in given.words)]
    if given.list:
        print("\n".join(job.name for job in jobs))
        return
    programs = executables(given.tree, jobs)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        figures = list(pool.map(lambda job: count(given.tree, job, programs), jobs))
    counts = {job.name: figure for job, figure in zip(jobs, figures) if figure is not None}
    for job, figure in zip(jobs, figures):
        if figure is None:
            print(f"not here: {job.name}")
    by, before = baseline(given.baseline) if given.baseline.exists() else ("", {})
    worse = show(counts, before)
    if by and by != tools():
        print(f"The baseline was counted by {by}; this is {tools()}.")
    if given.write:
        write(given.write, counts)
    if worse:
        sys.exit("\n".join(["Over 5 % more instructions than the baseline:", *worse]))


if __name__ == "__main__":
    main()
