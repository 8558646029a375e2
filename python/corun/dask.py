"""Sweeps and the search for the best placement on a Dask cluster.

The workers need this version of corun and nothing else: machines and profiles are sent to them.
Results come back as bytes, and the process that asked writes them.

``python -m corun.dask`` is what ``corun sweep --dask`` and ``corun place --dask`` start.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from corun import _corun
from corun.errors import Error, FailedError, InputError

try:
    from distributed import Client, LocalCluster, WorkerPlugin, get_worker
    from distributed.client import FIRST_COMPLETED, Future, wait
    from distributed.scheduler import KilledWorker
except ImportError as error:
    raise InputError(
        "corun.dask needs Dask, which is not installed here", ["pip install 'corun[dask]'"]
    ) from error

_T = TypeVar("_T")

#: How long an address may take to answer, in seconds.
CONNECT_S = 10.0

#: Batches in Dask's hands for each thread of a worker: one at work, others on the way.
AHEAD = 3

#: Tasks of a batch at most.
MOST_TASKS = 64

#: Batches that may be lost with their workers before a search is given up.
MOST_LOST = 20

#: How often the coordinator looks up when nothing comes, in seconds.
LOOK_S = 1.0

#: How long an answer that is there may take to come, in seconds.
ANSWER_S = 30.0

#: How long a cluster may be without any worker before a question is given up, in seconds.
WITHOUT_WORKERS_S = 300.0


@contextlib.contextmanager
def connected(where: Client | str) -> Iterator[Client]:
    """A client of a cluster whose workers have this version of corun.

    ``where`` is a client, a scheduler's address, or ``local``: a worker process for each core of this
    machine.
    """
    with contextlib.ExitStack() as stack:
        if isinstance(where, Client):
            client = where
        elif where == "local":
            cluster = stack.enter_context(
                LocalCluster(threads_per_worker=1, dashboard_address=None)
            )
            client = stack.enter_context(Client(cluster))
        else:
            try:
                client = stack.enter_context(Client(where, timeout=CONNECT_S))
            except (OSError, ValueError) as error:
                why = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise InputError(
                    f"no Dask scheduler answers at {where} within {CONNECT_S:g} s: {why}",
                    ["dask scheduler", "--dask local, for processes on this machine"],
                ) from None
        _check_versions(client)
        yield client


def _check_versions(client: Client) -> None:
    """The workers' version of corun must be ours."""

    def version() -> str:
        # Sent by value: it runs where there may be no corun.
        try:
            import corun
        except ImportError as error:
            return f"none ({error})"
        return corun.__version__

    try:
        client.wait_for_workers(1, timeout=CONNECT_S)
    except TimeoutError:
        raise InputError(
            f"the Dask scheduler at {client.scheduler.address} has no worker",
            [f"dask worker {client.scheduler.address}"],
        ) from None
    own = _corun.__version__
    for worker, found in _of_the_living(lambda: client.run(version)).items():
        if found != own:
            raise InputError(
                f"the Dask worker at {worker} has corun {found}, and this is corun {own}: "
                "install the same version everywhere"
            )


def _of_the_living(ask: Callable[[], _T]) -> _T:
    """What all workers answer, asked again where one of them dies while it is asked."""
    ends = time.monotonic() + CONNECT_S
    while True:
        try:
            return ask()
        except OSError:
            # Dask's own `CommClosedError` is one. The scheduler forgets a dead worker in a moment.
            if time.monotonic() > ends:
                raise
            time.sleep(LOOK_S)


def threads_of(client: Client) -> int:
    """Threads of all workers."""
    return max(1, sum(client.nthreads().values()))


class _Holds(WorkerPlugin):
    """Makes something once on every worker, also on those that come later."""

    def __init__(self, name: str, what: bytes) -> None:
        self.name = name
        self.what = what

    def make(self, worker: Any) -> Any:
        raise NotImplementedError

    def setup(self, worker: Any) -> None:
        self.held = self.make(worker)

    def teardown(self, worker: Any) -> None:
        # A worker that is just starting may not have made it yet.
        if held := getattr(self, "held", None):
            held.stop()

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "what": self.what}


class _HoldsRunner(_Holds):
    def make(self, worker: Any) -> _corun.SweepRunner:
        return _corun.SweepRunner(self.what)


class _HoldsSearcher(_Holds):
    def make(self, worker: Any) -> _corun.Searcher:
        def hear(news: bytes) -> None:
            worker.log_event(self.name, news)

        return _corun.Searcher(self.what, hear)


def _held(name: str) -> Any:
    plugin: Any = get_worker().plugins[name]
    return plugin.held


def _answer_with(runner: _corun.SweepRunner, tasks: list[int]) -> bytes:
    return runner.answer(tasks)


def _answer(name: str, tasks: list[int]) -> bytes:
    return _answer_with(_held(name), tasks)


def _work(name: str, batch: bytes) -> tuple[bytes, float]:
    began = time.perf_counter()
    report = _held(name).work(batch)
    return report, time.perf_counter() - began


def _tighten(name: str, news: bytes, dask_worker: Any) -> None:
    if name in dask_worker.plugins:
        dask_worker.plugins[name].held.tighten(news)


@contextlib.contextmanager
def _plugin(client: Client, plugin: _Holds) -> Iterator[None]:
    _of_the_living(lambda: client.register_plugin(plugin, name=plugin.name))
    try:
        yield
    finally:
        with contextlib.suppress(Exception):
            client.unregister_worker_plugin(plugin.name)


def _batches(tasks: Sequence[int], size: int) -> Iterator[list[int]]:
    for first in range(0, len(tasks), size):
        yield list(tasks[first : first + size])


class _Patience:
    """Waits for answers of workers, and ends when there has been no worker for too long.

    Nobody brings them back where they died for good: Dask's own nanny loses a worker that dies in the
    moment of its start.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.last_seen = time.monotonic()

    def answers(self, out: dict[Future, _T]) -> Iterator[tuple[_T, Any]]:
        """What is done, perhaps nothing yet: taken out, with its result or the `KilledWorker`."""
        try:
            done = wait(list(out), timeout=LOOK_S, return_when=FIRST_COMPLETED).done
        except TimeoutError:
            self.look()
            return
        for future in done:
            try:
                answer = future.result(timeout=ANSWER_S)
            except TimeoutError:
                # It was lost with its worker, and is computed again.
                self.look()
                continue
            except KilledWorker as error:
                answer = error
            self.last_seen = time.monotonic()
            yield out.pop(future), answer

    def look(self) -> None:
        if self.client.nthreads():
            self.last_seen = time.monotonic()
        elif time.monotonic() - self.last_seen > WITHOUT_WORKERS_S:
            raise FailedError(
                f"the Dask scheduler at {self.client.scheduler.address} has had no worker for "
                f"{WITHOUT_WORKERS_S:g} s"
            )


def run_sweep(
    client: Client,
    sweep: _corun.Sweep,
    pending: Sequence[int],
    *,
    batch: int | None = None,
    tell: Callable[[int], None] | None = None,
) -> None:
    """Does the tasks of a sweep on the workers; batches whose worker dies go to another.

    A task that takes its worker down again and again is stored as failed, and the others are kept.
    Raises :class:`~corun.errors.FailedError` when there has been no worker for ``WITHOUT_WORKERS_S``.
    """
    name = f"corun-sweep-{time.time_ns()}"
    threads = threads_of(client)
    size = batch or max(1, min(MOST_TASKS, len(pending) // (threads * 8)))
    waiting = _batches(pending, size)
    suspects: list[list[int]] = []
    out: dict[Future, list[int]] = {}
    patience = _Patience(client)
    with _plugin(client, _HoldsRunner(name, sweep.plan)):
        while True:
            while len(out) < AHEAD * threads and (tasks := next(waiting, None)) is not None:
                out[client.submit(_answer, name, tasks, pure=False)] = tasks
            if not out and suspects:
                # With nobody beside it: all that a worker holds when it dies are under suspicion.
                tasks = suspects.pop()
                out[client.submit(_answer, name, tasks, pure=False)] = tasks
            if not out:
                return
            alone = len(out) == 1 and len(next(iter(out.values()))) == 1
            for tasks, answer in patience.answers(out):
                if not isinstance(answer, KilledWorker):
                    sweep.add(answer)
                elif alone:
                    sweep.add_failed(tasks, f"its workers died, one after the other: {answer}")
                else:
                    suspects.extend([task] for task in tasks)
                    continue
                if tell is not None:
                    tell(len(tasks))


class Figures:
    """What a search on a cluster cost."""

    def __init__(self) -> None:
        #: Batches that workers looked into.
        self.batches = 0
        #: Batches that were lost with their worker.
        self.lost = 0
        #: Times that a worker's better placement was passed on to the others.
        self.tightened = 0
        #: Time that workers spent in batches, in seconds, all together.
        self.busy_s = 0.0
        #: Bytes of batches and of reports.
        self.bytes_out = 0
        self.bytes_in = 0
        #: Nodes visited and nodes that a bound cut.
        self.nodes = 0
        self.pruned = 0


def run_search(
    client: Client,
    search: _corun.SharedSearch,
    *,
    time_limit_s: float | None = None,
    tell: Callable[[Figures], None] | None = None,
) -> tuple[str, Figures]:
    """Searches the best placement on the workers; the document as JSON, and what it cost.

    ``tell`` hears after every batch what it has cost so far.

    Every worker has a batch of parts of the tree and gives back what it has not looked into after a
    slice of time, so that nobody is without work while others have plenty. A better placement is
    told to all workers at once.
    """
    name = f"corun-search-{search.hash}-{time.time_ns()}"
    threads = threads_of(client)
    figures = Figures()
    out: dict[Future, int] = {}
    began = time.monotonic()
    patience = _Patience(client)
    with _plugin(client, _HoldsSearcher(name, search.question)), _passing_on(
        client, name, search, figures
    ):
        while not search.done:
            while len(out) < threads + 1:
                next_batch = search.next_batch()
                if next_batch is None:
                    break
                number, batch = next_batch
                figures.bytes_out += len(batch)
                # Not again by itself: its parts go to whoever is free.
                future = client.submit(_work, name, batch, pure=False, retries=0)
                out[future] = number
            if not out:
                continue
            is_over = time_limit_s is not None and time.monotonic() - began > time_limit_s
            if is_over:
                break
            for number, answer in patience.answers(out):
                if isinstance(answer, KilledWorker):
                    figures.lost += 1
                    search.lost(number)
                    if figures.lost > MOST_LOST:
                        raise FailedError(
                            f"{figures.lost} batches took their workers down: {answer}"
                        )
                    continue
                report, busy_s = answer
                figures.batches += 1
                figures.busy_s += busy_s
                figures.bytes_in += len(report)
                search.finish(report)
                if tell is not None:
                    tell(figures)
        client.cancel(list(out))
    document, figures.nodes, figures.pruned = search.answer()
    return document, figures


@contextlib.contextmanager
def _passing_on(
    client: Client, name: str, search: _corun.SharedSearch, figures: Figures
) -> Iterator[None]:
    """Passes on what a worker finds: by the scheduler's events, which need no polling."""
    heard: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def hear(event: tuple[float, bytes]) -> None:
        heard.put(event[1])

    def pass_on() -> None:
        while (news := heard.get()) is not None:
            search.tighten(news)
            figures.tightened += 1
            with contextlib.suppress(Exception):
                # A worker that is gone needs no news, and the next batch has them anyway.
                client.run(_tighten, name, news, on_error="ignore")

    client.subscribe_topic(name, hear)
    thread = threading.Thread(target=pass_on, name="corun-news", daemon=True)
    thread.start()
    try:
        yield
    finally:
        client.unsubscribe_topic(name)
        heard.put(None)
        # It may be telling a worker that is gone, which takes long and matters to nobody any more.
        thread.join(timeout=LOOK_S)


def _place(address: str, question: dict[str, Any]) -> dict[str, Any]:
    """Answers what ``corun place --dask`` asks."""
    from corun.questions import place

    options = {key: value for key, value in question["options"].items() if value is not None}
    found = place(
        question["apps"],
        question["policy"],
        machine=_corun.Machine.from_toml(question["machine"]),
        profiles=[_corun.Profile.from_toml(text) for text in question["profiles"]],
        objective=question["objective"],
        time_limit_s=question["time_limit_s"],
        options=_corun.ModelOptions(**options),
        dask=address,
    )
    wanted = ("cpu", "gap", "proven", "solver_seconds")
    return {key: found.document[key] for key in wanted}


def main(words: Sequence[str] | None = None) -> int:
    """What the command starts."""
    parser = argparse.ArgumentParser(prog="python3 -m corun.dask", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    sweep = commands.add_parser("sweep", help="a sweep's description")
    sweep.add_argument("description")
    sweep.add_argument("--out", required=True, help="folder of the results")
    sweep.add_argument("--batch", type=int, help="tasks that a worker is sent at a time")
    place = commands.add_parser("place", help="a question as JSON on stdin")
    for command in (sweep, place):
        command.add_argument("--address", required=True, help="scheduler's address, or `local`")
    given = parser.parse_args(words)
    try:
        if given.command == "sweep":
            from corun.sweeps import sweep as run

            run(
                given.description,
                given.out,
                dask=given.address,
                batch=given.batch,
                progress=True,
            )
        else:
            json.dump(_place(given.address, json.load(sys.stdin)), sys.stdout)
    except KeyboardInterrupt:
        return 130
    except InputError as error:
        print(f"corun: {error}", file=sys.stderr)
        return 2
    except (Error, OSError) as error:
        print(f"corun: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
