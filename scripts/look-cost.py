#!/usr/bin/env python3
"""What a daemon that watches costs: CPU time for each look, over programs of many threads.

  scripts/look-cost.py [--threads 256] [--seconds 30] [--turns 2] [--gate] CORUN..

Each CORUN (a built command, say one from before a change and one from after it) runs as a daemon in a dry run by `di`,
a look a second, over a program whose threads sleep, run 0.1 ms a second each, or run 1 ms a second each. The commands
take turns. Prints milliseconds of CPU time a look, by the scheduler's own count in nanoseconds (`schedstat`) of all of
the daemon's threads, without the first ten looks. A look a second: 1 ms is 0.1 % of a core.

In a dry run a plan counts as carried out, so that `di` asks for no more after the first look. With `--gate` the gate
refuses the plan, all threads being alike, and `di` asks for it again at each look.
"""

import argparse
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

LOADS = {"asleep": ("0", "100000000"), "0.1 ms a second": ("0.1", "1000"), "1 ms a second": ("1", "1000")}


def cpu_ms(pid):
    """CPU time of all threads of a process, those that ended left out."""
    folders = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((one / "schedstat").read_text().split()[0]) for one in folders) / 1e6


def measure(corun, load, options, folder):
    cpu, wait = LOADS[load]
    stand_in = [corun, "stand-in", "--threads", str(options.threads), "--cpu-ms", cpu, "--wait-ms", wait]
    watched = subprocess.Popen(stand_in, stdout=subprocess.DEVNULL)
    config = folder / "config.toml"
    config.write_text(
        f'policy = "{options.policy}"\ncounters = "{options.counters}"\njournals = "{folder}/journals"\nmetrics = "off"\n'
        f'interval_s = 1\ngate.on = {"true" if options.gate else "false"}\n[[program]]\nname = "many"\nprofile = "xz"\npid = {watched.pid}\n'
    )
    daemon = subprocess.Popen([corun, "daemon", "--config", config], stderr=subprocess.DEVNULL)
    try:
        time.sleep(10)
        began, before = time.monotonic(), cpu_ms(daemon.pid)
        time.sleep(options.seconds)
        return (cpu_ms(daemon.pid) - before) / (time.monotonic() - began)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(timeout=60)
        watched.kill()
        watched.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corun", type=Path, nargs="+")
    parser.add_argument("--threads", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--policy", default="di")
    parser.add_argument("--counters", default="profiles")
    parser.add_argument("--gate", action="store_true")
    options = parser.parse_args()
    print(f"{options.threads} threads, {options.policy}, counters {options.counters}, load {os.getloadavg()[0]:.1f}")
    for load in LOADS:
        found = {corun: [] for corun in options.corun}
        for _ in range(options.turns):
            for corun in options.corun:
                with tempfile.TemporaryDirectory() as folder:
                    found[corun].append(measure(corun.resolve(), load, options, Path(folder)))
        for corun, times in found.items():
            print(f"{load}: {corun}: " + ", ".join(f"{one:.2f}" for one in times) + " ms a look", flush=True)


main()
