"""Sweeps and the search for the best placement on a real Dask cluster on loopback."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pandas as pd
import pytest

import corun
from corun import _corun
from corun.errors import FailedError, InputError

dask = pytest.importorskip("dask", reason="Dask is not installed")
distributed = pytest.importorskip("distributed", reason="Dask is not installed")

from corun import dask as corun_dask  # noqa: E402

SWEEP = {
    "machines": ["xeon-x5365", "xeon-e5520"],
    "policies": ["linux-default", "di"],
    "seeds": 3,
    "bounds": ["optimal"],
    "instructions": 2_000_000_000,
    # Of eight programs: each worker process loads those that its tasks have.
    "random": [
        {
            "size": 4,
            "count": 6,
            "seed": 3,
            "from": ["flac", "gawk", "git", "lua", "sort", "sqlite3", "xz", "zstd-mt"],
        }
    ],
}


@pytest.fixture(scope="module")
def client():
    """A cluster of two worker processes, each of one thread, that nobody harms."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=300)
        yield client


class Worker:
    """A worker process of one thread, started again when it dies, as a service manager would.

    Dask's own nanny gives a worker up that dies in the moment of its start, which is when a task that
    kills meets it.
    """

    def __init__(self, address, folder, *, is_restarted):
        self.words = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny"]
        self.words += ["--nthreads", "1", "--no-dashboard", "--local-directory", str(folder)]
        self.is_restarted = is_restarted
        self.guard = threading.Lock()
        self.start()
        self.keeper = threading.Thread(target=self.keep)
        self.keeper.start()

    def start(self):
        self.process = subprocess.Popen(self.words)

    def keep(self):
        while True:
            self.process.wait()
            with self.guard:
                if not self.is_restarted:
                    return
                self.start()

    def end(self):
        with self.guard:
            self.is_restarted = False
            self.process.kill()
        self.keeper.join()


@contextlib.contextmanager
def doomed_workers(folder, *, is_restarted=True):
    """A client of a scheduler whose two workers may be killed."""
    with (
        # Two deaths of its worker are enough to give a batch up.
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(n_workers=0, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(2):
            worker = Worker(cluster.scheduler_address, folder, is_restarted=is_restarted)
            stack.callback(worker.end)
        client.wait_for_workers(2, timeout=300)
        yield client


@pytest.fixture
def doomed(tmp_path_factory):
    """A cluster of its own for a test that kills."""
    with doomed_workers(tmp_path_factory.mktemp("workers")) as client:
        yield client


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """The sweep on this machine, without Dask."""
    return corun.sweep(SWEEP, tmp_path_factory.mktemp("here"))


def machine_of(cores):
    """Four LLCs in two packages, each with a bus, before one controller: no bound cuts much there."""
    llc = (
        '[[object.object]]\nkind = "cache"\nlevel = 3\nsize_kib = 8192\nways = 16\n'
        f'[[object.object.object]]\nkind = "core"\ncount = {cores}\n'
    )
    package = f'[[object]]\nkind = "package"\n{llc * 2}'

    def domain(name, stage, peak, cpus):
        place = f'from_cpus = "{cpus}"\n' if cpus else ""
        return (
            f'[[bandwidth]]\nname = "{name}"\nkind = "memory-controller"\nstage = {stage}\n'
            f"peak_mb_per_s = {peak}\n{place}"
        )

    return corun.Machine.from_toml(
        f'version = 1\nname = "4x{cores}"\n[[core_type]]\nname = "big"\nclock_mhz = 3000\n'
        + domain("bus 0", 0, 6000, f"0-{2 * cores - 1}")
        + domain("bus 1", 0, 6000, f"{2 * cores}-{4 * cores - 1}")
        + domain("memory", 1, 9000, None)
        + package * 2
    )


def programs(count):
    """The names of so many shipped programs."""
    return corun.Library().names()[::3][:count]


def test_a_sweep_on_dask_has_the_bytes_of_one_here(client, here, tmp_path):
    shown = []
    found = corun.sweep(
        SWEEP, tmp_path, dask=client, batch=3, progress=lambda *both: shown.append(both)
    )
    assert found.path.read_bytes() == here.path.read_bytes()
    assert found.failed == 0
    assert shown[-1] == (84, 84)
    table = pd.read_parquet(found.path)
    assert len(table) == 84
    assert set(table.columns) >= {"machine_hash", "mix_hash", "policy_hash", "hash", "version"}
    assert table["mean_slowdown"].min() >= 1.0 - 1e-9
    assert list(table["slowdown"].iloc[0]) == found.rows["slowdown"].iloc[0]
    again = corun.sweep(SWEEP, tmp_path, dask=client, progress=lambda *_: pytest.fail("done"))
    assert again.path.read_bytes() == here.path.read_bytes()


def test_a_worker_that_is_killed_costs_no_result(doomed, here, tmp_path):
    pids = list(doomed.run(os.getpid).values())
    done = []

    def kill_one(now, tasks):
        if not done:
            os.kill(pids[0], signal.SIGKILL)
        done.append(now)

    found = corun.sweep(SWEEP, tmp_path, dask=doomed, batch=2, progress=kill_one)
    assert found.failed == 0
    assert found.path.read_bytes() == here.path.read_bytes()


class Deadly(distributed.WorkerPlugin):
    """The third task takes its worker down."""

    name = "deadly"

    def setup(self, worker):
        import os

        from corun import dask

        self.whole = whole = dask._answer_with

        def answer(runner, tasks):
            if 2 in tasks:
                os._exit(1)
            return whole(runner, tasks)

        dask._answer_with = answer

    def teardown(self, worker):
        from corun import dask

        dask._answer_with = self.whole


def test_a_task_that_kills_its_workers_fails_alone(client, doomed, here, tmp_path):
    # The cluster ends with its plugin: to take that away again would ask workers that just start.
    doomed.register_plugin(Deadly())
    found = corun.sweep(SWEEP, tmp_path, dask=doomed, batch=3)
    failed = found.rows[found.rows["error"].notna()]
    assert found.failed == len(failed) == 1
    assert "workers died" in failed["error"].iloc[0]
    kept = pd.read_parquet(found.path)
    assert len(kept) == 84 and kept["error"].notna().sum() == 1
    # The next time it is tried again, and it alone.
    assert corun.sweep(SWEEP, tmp_path, dask=client).path.read_bytes() == here.path.read_bytes()


def test_a_worker_that_dies_while_it_is_asked_is_asked_no_more(client, monkeypatch):
    whole, asked = client.run, []

    def run(*words, **options):
        asked.append(words)
        if len(asked) == 1:
            raise distributed.comm.CommClosedError("Connection reset by peer")
        return whole(*words, **options)

    monkeypatch.setattr(client, "run", run)
    with corun_dask.connected(client) as found:
        assert found is client
    assert len(asked) == 2

    def never(*_, **__):
        raise distributed.comm.CommClosedError("Connection reset by peer")

    monkeypatch.setattr(client, "run", never)
    monkeypatch.setattr(corun_dask, "CONNECT_S", 0.5)
    with pytest.raises(OSError, match="reset by peer"), corun_dask.connected(client):
        pass


def test_workers_that_are_gone_for_good_are_said(monkeypatch, here, tmp_path):
    monkeypatch.setattr(corun_dask, "WITHOUT_WORKERS_S", 1.0)
    monkeypatch.setattr(corun_dask, "ANSWER_S", 1.0)
    with doomed_workers(tmp_path / "workers", is_restarted=False) as client:
        client.register_plugin(Deadly())
        with pytest.raises(FailedError, match="has had no worker for 1 s"):
            corun.sweep(SWEEP, tmp_path / "out", dask=client, batch=3)
    # What was answered is kept, and the rest is done the next time.
    assert corun.sweep(SWEEP, tmp_path / "out").path.read_bytes() == here.path.read_bytes()


@pytest.mark.parametrize("objective", ["antt", "unfairness"])
def test_the_optimum_is_that_of_one_process(client, objective):
    machine, apps = machine_of(2), programs(8)
    own = corun.place(apps, machine=machine, objective=objective)
    shared = corun.place(apps, machine=machine, objective=objective, dask=client)
    for key in ("cpu", "slowdown", "value", "proven", "gap"):
        assert shared.document[key] == own.document[key], key


def test_a_worker_that_is_killed_costs_its_batch_alone(doomed):
    machine, apps = machine_of(3), programs(12)
    own = corun.place(apps, machine=machine)
    pids = list(doomed.run(os.getpid).values())
    search = _corun.SharedSearch(
        apps, "optimal", machine, corun.Library(), "antt", 2, 0.02, None
    )
    looks = []

    def kill_one(figures):
        if not looks:
            os.kill(pids[1], signal.SIGKILL)
        looks.append(figures.batches)

    document, figures = corun_dask.run_search(doomed, search, tell=kill_one)
    found = json.loads(document)
    assert found["proven"] and found["cpu"] == own.document["cpu"]
    assert figures.batches == looks[-1] > 3


def test_an_address_that_does_not_answer_is_said(monkeypatch):
    monkeypatch.setattr(corun_dask, "CONNECT_S", 1.0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(InputError, match=f"no Dask scheduler answers at {address}"),
            corun_dask.connected(address),
        ):
            pass


def test_workers_with_another_version_are_refused(client):
    class Older(distributed.WorkerPlugin):
        name = "older"

        def setup(self, worker):
            import corun

            corun.__version__ = "0.0.1"

        def teardown(self, worker):
            import corun

            corun.__version__ = corun._corun.__version__

    client.register_plugin(Older())
    try:
        with (
            pytest.raises(InputError, match="has corun 0.0.1, and this is corun"),
            corun_dask.connected(client),
        ):
            pass
    finally:
        client.unregister_worker_plugin("older")


def test_what_the_command_starts(client, here, tmp_path):
    description = tmp_path / "sweep.toml"
    description.write_text(
        'machines = ["xeon-x5365"]\npolicies = ["di"]\ninstructions = 1000000000\n'
        '[[mix]]\napps = ["xz", "flac"]\n'
    )
    address = client.scheduler.address
    words = ["sweep", str(description), "--out", str(tmp_path / "out"), "--address", address]
    done = subprocess.run(
        [sys.executable, "-m", "corun.dask", *words], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert len(pd.read_parquet(tmp_path / "out/results.parquet")) == 1
    question = {
        "machine": corun.Machine("xeon-x5365").to_toml(),
        "profiles": [corun.Library()[name].to_toml() for name in ("xz", "flac")],
        "apps": ["xz", "flac", "xz"],
        "policy": "worst",
        "objective": "stp",
        "time_limit_s": None,
        "options": {"space": None, "bandwidth": "morad"},
    }
    done = subprocess.run(
        [sys.executable, "-m", "corun.dask", "place", "--address", address],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    options = corun.ModelOptions(bandwidth="morad")
    own = corun.place(["xz", "flac", "xz"], "worst", objective="stp", options=options)
    assert json.loads(done.stdout)["cpu"] == own.document["cpu"]


def told(apps, policy):
    """A search by one worker, and what that told of better placements."""
    search = _corun.SharedSearch(
        apps, policy, machine_of(3), corun.Library(), "antt", 2, 60.0, None
    )
    heard = []
    searcher = _corun.Searcher(search.question, heard.append)
    while not search.done:
        _, batch = search.next_batch()
        search.finish(searcher.work(batch))
    return search, searcher, heard


def test_better_placements_are_told_at_once():
    """What a worker finds it tells while it works; nonsense is refused."""
    names = corun.Library().names()
    # Often the placement that a search begins with is the best already, and there is nothing to tell.
    mixes = [names[first::4][:12] for first in range(4)]
    searches = (told(mix, policy) for policy in ("worst", "optimal") for mix in mixes)
    search, searcher, heard = next(found for found in searches if found[2])
    for news in heard:
        search.tighten(news)
        searcher.tighten(news)
    with pytest.raises(InputError, match="no message of this version"):
        searcher.tighten(b"nonsense")
    with pytest.raises(InputError, match="no message of this version"):
        search.finish(b"nonsense")


def test_a_search_with_a_limit_says_how_far_it_may_be(client):
    machine, apps = machine_of(4), programs(16)
    began = time.monotonic()
    found = corun.place(apps, machine=machine, dask=client, time_limit_s=0.2)
    assert time.monotonic() - began < 120
    assert found.document["proven"] is False and found.document["gap"] >= 0
