"""ChampSim as a machine: built, measured by traces written by hand, and told as a machine file.

For `scripts/simulator-accuracy.py`. A trace has 64 bytes an instruction.
"""

import gzip
import itertools
import json
import random
import struct
import subprocess

CLOCK_MHZ = 4000
# Cores by name. The wide one is ChampSim's default with more registers.
CORES = {
    "wide": {"fetch_width": 6, "rob_size": 352, "mispredict_penalty": 15},
    "narrow": {
        "fetch_width": 3, "decode_width": 3, "dispatch_width": 3, "execute_width": 2, "retire_width": 3, "rob_size": 96, "lq_size": 32,
        "sq_size": 24, "mispredict_penalty": 8,
    },
}
# The last cache grows with the cores that share it.
L1_KIB, L2_KIB, LLC_KIB_A_CORE = 48, 128, 256
LINE = 64


# The simulator.


def configuration(core, cores, order, llc_kib):
    """Cores of a kind of CORES, with better branches than ChampSim's default, ports enough in the first level and its TLB (with the
    default of two, programs that load and store much wait for these most of all), and smaller caches, which short traces fill."""
    cache = {"prefetcher": "no"}
    ports = {"max_tag_check": 8, "max_fill": 8}
    return {
        "executable_name": f"champsim-corun-{cores}-{order}",
        "num_cores": cores,
        "heartbeat_frequency": 1_000_000_000,
        "ooo_cpu": [
            {
                "frequency": CLOCK_MHZ, "register_file_size": 1024, "branch_predictor": "hashed_perceptron", **CORES[core],
            }
        ],
        "L1D": cache | ports,
        "DTLB": ports,
        "L1I": cache,
        "L2C": cache | {"sets": L2_KIB * 1024 // LINE // 8, "ways": 8},
        "LLC": cache | {"sets": llc_kib * 1024 // LINE // 16, "ways": 16, "replacement": "lru"},
        # The kernel's part of a page's first touch is left out of trace and profile.
        "virtual_memory": {"minor_fault_penalty": 1, "randomization": order},
    }


def build(champsim, folder, core, cores, order, llc_kib):
    """The simulator that gives pages out in this order, 1 being its own."""
    program = folder / f"champsim-{of_order(cores, order)}"
    if not program.exists():
        description = folder / f"{program.name}.json"
        description.write_text(json.dumps(configuration(core, cores, order, llc_kib), indent=2))
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


# Pages that are touched for the first time.
NEW_PAGES = 1024


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

    def __init__(self, folder, one, two, llc_kib):
        self.folder, self.one, self.two = folder / "loops", one, two
        # Lines that readers go round through, twice what the last cache holds, and loads of the chase beside them until they
        # have seen all of their pages. Only where they read a line in more than 60 cycles they have not by then.
        self.read_lines = 2 * llc_kib * 1024 // LINE
        self.beside_warm = 5000 * llc_kib // 512
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
        # Round and round through more than the caches hold; pages that no round has seen wait for their walks (`first_touch`).
        ahead = [DATA + LINE * (i % self.read_lines) for i in range(self.read_lines + 60_100)]
        reads = lambda trace, simulator: cycles(simulate(simulator, trace, 60_000, self.read_lines))
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
        path = self.trace("read", independent(ahead))
        figures["read_cycles"] = reads([path], self.one)[0] / 60_000
        figures["both_cycles"] = max(reads([path, path], self.two)) / 60_000
        # Changed lines are written back once the caches are full of them.
        writes = lambda changed: (
            record(CODE + 4 * (i % 8), [50 + i % 8], [COUNT], loads=[line], stores=[line] * changed(i)) for i, line in enumerate(ahead)
        )
        for name, changed in [("mixed", lambda i: i % 3 == 2), ("write", lambda i: True)]:
            path = self.trace(name, writes(changed))
            figures[f"{name}_cycles"] = reads([path], self.one)[0] / 60_000
            figures[f"both_{name}_cycles"] = max(reads([path, path], self.two)) / 60_000
        figures["misses"] = figures["memory"] / self.cycles_each("parallel", independent(far[:100_000]), 20_000, 60_000)
        figures["llc_hits"] = figures["llc"] / self.cycles_each("parallel-llc", independent(rounds(384, 6)), 13_000, 20_000)
        # Some lines of each page of a row of pages, more than the last cache holds, which no round has seen and which one has.
        lines_a_page = min(64, self.read_lines // NEW_PAGES)
        pages = range(self.read_lines // lines_a_page)
        new = [DATA + 4096 * page + LINE * line for page in pages for line in chance.sample(range(64), lines_a_page)]
        seen = [self.chased(f"pages-{kind}", order, warm, len(new)) for kind, order, warm in [("new", new, 0), ("seen", new * 2, len(new))]]
        figures["first_touch"] = lines_a_page * (seen[0] - seen[1])
        figures["loaded"] = sorted(self.beside(gap, far) for gap in GAPS)
        return figures

    def beside(self, gap, far):
        """Lines a cycle that both cores read, and cycles of a load that waits for the one before, beside a core that reads a
        line every so many instructions."""
        order = far[: self.beside_warm + 4000 + 100]
        chased = self.trace("chased", chase(order))
        lines = range(max(self.read_lines, 3_000_000 // (1 + gap)))
        ahead = ((record(CODE, [50], [COUNT], loads=[DATA + (64 << 20) + LINE * (i % self.read_lines)]), gap) for i in lines)
        pause = [record(CODE + 4 + 4 * (i % 7), [51 + i % 7], [COUNT]) for i in range(gap)]
        reader = self.trace(f"reader-{gap}", itertools.chain.from_iterable([line, *pause[:rest]] for line, rest in ahead))
        phase = simulate(self.two, [chased, reader], 4000 * (1 + BESIDE), self.beside_warm * (1 + BESIDE))
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


def outstanding_misses(figures):
    """By Little's law the rate of independent loads times what one takes at that traffic; `misses` is that with the idle latency."""
    idle = figures["memory"]
    lines_a_cycle = figures["misses"] / idle
    at = [(0, idle), *figures["loaded"]]
    after = next((i for i, (lines, _) in enumerate(at) if lines >= lines_a_cycle), len(at) - 1)
    (before, quick), (behind, slow) = at[after - 1], at[after]
    part = min(1, (lines_a_cycle - before) / (behind - before))
    return round(lines_a_cycle * (quick + part * (slow - quick)))


OPERATIONS = [f"{name}_cycles" for name in "integer_multiply integer_divide fp_add fp_multiply fp_divide fp_multiply_add vector_add".split()]
KERNEL_COSTS = [f"{name}_ns" for name in "file_fault system_call file_call mapping_call sleeping_call".split()]
KERNEL_COSTS += ["transfer_ns_per_byte", "file_write_ns_per_byte", "process_ns"]


def machine(figures, core, cores, llc_kib):
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
title = "ChampSim, {cores} cores under one LLC"
memory_latency_ns = [[{ns(figures["memory"])}]]

[[core_type]]
name = "core"
clock_mhz = {CLOCK_MHZ}.0
dispatch_width = {figures["width"]:.3f}
fetch_width = {CORES[core]['fetch_width']}.0
reorder_buffer = {CORES[core]['rob_size']}
fuses_branches = false
runs_wrong_path = false
# A store leaves once it is sent, whether its line is there or not.
store_buffer = 4096
outstanding_misses = {outstanding_misses(figures)}
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
# No kernel: what the first touch of a page takes is its walk, whose entry comes from memory.
page_fault_ns = {ns(max(0, figures["first_touch"]))}
page_fault_memory_share = 1.0
{each(KERNEL_COSTS, 0.0)}

[[object]]
kind = "package"

[[object.object]]
kind = "numa-node"
memory_mib = 4096

[[object.object.object]]
kind = "cache"
level = 3
size_kib = {llc_kib}
ways = 16
line_bytes = 64
# The simulator gives out pages in random order.
random_page_kib = 4
# A line that comes from memory stays here when a private cache takes it, and a written one comes back.
inclusion = "neither"
latency_ns = {ns(figures["llc"])}

[[object.object.object.object]]
kind = "cache"
count = {cores}
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
