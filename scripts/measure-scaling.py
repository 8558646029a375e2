#!/usr/bin/env python3
"""Measures what docs/scaling.md says of two workers, in one run each.

    PYTHONPATH=FOLDER_WITH_THE_INSTALLED_PACKAGE scripts/measure-scaling.py sweep [ROUNDS]
    .. scripts/measure-scaling.py search CORES PROGRAMS [ROUNDS]

`sweep`: 2000 runs by two independent processes, by two threads, by two Dask workers, and by one
thread, in turns. `search`: the best placement of PROGRAMS on four LLCs of CORES behind two buses, by
one Dask worker and by two, in turns. The package must be a release build.
"""

import json
import multiprocessing
import os
import pathlib
import sys
import tempfile
import time

import corun
from corun import _corun
from corun.dask import run_search
from distributed import Client, LocalCluster

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python/tests"))

SWEEP = {
    "machines": ["xeon-x5365"],
    "policies": ["linux-default", "random"],
    "seeds": list(range(1, 21)),
    "instructions": 1_000_000_000,
    "random": [{"size": 4, "count": 50, "seed": 1}],
}


def swept(seeds, **how):
    with tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        corun.sweep({**SWEEP, "seeds": seeds}, out, **how)
        return time.perf_counter() - began


def half(part):
    return swept(SWEEP["seeds"][part::2], jobs=1)


def workers(count):
    return LocalCluster(
        n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None
    )


def sweeps(rounds):
    spawn = multiprocessing.get_context("spawn")
    with workers(2) as cluster, Client(cluster) as client, spawn.Pool(2) as pool:
        for _ in range(rounds):
            began = time.perf_counter()
            pool.map(half, [0, 1], chunksize=1)
            apart = time.perf_counter() - began
            threads = swept(SWEEP["seeds"], jobs=2)
            dask = swept(SWEEP["seeds"], dask=client)
            one = swept(SWEEP["seeds"], jobs=1)
            print(
                f"two processes {apart:.2f} s, two threads {threads:.2f} s, two Dask workers "
                f"{dask:.2f} s, one thread {one:.2f} s, load {os.getloadavg()[0]:.1f}",
                flush=True,
            )


def searches(cores, count, rounds):
    from test_dask import machine_of, programs

    machine, apps = machine_of(cores), programs(count)
    for threads in [1, 2] * rounds:
        with workers(threads) as cluster, Client(cluster) as client:
            client.wait_for_workers(threads)
            began = time.perf_counter()
            search = _corun.SharedSearch(
                apps, "optimal", machine, corun.Library(), "antt", threads, 1.0, None
            )
            split_s = time.perf_counter() - began
            document, cost = run_search(client, search)
            whole_s = time.perf_counter() - began
            found = json.loads(document)
            print(
                f"{threads} workers: {whole_s:.2f} s, of it {split_s:.2f} s to split; busy "
                f"{cost.busy_s:.2f} s in {cost.batches} batches, {cost.bytes_out} bytes out and "
                f"{cost.bytes_in} in, question {len(search.question)} bytes, told {cost.tightened} "
                f"times, {cost.nodes} nodes, {cost.pruned} cut; {found['value']}, proven "
                f"{found['proven']}, load {os.getloadavg()[0]:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[2:]]
    if sys.argv[1:2] == ["sweep"]:
        sweeps(*(numbers or [3]))
    elif sys.argv[1:2] == ["search"] and len(numbers) >= 2:
        searches(*numbers[:2], *(numbers[2:] or [2]))
    else:
        sys.exit(__doc__)
