#!/usr/bin/env python3
"""Makes up a live recording (docs/recording-file.md) of a machine: the same bytes for the same arguments.

    scripts/golden-recording.py MACHINE.json SAMPLES THREADS SEED > FILE

MACHINE.json is a machine file's content as JSON. Threads have phases, sleep, move between CPUs, are born
and end; some counters are missing in some samples, as on a processor that multiplexes its counters.
"""

import json
import random
import sys

COUNTERS = [
    "instructions", "cycles", "llc-references", "llc-misses", "l1-accesses", "branches",
    "memory-bytes", "memory-stalls", "memory-retries", "llc-occupancy",
]
INTERVAL_NS = 50_000_000


def nine_digits(value):
    return float(f"{value:.8e}")


def cpus_of(machine):
    def count(objects):
        total = 0
        for one in objects:
            times = one.get("count", 1)
            inner = one.get("object", [])
            if one["kind"] == "core":
                core_type = one.get("core_type", machine["core_type"][0]["name"])
                threads = next(t.get("threads", 1) for t in machine["core_type"] if t["name"] == core_type)
                total += times * threads
            else:
                total += times * count(inner)
        return total

    return count(machine["object"])


class Thread:
    def __init__(self, draw, tid, program, now, cpus):
        self.tid, self.program = tid, program
        self.start_ticks = 100 + now // 10_000_000
        self.cpu_ns = 0
        self.cpu = draw.randrange(cpus)
        self.misses_pki = draw.choice([0.1, 0.7, 2.0, 6.0, 15.0, 34.0]) * draw.uniform(0.8, 1.2)
        self.ipc = draw.uniform(0.4, 1.9)
        self.written = False
        self.level = self.misses_pki

    def sample(self, draw, cpus, nodes):
        if draw.random() < 0.05:
            self.level = self.misses_pki * draw.uniform(0.3, 2.5)
        if draw.random() < 0.08:
            self.cpu = draw.randrange(cpus)
        share = draw.choice([1.0, 1.0, 1.0, 0.6, 0.25, 0.0])
        self.cpu_ns += int(share * INTERVAL_NS)
        cycles = 2.4e9 * share
        instructions = self.ipc * cycles
        line = {"tid": self.tid}
        if not self.written:
            line["new"] = {"pid": 1000 + self.program, "start_ticks": self.start_ticks, "program": self.program}
        line["state"] = "running" if share > 0.5 else "runnable" if share > 0 else "sleeping"
        line["cpu"] = self.cpu
        line["cpu_ns"] = self.cpu_ns
        if not self.written:
            line["affinity"] = f"0-{cpus - 1}"
            line["nice"], line["parent"], line["name"] = 0, 1, f"p{self.program}"
        known = lambda: draw.random() > 0.06
        misses = instructions * self.level / 1000
        stalls = min(0.95, 0.02 * self.level + 0.1)
        if known():
            line["instructions_per_s"] = nine_digits(instructions)
            line["cycles_per_s"] = nine_digits(cycles)
            if cycles > 0:
                line["memory_stall_share"] = nine_digits(stalls)
            scoped = lambda rate: {"per_s": nine_digits(rate), "prefetches": True}
            line["llc_references"] = scoped(instructions * (self.level * 2 + 3) / 1000)
            line["llc_misses"] = scoped(misses)
        if known():
            line["l1_accesses_per_s"] = nine_digits(instructions * 0.35)
            line["branches_per_s"] = nine_digits(instructions * 0.17)
        if known():
            line["memory_bytes_per_s"] = nine_digits(misses * 80)
            line["memory_retries_per_s"] = nine_digits(misses * self.level / 1000)
        line["llc_occupancy_bytes"] = nine_digits(1e5 + self.level * 6e4)
        if nodes > 1:
            home = nine_digits(draw.choice([0.95, 0.8, 0.1]))
            line["pages_by_node"] = [home] + [nine_digits((1 - home) / (nodes - 1))] * (nodes - 1)
        if not self.written:
            line["solo"] = {
                "llc_mpki": nine_digits(self.misses_pki), "llc_apki": nine_digits(self.misses_pki * 2 + 3),
                "instructions_per_s": nine_digits(self.ipc * 2.4e9),
                "memory_bytes_per_s": nine_digits(self.misses_pki * 1.5e8),
                "numa_penalty": nine_digits(1 + self.misses_pki / 100),
                "speedup_factor": nine_digits(1.2 + 1.8 / (1 + self.misses_pki / 10)),
            }
            worst = 1 + self.misses_pki / 12 if 1 < self.misses_pki < 20 else 1.04
            ways = 20
            curve = []
            for way in range(1, ways + 1):
                part = (1 - way / ways) ** 2
                slowdown = 1 + (worst - 1) * part
                mpki = self.misses_pki * (1 + 2 * part)
                curve.append({
                    "slowdown": nine_digits(slowdown), "ipc": nine_digits(self.ipc / slowdown),
                    "llc_mpki": nine_digits(mpki), "llc_mpkc": nine_digits(mpki * self.ipc / slowdown),
                    "bytes_per_s": nine_digits(mpki * 1.4e8), "l2_miss_stalls": nine_digits(0.1 + part / 4),
                    "memory_stalls": nine_digits(0.1 + part / 5), "total_stalls": nine_digits(0.2 + part / 3),
                })
            line["by_ways"] = curve
        self.written = True
        return line


def main():
    path, samples, threads, seed = sys.argv[1], *map(int, sys.argv[2:5])
    with open(path) as file:
        machine = json.load(file)
    draw = random.Random(seed)
    cpus = cpus_of(machine)
    nodes = max(1, len(machine.get("memory_latency_ns", [])))
    out = sys.stdout
    head = {
        "corun_live_recording": 1, "written_by": "golden", "interval_s": INTERVAL_NS * 1e-9,
        "counters": COUNTERS, "profiles": True, "machine": machine,
    }
    out.write(json.dumps(head) + "\n")
    tid, now, alive, programs = 5000, 0, [], 0
    for sample in range(samples):
        line = {"at_ns": now}
        if sample == 0:
            line["online"] = f"0-{cpus - 1}"
        gone = [one for one in alive if sample and draw.random() < 0.006]
        alive = [one for one in alive if one not in gone]
        if gone:
            line["gone"] = sorted(one.tid for one in gone)
        while len(alive) < threads and (sample == 0 or draw.random() < 0.2):
            tid += draw.randrange(1, 4)
            line.setdefault("programs", []).append(
                {"name": f"p{programs}", "profile": f"p{programs}", **({"important": True} if programs % 5 == 2 else {})})
            alive.append(Thread(draw, tid, programs, now, cpus))
            programs += 1
        line["threads"] = [one.sample(draw, cpus, nodes) for one in alive]
        out.write(json.dumps(line) + "\n")
        # Samples are taken late now and then.
        now += INTERVAL_NS + draw.choice([0, 0, 1_000_000, 23_000_000])


if __name__ == "__main__":
    main()
