"""The native part of corun. Documents cross as JSON text; `corun` reads them."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__version__: str

class Machine:
    """A machine: packages, nodes, caches, cores and CPUs, and who shares what.

    ``Machine(name)`` is a preset (:func:`presets`), a machine file (docs/machine-file.md), or
    ``"this"`` machine.
    """

    def __init__(self, name: str) -> None: ...
    @staticmethod
    def from_toml(text: str, file: str = "machine.toml") -> Machine:
        """The machine that a machine file's text describes; `file` is named in errors."""
    @staticmethod
    def discover(root: str | os.PathLike[str]) -> Machine:
        """The machine below a folder with ``sys/`` and ``proc/``."""
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def cpus(self) -> list[int]:
        """The CPUs' numbers, as the operating system has them."""
    @property
    def warnings(self) -> list[str]:
        """What is assumed rather than known, in words."""
    def tree(self, *, full: bool = False) -> str:
        """The tree as indented text; equal objects are folded unless `full`."""
    def to_toml(self) -> str:
        """The machine as a machine file."""
    @property
    def _document(self) -> str: ...
    @property
    def _llcs(self) -> str: ...

def presets() -> list[str]:
    """The names of the machines that corun ships."""

class Profile:
    """A program as corun knows it: its miss-rate curve and what it does beside missing."""

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Profile:
        """Reads a profile file (docs/profile-file.md)."""
    @staticmethod
    def from_toml(text: str, file: str = "profile.toml") -> Profile:
        """The profile of a profile file's text; `file` is named in errors."""
    def to_toml(self) -> str:
        """The profile as a profile file."""
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a profile file."""
    @property
    def name(self) -> str: ...
    @property
    def instructions(self) -> int:
        """Its length in instructions."""
    @property
    def footprint_bytes(self) -> int | None:
        """Distinct bytes touched; None where it was not recorded."""
    @property
    def sizes_bytes(self) -> list[int]:
        """The cache sizes in bytes at which the profile has figures, ascending."""
    def mpki(self, bytes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Misses per 1000 instructions alone with caches of these sizes in bytes; shape (n,)."""

class Library:
    """Profiles by name: the shipped ones, or those of a folder, a file or a CSV table."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None: ...
    @staticmethod
    def of(profiles: Sequence[Profile], *, shipped: bool = False) -> Library:
        """A library of these profiles, and of the shipped ones where `shipped`."""
    def names(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: str) -> bool: ...
    def __getitem__(self, name: str) -> Profile: ...

class Mix:
    """Which programs run together, and how.

    Parameters
    ----------
    apps
        Names of profiles, :class:`Profile` objects, or mappings with the keys of an ``[[app]]``
        of a mix file (docs/mix-file.md): ``{"profile": "xz", "count": 2, "start_s": 1.0}``.
    machine
        A preset or a machine file, where ``compare`` is told of none.
    seeds
        Runs a policy, where ``compare`` is told of no other number.
    method
        ``restart-3``, ``window`` or ``first-run`` (docs/mix-file.md).
    """

    def __init__(
        self,
        apps: Sequence[str | Profile | Mapping[str, Any]],
        *,
        machine: str | None = None,
        seeds: int | None = None,
        method: str = "restart-3",
    ) -> None: ...
    @staticmethod
    def load(path: str | os.PathLike[str]) -> Mix:
        """Reads a mix file."""
    @staticmethod
    def from_toml(text: str, file: str = "mix.toml") -> Mix:
        """The mix of a mix file's text; `file` is named in errors."""
    def to_toml(self) -> str:
        """The mix as a mix file."""
    @property
    def names(self) -> list[str]:
        """The programs' shown names, copies once."""
    @property
    def threads(self) -> int:
        """Threads of all programs and copies together."""
    @property
    def machine(self) -> str | None: ...
    @property
    def seeds(self) -> int | None: ...
    @staticmethod
    def _from_json(text: str) -> Mix: ...

class ModelOptions:
    """How slowdowns are computed (docs/model.md).

    Parameters
    ----------
    space
        How a shared cache divides: ``fill-time``, ``proportional``, ``whirlpool`` or
        ``whirlpool-mpki``.
    bandwidth
        What limited bandwidth costs: ``none``, ``simple``, ``morad``, ``stalls`` or ``additive``.
    peak_mb_per_s
        Peak of each memory controller in MB/s, instead of the machine's.
    solo_peak_share
        Share of a peak that a program alone draws at most, above 0 and below 1.
    compat
        ``pbbcache``: compute as the public simulator PBBCache does.
    """

    def __init__(
        self,
        *,
        space: str | None = None,
        bandwidth: str | None = None,
        peak_mb_per_s: float | None = None,
        solo_peak_share: float | None = None,
        compat: str | None = None,
    ) -> None: ...
    @property
    def space(self) -> str: ...
    @property
    def bandwidth(self) -> str: ...
    @property
    def compat(self) -> str: ...
    @property
    def peak_mb_per_s(self) -> float | None: ...
    @property
    def solo_peak_share(self) -> float | None: ...

class Comparison:
    @property
    def _document(self) -> str: ...
    @property
    def policies(self) -> list[str]: ...
    def run(self, policy: int, seed: int) -> Run | None: ...

class Run:
    @property
    def policy(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def machine(self) -> Machine: ...
    @property
    def _document(self) -> str: ...
    @property
    def _time_line(self) -> str: ...

def compare(
    mix: Mix | None,
    machine: Machine | None,
    library: Library,
    policies: Sequence[str] | None,
    seeds: int | None,
    instructions: int | None,
    options: ModelOptions | None,
    time_limit_s: float,
) -> Comparison: ...
def simulate(
    policy: str,
    mix: Mix | None,
    machine: Machine | None,
    library: Library,
    seed: int,
    instructions: int | None,
    options: ModelOptions | None,
) -> Run: ...
def place(
    apps: Sequence[str],
    policy: str,
    machine: Machine,
    library: Library,
    objective: str,
    seed: int,
    time_limit_s: float | None,
    options: ModelOptions | None,
) -> str: ...
def predict(
    apps: Sequence[str],
    cpus: Sequence[int],
    machine: Machine,
    library: Library,
    options: ModelOptions | None,
) -> str: ...
def partition(
    wanted: Any, machine: Machine, library: Library, options: ModelOptions | None
) -> str: ...

class Sweep:
    """A sweep with all that it needs, and its results' folder."""

    @staticmethod
    def of_file(
        path: str | os.PathLike[str], folder: str | os.PathLike[str], out: str | os.PathLike[str]
    ) -> Sweep: ...
    @staticmethod
    def of_json(
        text: str, folder: str | os.PathLike[str], out: str | os.PathLike[str]
    ) -> Sweep: ...
    @property
    def plan(self) -> bytes: ...
    @property
    def tasks(self) -> int: ...
    @property
    def unfit(self) -> list[str]: ...
    def pending(self) -> list[int]: ...
    def run_here(
        self, pending: list[int], jobs: int, tell: Callable[[int], None] | None
    ) -> None: ...
    def add(self, answers: bytes) -> int: ...
    def add_failed(self, tasks: list[int], why: str) -> None: ...
    def flush(self) -> None: ...
    def finish(self) -> int: ...
    @property
    def _rows(self) -> str: ...
    @property
    def _summary(self) -> str: ...

class SweepRunner:
    """Does tasks of a plan, in whatever process."""

    def __init__(self, plan: bytes) -> None: ...
    def answer(self, tasks: list[int]) -> bytes: ...
    def stop(self) -> None: ...

class SharedSearch:
    """Who coordinates a search for the best placement by several processes."""

    def __init__(
        self,
        apps: list[str],
        policy: str,
        machine: Machine,
        library: Library,
        objective: str,
        workers: int,
        slice_s: float,
        options: ModelOptions | None,
    ) -> None: ...
    @property
    def question(self) -> bytes: ...
    @property
    def hash(self) -> str: ...
    def next_batch(self) -> tuple[int, bytes] | None: ...
    def finish(self, report: bytes) -> None: ...
    def lost(self, id: int) -> None: ...
    def tighten(self, news: bytes) -> None: ...
    @property
    def done(self) -> bool: ...
    @property
    def parts_open(self) -> int: ...
    def answer(self) -> tuple[str, int, int]: ...

class Searcher:
    """A worker of a search."""

    def __init__(self, question: bytes, hear: Callable[[bytes], None]) -> None: ...
    def work(self, batch: bytes) -> bytes: ...
    def tighten(self, news: bytes) -> None: ...
    def stop(self) -> None: ...
