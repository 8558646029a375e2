"""The native part of corun. Documents cross as JSON text; `corun` reads them."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

__all__ = [
    "Comparison",
    "Counted",
    "Counters",
    "Event",
    "Library",
    "Llc",
    "Machine",
    "Mix",
    "Model",
    "ModelOptions",
    "Node",
    "Profile",
    "Run",
    "Searcher",
    "SharedSearch",
    "SoloFigures",
    "Sweep",
    "SweepRunner",
    "Thread",
    "View",
    "WaysPoint",
    "__version__",
    "check_policy",
    "compare",
    "dry_run",
    "partition",
    "place",
    "predict",
    "presets",
    "simulate",
]

__version__: str

@final
class Machine:
    """A machine: packages, nodes, caches, cores and CPUs, and who shares what.

    ``Machine(name)`` is a preset (:func:`presets`), a machine file (docs/machine-file.md), or
    ``"this"`` machine.
    """

    def __new__(cls, name: str) -> Self: ...
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
    def llcs(self) -> list[Llc]:
        """The last-level caches, in the order of their indices."""
    @property
    def nodes(self) -> list[Node]:
        """The NUMA nodes, in the order of their indices."""
    def llc_of(self, cpu: int) -> int:
        """The index of the LLC of a CPU (its number)."""
    @property
    def _document(self) -> str: ...

@final
class Llc:
    """A last-level cache and the CPUs that share it."""

    @property
    def index(self) -> int:
        """Its place in ``machine.llcs``; what actions and tables call it."""
    @property
    def cpus(self) -> list[int]:
        """The CPUs' numbers."""
    @property
    def size_bytes(self) -> int | None: ...
    @property
    def ways(self) -> int | None: ...

@final
class Node:
    """A NUMA node."""

    @property
    def index(self) -> int:
        """Its place in ``machine.nodes``."""
    @property
    def os_index(self) -> int:
        """Its number."""
    @property
    def cpus(self) -> list[int]:
        """The CPUs' numbers; empty for memory without CPUs."""

def presets() -> list[str]:
    """The names of the machines that corun ships."""

@final
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
    def mpki(self, bytes: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Misses per 1000 instructions alone with caches of these sizes in bytes, each above 0; shape (n,)."""

@final
class Library:
    """Profiles by name: the shipped ones, or those of a folder, a file or a CSV table."""

    def __new__(cls, path: str | os.PathLike[str] | None = None) -> Self: ...
    @staticmethod
    def of(profiles: Sequence[Profile], *, shipped: bool = False) -> Library:
        """A library of these profiles, and of the shipped ones where `shipped`."""
    @staticmethod
    def read_csv(path: str | os.PathLike[str], machine: Machine | None = None) -> Library:
        """The programs of a CSV of solo figures by ways; see :func:`corun.read_csv`."""
    def _to_csv(self, names: Sequence[str], machine: Machine) -> str: ...
    def names(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...
    def __contains__(self, name: str, /) -> bool: ...
    def __getitem__(self, name: str, /) -> Profile: ...

@final
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

    def __new__(
        cls,
        apps: Sequence[str | Profile | Mapping[str, Any]],
        *,
        machine: str | None = None,
        seeds: int | None = None,
        method: str = "restart-3",
    ) -> Self: ...
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

@final
class ModelOptions:
    """How slowdowns are computed (docs/model.md).

    Parameters
    ----------
    space
        How a shared cache divides: ``fill-time``, ``proportional``, ``whirlpool`` or
        ``whirlpool-mpki``.
    bandwidth
        What limited bandwidth costs: ``none``, ``simple``, ``morad``, ``stalls``, ``additive``,
        ``loaded`` or ``by-machine`` (``loaded`` where latency under load was measured, else ``additive``).
    peak_mb_per_s
        Peak of each memory controller in MB/s, instead of the machine's.
    solo_peak_share
        Share of a peak that a program alone draws at most, above 0 and below 1.
    compat
        ``pbbcache``: compute as the public simulator PBBCache does.
    """

    def __new__(
        cls,
        *,
        space: str | None = None,
        bandwidth: str | None = None,
        peak_mb_per_s: float | None = None,
        solo_peak_share: float | None = None,
        compat: str | None = None,
    ) -> Self: ...
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
    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, str | float | None]]: ...

@final
class Comparison:
    @property
    def _document(self) -> str: ...
    @property
    def policies(self) -> list[str]: ...
    def run(self, policy: int, seed: int) -> Run | None: ...
    def _long(self, workload: str) -> str: ...
    def _trace(self, policies: Sequence[int]) -> str: ...

@final
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
    @property
    def _trace(self) -> str: ...

def compare(
    mix: Mix | None,
    machine: Machine | None,
    library: Library,
    policies: Sequence[Any] | None,
    seeds: int | None,
    instructions: int | None,
    options: ModelOptions | None,
    time_limit_s: float,
    as_live: str | None,
    objective: str,
) -> Comparison: ...
def simulate(
    policy: Any,
    mix: Mix | None,
    machine: Machine | None,
    library: Library,
    seed: int,
    instructions: int | None,
    options: ModelOptions | None,
    as_live: str | None,
) -> Run: ...
def place(
    apps: Sequence[str],
    policy: Any,
    machine: Machine,
    library: Library,
    objective: str,
    target_slowdown: float | None,
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

@final
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

@final
class SweepRunner:
    """Does tasks of a plan, in whatever process."""

    def __new__(cls, plan: bytes) -> Self: ...
    def answer(self, tasks: list[int]) -> bytes: ...
    def stop(self) -> None: ...

@final
class SharedSearch:
    """Who coordinates a search for the best placement by several processes."""

    def __new__(
        cls,
        apps: list[str],
        policy: str,
        machine: Machine,
        library: Library,
        objective: str,
        workers: int,
        slice_s: float,
        options: ModelOptions | None,
    ) -> Self: ...
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

@final
class Searcher:
    """A worker of a search."""

    def __new__(cls, question: bytes, hear: Callable[[bytes], None]) -> Self: ...
    def work(self, batch: bytes) -> bytes: ...
    def tighten(self, news: bytes) -> None: ...
    def stop(self) -> None: ...

@final
class View:
    """All that a policy sees at one moment."""

    @property
    def machine(self) -> Machine: ...
    @property
    def threads(self) -> list[Thread]:
        """The threads that the host was told to schedule, by ascending id."""
    @property
    def now_s(self) -> float:
        """The time in s since the host started."""
    def thread(self, id: int) -> Thread | None:
        """A thread by its id; None where there is no such thread (any more)."""

@final
class Thread:
    """A thread as a policy sees it."""

    @property
    def id(self) -> int: ...
    @property
    def process(self) -> int: ...
    @property
    def program(self) -> str:
        """Its program's name."""
    @property
    def weight(self) -> float:
        """Its weight in the scheduler; 1 is that of nice 0."""
    @property
    def important(self) -> bool:
        """Did the user mark it as one to protect?"""
    @property
    def state(self) -> Literal["running", "runnable", "sleeping"]: ...
    @property
    def cpu(self) -> int | None:
        """Where it runs, or ran last; None before its first run."""
    @property
    def may_run_on(self) -> frozenset[int]:
        """Where the user allows it."""
    @property
    def allowed(self) -> frozenset[int]:
        """Where it is held now."""
    @property
    def counters(self) -> Counters:
        """What was counted since the last interval, as rates."""
    @property
    def counted(self) -> Counted:
        """What was counted since the thread came."""
    @property
    def spins_now(self) -> bool | None:
        """Does it wait for other threads in a loop on its CPU? None where nobody tells."""
    @property
    def spin_share(self) -> float | None:
        """Share of its CPU time since the last interval spent in such a loop, 0 to 1."""
    @property
    def solo(self) -> SoloFigures | None:
        """Known beforehand from a stored profile, for this machine."""
    @property
    def by_ways(self) -> list[WaysPoint] | None:
        """Alone with 1, 2, 3 .. ways of its LLC, for policies that need it."""
    @property
    def llc_occupancy_bytes(self) -> float | None: ...
    @property
    def pages_by_node(self) -> list[float]:
        """Share of its pages on each NUMA node; empty: unknown."""
    @property
    def woken_by(self) -> dict[int, int]:
        """How often each thread woke it, by the thread's id. Empty: none did, or nobody counts it."""

@final
class Counters:
    """Rates over the wall-clock time of the last interval. None is unknown, never zero."""

    @property
    def cpu_share(self) -> float | None:
        """Share of the interval on a CPU, 0 to 1."""
    @property
    def llc_misses_with_prefetch(self) -> bool | None:
        """Do the misses count hardware prefetches too?"""
    @property
    def llc_mpki(self) -> float | None:
        """LLC misses per 1000 instructions."""
    @property
    def llc_apki(self) -> float | None:
        """LLC references per 1000 instructions."""
    @property
    def llc_mpkc(self) -> float | None:
        """LLC misses per 1000 cycles."""
    @property
    def ipc(self) -> float | None:
        """Instructions per cycle."""
    # rates: made from the table of counters
    @property
    def instructions_per_s(self) -> float | None:
        """instructions retired."""
    @property
    def cycles_per_s(self) -> float | None:
        """core cycles."""
    @property
    def llc_references_per_s(self) -> float | None:
        """LLC references."""
    @property
    def llc_misses_per_s(self) -> float | None:
        """LLC misses: lines brought from memory."""
    @property
    def l1_accesses_per_s(self) -> float | None:
        """accesses to the L1 data cache."""
    @property
    def branches_per_s(self) -> float | None:
        """branches."""
    @property
    def memory_bytes_per_s(self) -> float | None:
        """bytes read from and written to memory."""
    @property
    def memory_stall_share(self) -> float | None:
        """core cycles stalled on memory."""
    @property
    def memory_retries_per_s(self) -> float | None:
        """memory requests sent again because the controller's buffer was full."""
    @property
    def context_switches_per_s(self) -> float | None:
        """times that a CPU was switched to the thread."""
    @property
    def wakeups_per_s(self) -> float | None:
        """times that the thread was woken."""
    @property
    def run_queue_wait_share(self) -> float | None:
        """time in which the thread could have run and waited for a CPU."""
    @property
    def idle_share(self) -> float | None:
        """time in which the thread neither ran nor waited for a CPU."""
    # end of rates

@final
class Counted:
    """Counts since the thread came. None is unknown, never zero."""

    @property
    def cpu_s(self) -> float | None: ...
    # counts: made from the table of counters
    @property
    def instructions(self) -> float | None:
        """instructions retired."""
    @property
    def cycles(self) -> float | None:
        """core cycles."""
    @property
    def llc_references(self) -> float | None:
        """LLC references."""
    @property
    def llc_misses(self) -> float | None:
        """LLC misses: lines brought from memory."""
    @property
    def l1_accesses(self) -> float | None:
        """accesses to the L1 data cache."""
    @property
    def branches(self) -> float | None:
        """branches."""
    @property
    def memory_bytes(self) -> float | None:
        """bytes read from and written to memory."""
    @property
    def memory_stall_cycles(self) -> float | None:
        """core cycles stalled on memory."""
    @property
    def memory_retries(self) -> float | None:
        """memory requests sent again because the controller's buffer was full."""
    @property
    def context_switches(self) -> float | None:
        """times that a CPU was switched to the thread."""
    @property
    def wakeups(self) -> float | None:
        """times that the thread was woken."""
    @property
    def run_queue_wait_ns(self) -> float | None:
        """time in which the thread could have run and waited for a CPU."""
    @property
    def idle_ns(self) -> float | None:
        """time in which the thread neither ran nor waited for a CPU."""
    # end of counts

@final
class SoloFigures:
    """Figures of a program alone on this machine."""

    @property
    def llc_mpki(self) -> float: ...
    @property
    def llc_apki(self) -> float: ...
    @property
    def instructions_per_s(self) -> float: ...
    @property
    def memory_bytes_per_s(self) -> float: ...
    @property
    def numa_penalty(self) -> float | None:
        """Cycles per instruction with all memory remote / local."""
    @property
    def speedup_factor(self) -> float | None:
        """Instructions a second on a core of the fastest type / of the slowest."""

@final
class WaysPoint:
    """Figures of a program alone with some ways of an LLC."""

    @property
    def slowdown(self) -> float:
        """Speed with all ways / speed with these."""
    @property
    def memory_stalls(self) -> float:
        """Share of cycles stalled on memory, 0 to 1."""
    @property
    def ipc(self) -> float: ...
    @property
    def llc_mpki(self) -> float: ...
    @property
    def llc_mpkc(self) -> float: ...
    @property
    def bytes_per_s(self) -> float: ...

@final
class Event:
    """Something that happened to a thread."""

    @property
    def kind(self) -> Literal["arrived", "exited", "slept", "woke", "switched"]: ...
    @property
    def thread(self) -> int | None:
        """The thread; None for ``switched``."""
    @property
    def on(self) -> list[int]:
        """Of ``switched``: threads that came onto CPUs."""
    @property
    def off(self) -> list[int]:
        """Of ``switched``: threads that went off their CPUs."""

@final
class Model:
    def __new__(
        cls,
        apps: Sequence[str],
        machine: Machine,
        library: Library,
        options: ModelOptions | None,
    ) -> Self: ...
    @property
    def names(self) -> list[str]: ...
    def solve(
        self, mixes: npt.NDArray[np.int64], cpus: npt.NDArray[np.int64]
    ) -> dict[str, npt.NDArray[np.float64]]: ...
    def rust_seconds(
        self, mixes: npt.NDArray[np.int64], cpus: npt.NDArray[np.int64]
    ) -> tuple[float, float]: ...

def dry_run(
    policy: Any,
    targets: Sequence[tuple[int, str, str]],
    library: Library,
    duration_s: float,
    interval_s: float | None,
    seed: int,
) -> str: ...
def check_policy(given: Any) -> None: ...
