#!/usr/bin/env python3
"""Starts, stops and kills the daemon again and again over stand-in programs, and checks that nothing is left.

  scripts/soak.py [--rounds 1000] [--seed 1] [--corun target/release/corun]

The stand-ins sleep, compute, are pinned by their user, start short-lived children, and start children that leave
the family (setsid). Each round ends the daemon at a random moment, with SIGTERM, two SIGINT, SIGHUP and then
SIGKILL, or SIGKILL alone. After that every stand-in and every child has the CPUs, the nice value and the
scheduling policy that it had before, no journal is left, and `corun verify` agrees. The last line says how often
something was held at that moment; the exit code is 1 after the first round that leaves something.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

MARK = "CORUN_SOAK"
SCRIPTS = {
    "sleeps": "sleep 100000",
    "computes": "while :; do :; done",
    "pinned": "sleep 100000",
    "starts": "while :; do sleep 0.03 & sleep 0.02; done",
    "leaves": "while :; do setsid sh -c 'sleep 1.5 & sleep 0.3' & sleep 0.2; done",
}


def state(pid):
    """Allowed CPUs, nice value and scheduling policy; none where the process has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if stat[0] in "ZX":
            return None
        cpus = next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list:"))
        return cpus, int(stat[16]), os.sched_getscheduler(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None


def marked(run):
    """The stand-ins of this run and all that they started: process number and kind."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environ = (entry / "environ").read_bytes()
        except OSError:
            continue
        for word in environ.split(b"\0"):
            if word.startswith(f"{MARK}={run}:".encode()):
                yield int(entry.name), word.decode().partition(":")[2]


def start(folder, run):
    """Starts the stand-ins; their states before, by kind."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        sys.exit("one CPU alone: nothing can be held on another")
    before = {}
    for kind, script in SCRIPTS.items():
        shell = folder / f"soak-{kind}"
        shutil.copy("/bin/sh", shell)
        command = [shell, "-c", script]
        if kind == "computes":
            command = ["nice", "-n", "19", *command]
        if kind == "pinned":
            command = ["taskset", "-c", str(cpus[0]), *command]
        environment = {**os.environ, MARK: f"{run}:{kind}"}
        program = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        time.sleep(0.2)
        before[kind] = state(program.pid)
    return before


def differing(before, run):
    """Stand-ins and their children that are not as before."""
    found = ((pid, kind, state(pid)) for pid, kind in marked(run))
    return [one for one in found if one[2] is not None and one[2] != before[one[1]]]


def end(daemon, how, pause):
    """Ends the daemon; whether it was killed."""
    daemon.send_signal(how[0])
    for number in how[1:]:
        time.sleep(pause)
        daemon.send_signal(number)
    code = daemon.wait(timeout=60)
    if how[-1] == signal.SIGKILL:
        return True
    if code != 0:
        raise AssertionError(f"the daemon ended with exit code {code}")
    return False


ENDINGS = {
    "SIGTERM": [signal.SIGTERM],
    "SIGINT twice": [signal.SIGINT, signal.SIGINT],
    "SIGHUP, SIGKILL": [signal.SIGHUP, signal.SIGKILL],
    "SIGKILL": [signal.SIGKILL],
}


def soak(corun, rounds, chance, folder, run):
    before = start(folder, run)
    config, journals, log = folder / "config.toml", folder / "journals", folder / "log"
    config.write_text(
        f'apply = true\npolicy = "di"\ncounters = "profiles"\njournals = "{journals}"\nmetrics = "off"\n'
        "interval_s = 0.05\ngate.on = false\n"
        '[[program]]\nname = "soak"\nprofile = "sort"\ncommand = "soak-*"\n'
    )
    endings, held = Counter(), 0
    for place in range(rounds):
        name = chance.choice(list(ENDINGS))
        with log.open("w") as text:
            daemon = subprocess.Popen([corun, "daemon", "--config", config], stderr=text)
        time.sleep(chance.uniform(0.01, 1.0))
        is_held = bool(differing(before, run))
        try:
            was_killed = end(daemon, ENDINGS[name], chance.uniform(0, 0.05))
            # Every third killed one is left to the next daemon.
            if was_killed and (place + 1 == rounds or chance.random() < 2 / 3):
                subprocess.run([corun, "restore", "--config", config], check=True, capture_output=True, text=True)
                was_killed = False
            if not was_killed:
                left = differing(before, run)
                if left:
                    raise AssertionError(f"not as before: {left}")
                files = [one.name for one in journals.iterdir()] if journals.exists() else []
                if files:
                    raise AssertionError(f"journals are left: {files}")
                subprocess.run([corun, "verify", "--config", config], check=True, capture_output=True, text=True)
        except (AssertionError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stdout", "") or ""
            said += getattr(error, "stderr", "") or ""
            print(f"round {place + 1}, {name}: {error}\n{said}\n{log.read_text()}", file=sys.stderr)
            return False
        endings[name] += 1
        held += is_held
        if (place + 1) % 100 == 0:
            print(f"{place + 1} rounds", file=sys.stderr, flush=True)
    counts = ", ".join(f"{count} {name}" for name, count in sorted(endings.items()))
    print(f"{rounds} rounds left nothing ({counts}); in {held} of them something was held just before")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corun", type=Path, default=Path(__file__).parent.parent / "target/release/corun")
    options = parser.parse_args()
    corun = options.corun.resolve()
    if not os.access(corun, os.X_OK):
        sys.exit(f"{corun} is not there: cargo build --release -p corun")
    run = str(os.getpid())
    with tempfile.TemporaryDirectory() as folder:
        try:
            is_clean = soak(corun, options.rounds, random.Random(options.seed), Path(folder), run)
        finally:
            # What has no parent of ours any more, too; what starts meanwhile is found the next time.
            while pids := [pid for pid, _ in marked(run) if state(pid) is not None]:
                for pid in pids:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                time.sleep(0.02)
    sys.exit(0 if is_clean else 1)


if __name__ == "__main__":
    main()
