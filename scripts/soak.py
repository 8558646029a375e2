#!/usr/bin/env python3
"""Starts, stops and kills the daemon again and again over stand-in programs, and checks that nothing is left.

  scripts/soak.py [--rounds 1000] [--kills] [--seed 1] [--corun target/release/corun]
  scripts/soak.py --churn 200000 [--threads 256]

The stand-ins sleep, compute, are pinned by their user, start short-lived children, and start children that leave
the family (setsid). As root one more is in a cgroup with a CPU set of its own (version 1 or 2), which the daemon
holds as a whole. Each round ends the daemon at a random moment, with SIGTERM, two SIGINT, SIGHUP and then
SIGKILL, or SIGKILL alone; with `--kills` always with SIGKILL. After that every stand-in and every child has the
CPUs (`Cpus_allowed`, which shows a mask that its user set), the nice value and the scheduling policy that it had
before, the cgroup has its CPU set, no journal is left, and `corun verify` agrees. The last line says how often
something was held at that moment; the exit code is 1 after the first round that leaves something.

`--churn N` leaves one daemon alone with a program of many threads and N short processes, and prints each tenth
of the way how much memory and how many descriptors the daemon has, how long its log and its journal are, and what
share of a core it took. Exit code 1 when memory or descriptors in the last tenth are more than 1.1 times those
after the second, or the log grows by more than 1 line a second.
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
    "boxed": "exec sleep 100000",
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


class Box:
    """A cgroup with a CPU set of its own; none where there can be none."""

    def __init__(self, run):
        first = Path("/sys/fs/cgroup/cpuset")
        root = first if first.is_dir() else Path("/sys/fs/cgroup")
        self.name = f"soak-{run}"
        self.folder = root / self.name
        self.is_there = False
        try:
            if root != first:
                (root / "cgroup.subtree_control").write_text("+cpuset")
            self.folder.mkdir()
            own = "cpuset.cpus" if root == first else "cpuset.cpus.effective"
            (self.folder / "cpuset.cpus").write_text((root / own).read_text())
            if root == first:
                (self.folder / "cpuset.mems").write_text((root / "cpuset.mems").read_text())
            self.is_there = True
            self.before = self.cpus()
        except OSError as error:
            print(f"no cgroup is held: {error}", file=sys.stderr)

    def cpus(self):
        return (self.folder / "cpuset.cpus").read_text()

    def take(self, pid):
        (self.folder / "cgroup.procs").write_text(str(pid))

    def remove(self):
        # Those that were killed are there for a moment.
        for _ in range(100):
            try:
                self.folder.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.05)


def start(folder, run, box):
    """Starts the stand-ins; their states before, by kind."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        sys.exit("one CPU alone: nothing can be held on another")
    before = {}
    for kind, script in SCRIPTS.items():
        if kind == "boxed" and not box.is_there:
            continue
        shell = folder / f"soak-{kind}"
        shutil.copy("/bin/sh", shell)
        command = [shell, "-c", script]
        if kind == "computes":
            command = ["nice", "-n", "19", *command]
        if kind == "pinned":
            command = ["taskset", "-c", str(cpus[0]), *command]
        environment = {**os.environ, MARK: f"{run}:{kind}"}
        join = (lambda: box.take(os.getpid())) if kind == "boxed" else None
        program = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, preexec_fn=join)
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


def time_to_hold(corun, config, log, before, run):
    """Seconds from the daemon's start until something is held: half of the moments to end it are after that."""
    began = time.monotonic()
    with log.open("w") as text:
        daemon = subprocess.Popen([corun, "daemon", "--config", config], stderr=text)
    while not differing(before, run):
        if time.monotonic() > began + 60:
            sys.exit(f"nothing was held in 60 s\n{log.read_text()}")
        time.sleep(0.02)
    taken = time.monotonic() - began
    end(daemon, [signal.SIGTERM], 0)
    return taken


ENDINGS = {
    "SIGTERM": [signal.SIGTERM],
    "SIGINT twice": [signal.SIGINT, signal.SIGINT],
    "SIGHUP, SIGKILL": [signal.SIGHUP, signal.SIGKILL],
    "SIGKILL": [signal.SIGKILL],
}


def soak(corun, rounds, endings, chance, folder, run, box):
    before = start(folder, run, box)
    config, journals, log = folder / "config.toml", folder / "journals", folder / "log"
    config.write_text(
        f'apply = true\npolicy = "di"\ncounters = "profiles"\njournals = "{journals}"\nmetrics = "off"\n'
        "interval_s = 0.05\ngate.on = false\n"
        f'[[program]]\nname = "boxed"\nprofile = "sort"\ncgroup = "/{box.name}"\nhold = "cgroup"\n'
        '[[program]]\nname = "soak"\nprofile = "sort"\ncommand = "soak-*"\n'
    )
    counts, held, boxes_held, began = Counter(), 0, 0, time.monotonic()
    longest = 2 * time_to_hold(corun, config, log, before, run)
    print(f"rounds of up to {longest:.1f} s", file=sys.stderr)
    for place in range(rounds):
        name = chance.choice(endings)
        with log.open("w") as text:
            daemon = subprocess.Popen([corun, "daemon", "--config", config], stderr=text)
        time.sleep(chance.uniform(0.01, longest))
        is_held = bool(differing(before, run))
        boxes_held += box.is_there and box.cpus() != box.before
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
                if box.is_there and box.cpus() != box.before:
                    raise AssertionError(f"the cgroup has {box.cpus()!r}, it had {box.before!r}")
                files = [one.name for one in journals.iterdir()] if journals.exists() else []
                if files:
                    raise AssertionError(f"journals are left: {files}")
                subprocess.run([corun, "verify", "--config", config], check=True, capture_output=True, text=True)
        except (AssertionError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stdout", "") or ""
            said += getattr(error, "stderr", "") or ""
            print(f"round {place + 1}, {name}: {error}\n{said}\n{log.read_text()}", file=sys.stderr)
            return False
        counts[name] += 1
        held += is_held
        if (place + 1) % 100 == 0:
            print(f"{place + 1} rounds", file=sys.stderr, flush=True)
    ends = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    print(
        f"{rounds} rounds in {time.monotonic() - began:.0f} s left nothing ({ends}); just before, threads were held in "
        f"{held} of them and a cgroup in {boxes_held}; Linux {os.uname().release}"
    )
    return True


CHURN = """
import os, sys, time
left, living = int(sys.argv[2]), []
while left or living:
    if left and len(living) < 32:
        left -= 1
        child = os.fork()
        if child == 0:
            time.sleep(0.005)
            os._exit(0)
        living.append(child)
    else:
        os.waitpid(living.pop(0), 0)
"""


def figures(daemon, log, journals):
    """Memory in KiB, descriptors, bytes of the log and the journals, CPU seconds of the daemon."""
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    descriptors = len(list(Path(f"/proc/{daemon.pid}/fd").iterdir()))
    written = sum(one.stat().st_size for one in journals.iterdir()) if journals.exists() else 0
    times = Path(f"/proc/{daemon.pid}/stat").read_text().rpartition(")")[2].split()
    cpu_s = (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
    return memory, descriptors, log.stat().st_size, written, cpu_s


def churn(corun, processes, threads, folder, run):
    """One daemon over many threads and short processes; is what it takes flat?"""
    config, journals, log = folder / "config.toml", folder / "journals", folder / "log"
    environment = {**os.environ, MARK: f"{run}:churn"}
    stand_in = [corun, "stand-in", "--threads", str(threads), "--cpu-ms", "0.1", "--wait-ms", "1000"]
    many = subprocess.Popen(stand_in, env=environment, stdout=subprocess.DEVNULL)
    config.write_text(
        f'apply = true\npolicy = "di"\ncounters = "profiles"\njournals = "{journals}"\nmetrics = "off"\n'
        "gate.on = false\n"
        f'[[program]]\nname = "short"\nprofile = "sort"\narguments = "*corun-soak-{run} *"\n'
        f'[[program]]\nname = "many"\nprofile = "xz"\npid = {many.pid}\n'
    )
    with log.open("w") as text:
        daemon = subprocess.Popen([corun, "daemon", "--config", config], stderr=text)
    time.sleep(5)
    table, part = [], processes // 10
    for tenth in range(11):
        began, before = time.monotonic(), figures(daemon, log, journals)
        if tenth == 0:
            # The threads alone.
            time.sleep(30)
        else:
            program = [sys.executable, "-c", CHURN, f"corun-soak-{run} ", str(part)]
            subprocess.run(program, env=environment, check=True)
        seconds = time.monotonic() - began
        now = figures(daemon, log, journals)
        table.append((seconds, *now))
        share = 100 * (now[4] - before[4]) / seconds
        lines = log.read_text().count("\n")
        print(
            f"{tenth * part:7} processes, {seconds:6.1f} s: {now[0]} KiB, {now[1]} descriptors, {lines} lines, "
            f"journal {now[3]} bytes, {share:.2f} % of a core",
            flush=True,
        )
    daemon.send_signal(signal.SIGTERM)
    code = daemon.wait(timeout=60)
    early, late = table[2], table[-1]
    log_lines = log.read_text().count("\n")
    is_flat = late[1] <= 1.1 * early[1] and late[2] <= 1.1 * early[2]
    is_quiet = log_lines <= sum(one[0] for one in table) + 100
    print(f"exit code {code}, {'flat' if is_flat else 'growing'}, {log_lines} lines of log")
    return code == 0 and is_flat and is_quiet


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--kills", action="store_true")
    parser.add_argument("--churn", type=int)
    parser.add_argument("--threads", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corun", type=Path, default=Path(__file__).parent.parent / "target/release/corun")
    options = parser.parse_args()
    corun = options.corun.resolve()
    if not os.access(corun, os.X_OK):
        sys.exit(f"{corun} is not there: cargo build --release -p corun")
    # So that what was started is ended also after SIGTERM, and after SIGINT where a shell put this in the background.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(130))
    run = str(os.getpid())
    endings = ["SIGKILL"] if options.kills else list(ENDINGS)
    box = None if options.churn else Box(run)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        try:
            if options.churn:
                is_clean = churn(corun, options.churn, options.threads, folder, run)
            else:
                chance = random.Random(options.seed)
                is_clean = soak(corun, options.rounds, endings, chance, folder, run, box)
        finally:
            # What has no parent of ours any more, too; what starts meanwhile is found the next time.
            while pids := [pid for pid, _ in marked(run) if state(pid) is not None]:
                for pid in pids:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                time.sleep(0.02)
            if box:
                box.remove()
    sys.exit(0 if is_clean else 1)


if __name__ == "__main__":
    main()
