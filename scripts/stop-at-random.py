#!/usr/bin/env python3
"""Runs a command and stops the processes that it starts, each at random moments and for up to some seconds.

    scripts/stop-at-random.py target/debug/deps/cli-0123456789abcdef --test-threads 6

A test that waits for one thing and judges another fails so, as it does once in hundreds of runs on a busy machine. What it started and left
running is told and ended. The command itself is not stopped.
"""

import argparse
import ctypes
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36

#: Between two looks, in seconds.
LOOK_S = 0.015

#: How likely a process that runs on is stopped at a look, as a part of the same for a process that is new.
AGAIN = 0.02

#: The shorter stops, in seconds.
STOPS_S = (0.02, 0.1, 0.3, 1.0)


def processes():
    """All processes below this one that run: number and start, and state."""
    found, children = {}, {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        found[int(folder.name)] = (fields[19], fields[0])
        children.setdefault(int(fields[1]), []).append(int(folder.name))
    below, todo = {}, [os.getpid()]
    while todo:
        for pid in children.get(todo.pop(), []):
            todo.append(pid)
            start, state = found[pid]
            if state != "Z":
                below[pid, start] = state
    return below


def send(process, what):
    try:
        os.kill(process[0], what)
    except OSError:
        return False
    return True


def words(process, name):
    try:
        return Path(f"/proc/{process[0]}/{name}").read_text().replace("\0", " ").strip()
    except OSError:
        return ""


def ended(command):
    """Waits for what has ended, as init does for orphans; the command's exit code once it has."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == 0:
            return None
        if pid == command:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def watch(command, share, longest_s, chance):
    """Until the command ends: its exit code, and how often a process was stopped."""
    stopped, known, count = {}, set(), 0
    try:
        while (code := ended(command)) is None:
            now = time.monotonic()
            for process in [one for one, until in stopped.items() if until <= now]:
                del stopped[process]
                send(process, signal.SIGCONT)
            running = processes()
            for process, state in running.items():
                if process[0] == command or process in stopped:
                    continue
                # `script` stops itself with what runs on its terminal. Who else is stopped was stopped by a test.
                if state == "T":
                    if words(process, "comm") == "script":
                        send(process, signal.SIGCONT)
                    continue
                likely = share * (AGAIN if process in known else 1.0)
                if chance.random() < likely and send(process, signal.SIGSTOP):
                    stopped[process] = now + chance.choice([*STOPS_S, longest_s])
                    count += 1
            known = set(running)
            time.sleep(LOOK_S)
    finally:
        for process in stopped:
            send(process, signal.SIGCONT)
    return code, count


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--share", type=float, default=0.25, help="of new processes that are stopped at once [0.25]")
    parser.add_argument("--longest", type=float, default=3.0, help="stop in seconds [3]")
    parser.add_argument("--seed", type=int, default=None, help="for the same draws again")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    # Orphans stay below this process.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    command = subprocess.Popen(asked.command).pid
    began = time.monotonic()
    code, count = watch(command, asked.share, asked.longest, random.Random(asked.seed))
    print(f"{count} stops in {time.monotonic() - began:.0f} s", file=sys.stderr)
    # What ends by itself in a moment is no finding.
    time.sleep(1)
    ended(command)
    for process in processes():
        print(f"left running: {process[0]} {words(process, 'cmdline')[:150]}", file=sys.stderr)
        send(process, signal.SIGKILL)
    sys.exit(code)


if __name__ == "__main__":
    main()
