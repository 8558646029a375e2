#!/usr/bin/env python3
"""What a daemon that watches costs: CPU time for each look, over programs of many threads.

  scripts/look-cost.py [--threads 256] [--seconds 30] [--turns 2] [--gate] [--viewer] CORUN..

Each CORUN (a built command, say one from before a change and one from after it) runs as a daemon in a dry run by `di`,
a look a second, over a program whose threads sleep, run 0.1 ms a second each, or run 1 ms a second each. The commands
take turns. Prints milliseconds of CPU time a look, by the scheduler's own count in nanoseconds (`schedstat`) of all of
the daemon's threads, without the first ten looks. A look a second: 1 ms is 0.1 % of a core.

With `--viewer` each measurement is made without and with a viewer: `corun serve --daemon` with a client that reads the
Live view's stream. The viewer's server is another process; its CPU time stands behind the daemon's.

In a dry run a plan counts as carried out, so that `di` asks for no more after the first look. With `--gate` the gate
refuses the plan, all threads being alike, and `di` asks for it again at each look.
"""

import argparse
import http.client
import os
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

LOADS = {"asleep": ("0", "100000000"), "0.1 ms a second": ("0.1", "1000"), "1 ms a second": ("1", "1000")}


def cpu_ms(pid):
    """CPU time of all threads of a process, those that ended left out."""
    folders = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((one / "schedstat").read_text().split()[0]) for one in folders) / 1e6


class Viewer:
    """`corun serve` over a daemon's socket, with a client that reads all that the Live view is sent."""

    def __init__(self, corun, socket):
        command = [corun, "serve", "--daemon", socket]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        address, token = self.server.stdout.readline().split("http://")[1].strip().split("/?token=")
        self.client = http.client.HTTPConnection(address)
        self.client.request("GET", "/api/v1/live", headers={"Authorization": f"Bearer {token}"})
        self.stream = self.client.getresponse()
        if self.stream.status != 200:
            raise RuntimeError(f"the viewer got {self.stream.status}")
        self.looks = 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while line := self.stream.readline():
            self.looks += line.startswith(b"data:")

    def end(self):
        self.server.kill()
        self.server.wait()


def measure(corun, load, options, folder, viewed):
    """Milliseconds of CPU time a second: of the daemon, and of a viewer's server."""
    cpu, wait = LOADS[load]
    stand_in = [corun, "stand-in", "--threads", str(options.threads), "--cpu-ms", cpu, "--wait-ms", wait]
    watched = subprocess.Popen(stand_in, stdout=subprocess.DEVNULL)
    config, socket = folder / "config.toml", folder / "viewers.sock"
    config.write_text(
        f'policy = "{options.policy}"\ncounters = "{options.counters}"\njournals = "{folder}/journals"\nmetrics = "off"\n'
        f'viewers = "{socket}"\ninterval_s = 1\ngate.on = {"true" if options.gate else "false"}\n'
        f'[[program]]\nname = "many"\nprofile = "xz"\npid = {watched.pid}\n'
    )
    daemon = subprocess.Popen([corun, "daemon", "--config", config], stderr=subprocess.DEVNULL)
    viewer = None
    try:
        time.sleep(3)
        viewer = Viewer(corun, socket) if viewed else None
        time.sleep(7)
        processes = [daemon] + ([viewer.server] if viewer else [])
        began, before = time.monotonic(), [cpu_ms(one.pid) for one in processes]
        seen = viewer.looks if viewer else 0
        time.sleep(options.seconds)
        seconds = time.monotonic() - began
        if viewer and viewer.looks - seen < seconds / 2:
            raise RuntimeError(f"the viewer was sent {viewer.looks - seen} looks in {seconds:.0f} s")
        return [(cpu_ms(one.pid) - earlier) / seconds for one, earlier in zip(processes, before)]
    finally:
        if viewer:
            viewer.end()
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
    parser.add_argument("--viewer", action="store_true")
    parser.add_argument("--load", choices=LOADS, help="this one alone")
    options = parser.parse_args()
    print(f"{options.threads} threads, {options.policy}, counters {options.counters}, load {os.getloadavg()[0]:.1f}")
    for load in [options.load] if options.load else LOADS:
        cases = [(corun, viewed) for corun in options.corun for viewed in ([False, True] if options.viewer else [False])]
        found = {case: [] for case in cases}
        for _ in range(options.turns):
            for corun, viewed in cases:
                with tempfile.TemporaryDirectory() as folder:
                    found[corun, viewed].append(measure(corun.resolve(), load, options, Path(folder), viewed))
        for (corun, viewed), times in found.items():
            words = " with a viewer" if viewed else ""
            each = ", ".join(" and its server ".join(f"{one:.2f}" for one in of) for of in times)
            print(f"{load}: {corun}{words}: {each} ms a look", flush=True)


main()
