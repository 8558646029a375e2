#!/usr/bin/env python3
"""How near are predictions to what a cycle-level simulator says?

    scripts/simulator-accuracy.py CHAMPSIM FOLDER [--skip N] [--instructions N] [--jobs N] [--pairs N] [--orders N] [PROGRAM ...]

CHAMPSIM is a checkout of ChampSim (github.com/ChampSim/ChampSim, tried with commit 2ff25011) in which `make` works. It is
built twice an order of pages (below), with one core and with two that share the last-level cache, without prefetchers. The shipped programs of one
process and one thread are recorded from one instruction to another, as a profile and as the trace that the simulator runs;
FOLDER/inputs is what `scripts/record-library.sh -p` makes. The simulator's latencies, widths and rates are found by traces
written by hand, as `corun calibrate` finds a machine's by loops, and make FOLDER/machine.toml. Then each program runs alone
and pairs of them together, and `corun validate --measured` holds the cycles against what is predicted: once as recorded, and
once with as many mispredicted branches as the simulator's predictor made of them, since that is another one than the
recording's. No noise: two runs give the same bytes. The simulator gives physical pages out in a random order, which decides
in what sets of the last cache they lie: with --orders all run in so many orders, and times are means over them. What is there
already in FOLDER is not made again. CORUN names the command, KERNELS the kernels.
"""

import argparse
import gzip
import itertools
import json
import os
import random
import re
import shlex
import struct
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLOCK_MHZ = 4000
FETCH_WIDTH, REORDER_BUFFER = 6, 352
L1_KIB, L2_KIB, LLC_KIB = 48, 128, 512
LINE = 64
# Programs that press on the last-level cache or the memory: kernel, MiB, rounds.
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
    parser.add_argument("--orders", type=int, default=1, help="random orders of physical pages in which each is run")
    return parser.parse_intermixed_args()


# The simulator.


def configuration(cores, order):
    """ChampSim's default core with more registers, better branches, ports enough in the first level and its TLB (with the
    default of two, programs that load and store much wait for these most of all), and smaller caches, which short traces fill."""
    cache = {"prefetcher": "no"}
    ports = {"max_tag_check": 8, "max_fill": 8}
    return {
        "executable_name": f"champsim-corun-{cores}-{order}",
        "num_cores": cores,
        "heartbeat_frequency": 1_000_000_000,
        "ooo_cpu": [
            {
                "frequency": CLOCK_MHZ, "register_file_size": 1024, "branch_predictor": "hashed_perceptron", "mispredict_penalty": 15,
                "fetch_width": FETCH_WIDTH, "rob_size": REORDER_BUFFER,
            }
        ],
        "L1D": cache | ports,
        "DTLB": ports,
        "L1I": cache,
        "L2C": cache | {"sets": L2_KIB * 1024 // LINE // 8, "ways": 8},
        "LLC": cache | {"sets": LLC_KIB * 1024 // LINE // 16, "ways": 16, "replacement": "lru"},
        # The kernel's part of a page's first touch is left out of trace and profile.
        "virtual_memory": {"minor_fault_penalty": 1, "randomization": order},
    }


def build(champsim, folder, cores, order):
    """The simulator that gives pages out in this order, 1 being its own."""
    program = folder / f"champsim-{of_order(cores, order)}"
    if not program.exists():
        description = folder / f"{program.name}.json"
        description.write_text(json.dumps(configuration(cores, order), indent=2))
        subprocess.run(["./config.sh", str(description.resolve())], cwd=champsim, check=True)
        subprocess.run(["make", "-s"], cwd=champsim, check=True)
        program.write_bytes((champsim / "bin" / f"champsim-corun-{cores}-{order}").read_bytes())
        program.chmod(0o755)
    return program.resolve()


def of_order(name, order):
    return name if order == 1 else f"{name}-order-{order}"


def simulate(program, traces, instructions, warmup=0):
    """Cycles that each trace took for so many instructions behind the warm-up, with what each cache did."""
    done = subprocess.run(
        [program, "--warmup-instructions", str(warmup), "--simulation-instructions", str(instructions), "--hide-heartbeat", "--json", *map(str, traces)],
        check=True, capture_output=True, text=True,
    )
    phase = json.loads(done.stdout[done.stdout.index("[{") :])[0]["roi"]
    return phase


def cycles(phase):
    """Of each core, in the order of the traces: the simulator lists the last one first."""
    return [core["cycles"] for core in reversed(phase["cores"])]


# Traces written by hand.


def record(address, written=(), read=(), stores=(), loads=(), branch=None):
    fill = lambda values, count: (list(values) + [0] * count)[:count]
    taken = int(bool(branch))
    return struct.pack(
        "<QBB2B4B2Q4Q", address, int(branch is not None), taken, *fill(written, 2), *fill(read, 4), *fill(stores, 2), *fill(loads, 4)
    )


CODE, DATA = 0x400000, 0x10000000
POINTER, COUNT = 40, 41


# Instructions beside each load: the simulator takes a program of less than 0.01 instructions a cycle for stuck.
BESIDE = 7


def chase(order):
    """Each load's address is the value that the load before it brought."""
    beside = [record(CODE + 4 + 4 * i, [50 + i], [COUNT]) for i in range(BESIDE)]
    return itertools.chain.from_iterable([record(CODE, [POINTER], [POINTER], loads=[line]), *beside] for line in order)


def independent(order):
    return (record(CODE + 4 * (i % 8), [50 + i % 8], [COUNT], loads=[line]) for i, line in enumerate(order))


# Pages that the first level of the TLB holds beside those of the code.
WINDOW_PAGES = 48


def window_by_window(size, chance):
    """All lines of so many bytes, those of a window of pages one behind the other, in no order. Page by page, rows of the
    memory would stay open."""
    pages = list(range(size // 4096))
    chance.shuffle(pages)
    for first in range(0, len(pages), WINDOW_PAGES):
        lines = [DATA + 4096 * page + LINE * line for page in pages[first : first + WINDOW_PAGES] for line in range(64)]
        chance.shuffle(lines)
        yield from lines


# Instructions between two lines of the core that reads beside a chase: close together where the memory is nearly busy, since
# the latency doubles from 20 to 0.
GAPS = [960, 480, 240, 120, 60, 40, 28, 20, 16, 12, 9, 7, 5, 3, 0]


# Branches one behind the other. After how many outcomes in no order these come again, and the shares of them that the small and
# the large predictor of recordings mispredict (a test of corun-trace, in repeated_branches.rs, holds these figures).
REPEATED_BRANCHES = 64
LEARNING_ROUNDS, COUNTED_ROUNDS = 8, 2
OF_RECORDINGS = {
    1 << 10: (0.0771, 0.0024),
    1 << 11: (0.1416, 0.0000),
    1 << 12: (0.2190, 0.0034),
    1 << 13: (0.3085, 0.0151),
    1 << 14: (0.3870, 0.0883),
}


def outcomes(count):
    state = 12345
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        yield bool(state >> 63)


class Bench:
    """Measures the simulator by traces of a few hundred thousand instructions."""

    def __init__(self, folder, one, two):
        self.folder, self.one, self.two = folder / "loops", one, two
        self.folder.mkdir(exist_ok=True)

    def trace(self, name, records):
        path = self.folder / f"{name}.champsim.gz"
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(b"".join(records))
        return path

    def cycles_each(self, name, records, warm, count):
        return cycles(simulate(self.one, [self.trace(name, records)], count, warm))[0] / count

    def chased(self, name, order, warm, loads):
        """Cycles from one load to the next, each at the address that the one before it brought."""
        each = 1 + BESIDE
        return each * self.cycles_each(name, chase(order[: warm + loads + 100]), warm * each, loads * each)

    def measure(self):
        chance = random.Random(1)
        rounds = lambda kib, count: list(window_by_window(kib << 10, chance)) * count
        far = list(window_by_window(32 << 20, chance))
        everywhere = [DATA + 4096 * chance.randrange(32768) + LINE * chance.randrange(64) for _ in range(100_000)]
        lines = [DATA + LINE * chance.randrange(1 << 19) for _ in range(100_000)]
        ahead = [DATA + LINE * i for i in range(100_000)]
        figures = {
            "l1": self.chased("l1", rounds(16, 80), 2000, 18_000),
            "l2": self.chased("l2", rounds(80, 20), 3000, 20_000),
            "llc": self.chased("llc", rounds(384, 6), 13_000, 16_000),
            "memory": self.chased("memory", far, 1000, 10_000),
            "width": 1 / self.cycles_each("width", (record(CODE + 4 * (i % 8), [50 + i % 8], [COUNT]) for i in range(110_000)), 10_000, 100_000),
            "penalty": self.branch_penalty(),
            "repeated_branches": {str(period): self.repeated_branches(period) for period in OF_RECORDINGS},
        }
        # Each on another page, of which the walk comes from memory too.
        figures["memory_walk"] = self.chased("memory-walk", everywhere, 20_000, 8000) - figures["memory"]
        # A line in each of so many pages, more than a TLB has, against as many side by side.
        apart = lambda pages: [DATA + 4096 * (i % pages) + LINE * (i % pages % 64) for i in range(40_000)]
        close = lambda pages: [DATA + LINE * (i % pages) for i in range(40_000)]
        for name, pages in [("second_tlb", 512), ("walk", 2560)]:
            both = [self.chased(f"{name}-{kind}", order(pages), 10_000, 20_000) for kind, order in [("apart", apart), ("close", close)]]
            figures[name] = both[0] - both[1]
        figures["random_cycles"] = self.cycles_each("random", independent(lines), 20_000, 60_000)
        figures["read_cycles"] = self.cycles_each("read", independent(ahead), 20_000, 60_000)
        # Changed lines are written back once the caches are full of them.
        writes = lambda changed: (
            record(CODE + 4 * (i % 8), [50 + i % 8], [COUNT], loads=[line], stores=[line] * changed(i)) for i, line in enumerate(ahead)
        )
        for name, changed in [("mixed", lambda i: i % 3 == 2), ("write", lambda i: True)]:
            path = self.trace(name, writes(changed))
            figures[f"{name}_cycles"] = cycles(simulate(self.one, [path], 60_000, 20_000))[0] / 60_000
            figures[f"both_{name}_cycles"] = max(cycles(simulate(self.two, [path, path], 60_000, 20_000))) / 60_000
        figures["misses"] = figures["memory"] / self.cycles_each("parallel", independent(far[:100_000]), 20_000, 60_000)
        figures["llc_hits"] = figures["llc"] / self.cycles_each("parallel-llc", independent(rounds(384, 6)), 13_000, 20_000)
        path = self.trace("both", independent(ahead))
        figures["both_cycles"] = max(cycles(simulate(self.two, [path, path], 60_000, 20_000))) / 60_000
        figures["loaded"] = sorted(self.beside(gap, far) for gap in GAPS)
        return figures

    def beside(self, gap, far):
        """Lines a cycle that both cores read, and cycles of a load that waits for the one before, beside a core that reads a
        line every so many instructions."""
        order = far[: 5000 + 100]
        chased = self.trace("chased", chase(order))
        ahead = ((record(CODE, [50], [COUNT], loads=[DATA + (64 << 20) + LINE * i]), gap) for i in range(100_000))
        pause = [record(CODE + 4 + 4 * (i % 7), [51 + i % 7], [COUNT]) for i in range(gap)]
        reader = self.trace(f"reader-{gap}", itertools.chain.from_iterable([line, *pause[:rest]] for line, rest in ahead))
        phase = simulate(self.two, [chased, reader], 4000 * (1 + BESIDE), 1000 * (1 + BESIDE))
        memory = phase["DRAM"][0]
        lines = memory["RQ ROW_BUFFER_HIT"] + memory["RQ ROW_BUFFER_MISS"]
        took = cycles(phase)[0]
        return [lines / took, took / 4000]

    def branch_penalty(self):
        chance = random.Random(5)

        def loop(is_random):
            at = CODE
            for _ in range(40_000):
                taken = is_random and chance.random() < 0.5
                yield record(CODE, [COUNT], [COUNT])
                yield record(CODE + 4, [26], [26, COUNT], branch=taken)
                yield record(CODE + (8 if taken else 6), [50], [COUNT])
                yield record(CODE + 12, [26], [], branch=True)

        same, drawn = ([*loop(one)] for one in (False, True))
        phases = [simulate(self.one, [self.trace(name, one)], 60_000, 20_000) for name, one in [("same", same), ("drawn", drawn)]]
        wrong = [sum(phase["cores"][0]["mispredict"].values()) for phase in phases]
        took = [cycles(phase)[0] for phase in phases]
        return (took[1] - took[0]) / (wrong[1] - wrong[0])

    def repeated_branches(self, period):
        """The share that is mispredicted of branches whose outcomes come again."""
        taken = list(outcomes(period))

        def loop():
            for turn in range((LEARNING_ROUNDS + COUNTED_ROUNDS) * period + 100):
                at = CODE + LINE * (turn % REPEATED_BRANCHES)
                yield record(at, [COUNT], [COUNT])
                yield record(at + 4, [26], [26, COUNT], branch=taken[turn % period])
                yield record(at + (8 if taken[turn % period] else 6), [50], [COUNT])
                yield record(at + 12, [26], [], branch=True)

        counted = COUNTED_ROUNDS * period
        phase = simulate(self.one, [self.trace(f"branches-{period}", loop())], 4 * counted, 4 * LEARNING_ROUNDS * period)
        return sum(phase["cores"][0]["mispredict"].values()) / counted


def large_predictor_share(figures):
    """Where the simulator's mispredictions lie between those of the small and the large predictor of recordings."""
    small, large = (sum(shares[which] for shares in OF_RECORDINGS.values()) for which in (0, 1))
    share = (small - sum(figures["repeated_branches"].values())) / (small - large)
    return min(1, max(0, share))


OPERATIONS = [f"{name}_cycles" for name in "integer_multiply integer_divide fp_add fp_multiply fp_divide fp_multiply_add vector_add".split()]
KERNEL_COSTS = [f"{name}_ns" for name in "page_fault file_fault system_call file_call mapping_call sleeping_call".split()]
KERNEL_COSTS += ["transfer_ns_per_byte", "file_write_ns_per_byte", "process_ns"]


def machine(figures):
    each = lambda names, figure: "\n".join(f"{name} = {figure}" for name in names)
    ns = lambda count: round(count * 1000 / CLOCK_MHZ, 3)
    rate = lambda count: round(LINE * CLOCK_MHZ / count, 1)
    both = rate(figures["both_cycles"]) * 2
    # As `corun calibrate` counts them: of mixed traffic lines read and lines written back, of writes those written alone.
    mixed = lambda count: round(rate(count) * 4 / 3, 1)
    loaded = "".join(
        f"\n[[bandwidth.loaded_latency]]\nmb_per_s = {LINE * CLOCK_MHZ * lines:.1f}\nlatency_ns = {ns(took)}\nlow_ns = {ns(took)}\nhigh_ns = {ns(took)}\n"
        for lines, took in figures["loaded"]
    )
    return f"""version = 1
name = "champsim"
title = "ChampSim, two cores under one LLC"
memory_latency_ns = [[{ns(figures["memory"])}]]

[[core_type]]
name = "core"
clock_mhz = {CLOCK_MHZ}.0
dispatch_width = {figures["width"]:.3f}
fetch_width = {FETCH_WIDTH}.0
reorder_buffer = {REORDER_BUFFER}
fuses_branches = false
runs_wrong_path = false
outstanding_misses = {round(figures["misses"])}
outstanding_llc_hits = {round(figures["llc_hits"])}
branch_penalty_cycles = {figures["penalty"]:.2f}
large_predictor_share = {large_predictor_share(figures):.3f}
page_walk_cycles = {max(0, figures["walk"]):.2f}
memory_page_walk_cycles = {max(0, figures["memory_walk"]):.2f}

# The simulator gives all instructions one latency but loads.
[core_type.execution]
{each(OPERATIONS, 1.0)}
load_cycles = {figures["l1"]:.3f}
transfer_cycles = 1.0

[[core_type.tlb]]
level = 1
page_kib = 4
entries = 64

[[core_type.tlb]]
level = 2
page_kib = 4
entries = 1536
hit_cycles = {max(0, figures["second_tlb"]):.2f}

[core_type.prefetching]
hidden_by_stride = [[1, 0.0]]
hidden_in_random_pages = 0.0
streams = 1

[core_type.memory_rates]
read_mb_per_s = {rate(figures["read_cycles"])}
write_mb_per_s = {rate(figures["write_cycles"])}
mixed_mb_per_s = {mixed(figures["mixed_cycles"])}
random_read_mb_per_s = {rate(figures["random_cycles"])}

[[bandwidth]]
name = "memory0"
kind = "memory-controller"
stage = 2
peak_mb_per_s = {both}

[bandwidth.rates]
read_mb_per_s = {both}
write_mb_per_s = {rate(figures["both_write_cycles"]) * 2}
mixed_mb_per_s = {mixed(figures["both_mixed_cycles"]) * 2}
{loaded}
[kernel]
{each(KERNEL_COSTS, 0.0)}

[[object]]
kind = "package"

[[object.object]]
kind = "numa-node"
memory_mib = 4096

[[object.object.object]]
kind = "cache"
level = 3
size_kib = {LLC_KIB}
ways = 16
line_bytes = 64
# Each line that comes from memory stays in the last cache as well, as in an inclusive one: capacities do not add up.
inclusion = "inclusive"
latency_ns = {ns(figures["llc"])}

[[object.object.object.object]]
kind = "cache"
count = 2
level = 2
size_kib = {L2_KIB}
ways = 8
line_bytes = 64
latency_ns = {ns(figures["l2"])}

[[object.object.object.object.object]]
kind = "cache"
level = 1
holds = "data"
size_kib = {L1_KIB}
ways = 12
line_bytes = 64
latency_ns = {ns(figures["l1"])}

[[object.object.object.object.object.object]]
kind = "cache"
level = 1
holds = "instruction"
size_kib = 32
ways = 8
line_bytes = 64

[[object.object.object.object.object.object.object]]
kind = "core"
"""


# Programs.


class Programs:
    def __init__(self, folder, skip, instructions):
        self.folder, self.skip, self.instructions = folder, skip, instructions
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
            found[name] = [self.kernels, kernel, str(size), str(rounds)]
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


def kept(path, make):
    if not path.exists():
        path.write_text(json.dumps(make()))
    return json.loads(path.read_text())


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


def main():
    given = options()
    folder = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    orders = range(1, given.orders + 1)
    simulators = {cores: [build(given.champsim, folder, cores, order) for order in orders] for cores in (1, 2)}
    figures = kept(folder / "figures.json", lambda: Bench(folder, simulators[1][0], simulators[2][0]).measure())
    print(json.dumps(figures, indent=1), file=sys.stderr)
    (folder / "machine.toml").write_text(machine(figures))
    programs = Programs(folder, given.skip, given.instructions)
    commands = programs.commands(given.programs)
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
        phases = {name: by_order for name, by_order in pool.map(alone, commands) if by_order}
        together = pairs(list(phases), given.pairs)
        groups = list(zip(together, pool.map(run, together)))
    by_member = lambda by_order: list(zip(*map(cycles, by_order), strict=True))
    took = {name: by_member(by_order)[0] for name, by_order in phases.items()}
    held = document(took, [(pair, by_member(by_order)) for pair, by_order in groups])
    (folder / "measured.json").write_text(json.dumps(held, indent=1))
    branches = folder / "profiles-with-its-branches"
    branches.mkdir(exist_ok=True)
    for name, (phase, *_) in phases.items():
        text = (folder / "profiles" / f"{name}.toml").read_text()
        (branches / f"{name}.toml").write_text(with_mispredictions(text, mispredictions(phase)))
    judge(programs.corun, folder, "profiles", "accuracy")
    judge(programs.corun, folder, branches.name, "accuracy-with-its-branches")
    print((folder / "accuracy.txt").read_text())


def judge(corun, folder, profiles, name):
    """Writes NAME.txt, .json, .html and .svg: what is predicted of these profiles against what was simulated."""
    common = [corun, "validate", "--profiles", profiles, "--measured", "measured.json", "--machine", "machine.toml"]
    for extra, ending in ((["--report", f"{name}.html", "--svg", f"{name}.svg"], "txt"), (["--format", "json"], "json")):
        done = subprocess.run([*common, *extra], cwd=folder, check=True, capture_output=True, text=True)
        (folder / f"{name}.{ending}").write_text(done.stdout)


if __name__ == "__main__":
    main()
