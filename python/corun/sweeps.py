"""Many questions at once: machines x mixes x policies x seeds, with results in Parquet."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from corun import _corun
from corun.documents import json_of

if TYPE_CHECKING:
    from distributed import Client

#: A description file, or a description as a mapping with the same keys.
DescriptionLike = str | os.PathLike[str] | Mapping[str, Any]


class SweepResult:
    """What came out of a sweep."""

    def __init__(self, native: _corun.Sweep, out: Path, failed: int) -> None:
        self._native = native
        #: The folder of the results.
        self.folder = out
        #: The Parquet file with one row a run or bound, in the order of the description.
        self.path = out / "results.parquet"
        #: How many rows have an ``error`` instead of figures.
        self.failed = failed

    @property
    def rows(self) -> pd.DataFrame:
        """All rows; slowdowns are completion time beside others / alone."""
        rows = json.loads(self._native._rows)
        frame = pd.DataFrame(rows)
        if rows:
            # A bound has no seed, and a float would not tell large seeds apart.
            frame["seed"] = pd.array([row["seed"] for row in rows], dtype="UInt64")
        return frame

    @property
    def summary(self) -> pd.DataFrame:
        """A row a machine and policy: means over mixes and seeds, and how many failed."""
        return pd.DataFrame(json.loads(self._native._summary))

    @property
    def left_out(self) -> list[str]:
        """Policies that are not for a machine, with the reason."""
        return self._native.unfit

    def __repr__(self) -> str:
        return f"<corun.SweepResult: {self.path}, {self.failed} failed>"


def sweep(
    description: DescriptionLike,
    out: str | os.PathLike[str],
    *,
    jobs: int = 0,
    dask: Client | str | None = None,
    batch: int | None = None,
    progress: Callable[[int, int], None] | bool = False,
) -> SweepResult:
    """Asks every machine with every mix, policy and seed.

    What ``out`` holds from earlier is not computed again: tasks are known by a hash of all their
    inputs. A task that fails has a row with its ``error``, and is tried again the next time. The same
    inputs give the same bytes, wherever and in whatever order they are computed.

    Parameters
    ----------
    description
        A TOML file (docs/scaling.md), or a mapping with the same keys. Paths in it are relative to
        the file, or to the working directory.
    out
        The folder of the results, made where it is not.
    jobs
        Threads on this machine at most, up to 4096; 0: one a core.
    dask
        A Dask client, or a scheduler's address: the tasks are done by its workers.
    batch
        Tasks of one Dask task; None: chosen, so that Dask's own work is small beside them.
    progress
        Called with the numbers of tasks done and in all, or True for a progress bar on stderr where
        that is a terminal: tqdm's where it is installed, else a line with the numbers.

    Raises
    ------
    InputError
        A description with mistakes; a Dask address that does not answer; workers with another
        version of corun.
    """
    out = Path(out)
    if isinstance(description, Mapping):
        native = _corun.Sweep.of_json(json_of(description, "the description"), Path.cwd(), out)
    else:
        path = Path(description)
        native = _corun.Sweep.of_file(path, path.parent, out)
    pending = native.pending()
    tell = _teller(progress, native.tasks, native.tasks - len(pending))
    try:
        if dask is None:
            native.run_here(pending, jobs, tell)
        else:
            from corun.dask import connected, run_sweep

            with connected(dask) as client:
                run_sweep(client, native, pending, batch=batch, tell=tell)
    finally:
        native.flush()
    return SweepResult(native, out, native.finish())


def _teller(
    progress: Callable[[int, int], None] | bool, tasks: int, done: int
) -> Callable[[int], None] | None:
    if progress is False:
        return None

    show = _bar(tasks, done) if progress is True else progress
    if show is None:
        return None

    def tell(more: int) -> None:
        nonlocal done
        done += more
        show(done, tasks)

    return tell


def _bar(tasks: int, done: int) -> Callable[[int, int], None] | None:
    """Shows how far it is on stderr; None where that is no terminal."""
    if not sys.stderr.isatty():
        return None
    try:
        from tqdm import tqdm
    except ImportError:

        def line(done: int, tasks: int) -> None:
            end = "\n" if done == tasks else "\r"
            print(f"{done} of {tasks} tasks", end=end, file=sys.stderr, flush=True)

        return line
    bar = tqdm(total=tasks, initial=done, unit="task", file=sys.stderr)

    def show(done: int, tasks: int) -> None:
        bar.update(done - bar.n)
        if done == tasks:
            bar.close()

    return show
