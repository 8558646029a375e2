"""Policies of your own: subclass :class:`Policy`.

A policy sees a :class:`View` (the machine, the threads, what was counted) and answers with a
:class:`Plan`: actions, each with its reason. The same object runs in the simulator
(:func:`corun.compare`, :func:`corun.simulate`, :func:`corun.place`) and, without acting, over real
threads (:func:`corun.dry_run`).
"""

from __future__ import annotations

import copy
import ctypes
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Union

if TYPE_CHECKING:
    from corun._corun import Event, Machine, View


@dataclass(frozen=True)
class Needs:
    """What a policy needs of its host. A host that lacks one refuses to start it and says why."""

    #: Seconds between two decisions; None: it acts on events alone.
    interval_s: float | None = 1.0
    #: Counters it cannot do without: ``instructions``, ``cycles``, ``llc-references``,
    #: ``llc-misses``, ``l1-accesses``, ``branches``, ``memory-bytes``, ``memory-stalls``,
    #: ``memory-retries``, ``llc-occupancy``.
    counters: Sequence[str] = ()
    #: Kinds of action it takes: ``place``, ``partition``, ``cap-bandwidth``, ``move-pages``,
    #: ``idle-cpu``, ``set-weight``, ``order-slots``.
    controls: Sequence[str] = ("place",)
    #: Does it need each thread's solo figures (``thread.solo``)?
    solo_figures: bool = False
    #: Does it need each thread's figures by ways (``thread.by_ways``)?
    by_ways: bool = False


@dataclass(frozen=True)
class Allow:
    """Hold a thread on these CPUs, within what its user allowed (kind ``place``)."""

    thread: int
    cpus: Iterable[int]


@dataclass(frozen=True)
class Swap:
    """Exchange the places of two threads (kind ``place``)."""

    first: int
    second: int


@dataclass(frozen=True)
class PartitionLlc:
    """Partition an LLC: pairs of a mask (bit i: way i) and the threads that use these ways.

    No parts: the whole again (kind ``partition``).
    """

    llc: int
    parts: Sequence[tuple[int, Iterable[int]]]


@dataclass(frozen=True)
class CapBandwidth:
    """Cap the memory traffic of threads together, in MB/s; None lifts it (``cap-bandwidth``)."""

    threads: Iterable[int]
    mb_per_s: float | None


@dataclass(frozen=True)
class MovePages:
    """Move a thread's pages to a NUMA node, an index in ``machine.nodes`` (``move-pages``)."""

    thread: int
    node: int


@dataclass(frozen=True)
class IdleCpu:
    """Keep a CPU idle for so many seconds (``idle-cpu``)."""

    cpu: int
    duration_s: float


@dataclass(frozen=True)
class SetWeight:
    """Change a thread's weight (1 is that of nice 0) until a moment; None: for good."""

    thread: int
    weight: float
    until_s: float | None = None


@dataclass(frozen=True)
class OrderSlots:
    """Run these threads on a CPU in this order, over and over: a slot of CPU time each.

    Its name among controls is ``order-slots``.
    """

    cpu: int
    threads: Sequence[int]
    slot_s: float


Action = Union[
    Allow, Swap, PartitionLlc, CapBandwidth, MovePages, IdleCpu, SetWeight, OrderSlots
]


@dataclass
class Plan:
    """A list of steps, to be carried out in order. Empty: leave all as it is."""

    steps: list[tuple[Action, str]] = field(default_factory=list)

    def push(self, action: Action, reason: str) -> None:
        """Adds a step with its reason, in words a person can read."""
        self.steps.append((action, reason))


class Policy:
    """Decides who goes where next. Subclass it, and give it at least a ``decide``.

    Each run gets a deep copy of the object (or a new object of the class) that was given, whose
    ``seed`` is the run's: state in ``self`` is the run's own, and random numbers come from the
    seed.
    """

    #: The name in tables; the class's in kebab-case where it is not given.
    name: ClassVar[str]
    #: What it needs of its host.
    needs: Needs = Needs()
    #: A call that takes longer, in seconds, ends the run. Code that waits outside of Python, such
    #: as ``time.sleep``, is ended when it comes back.
    time_limit_s: float = 10.0
    #: The run's seed.
    seed: int = 1

    def unfit_for(self, machine: Machine) -> str | None:
        """Why it cannot do its work on this machine, in words; None where it can."""
        return None

    def on_event(self, event: Event, view: View) -> Plan | None:
        """Something happened; may act at once. Not asked for where a class does not have it."""
        return None

    def decide(self, view: View) -> Plan | None:
        """Once an interval: what it sees, then what it wants."""
        raise NotImplementedError(f"{type(self).__name__} has no decide")

    def not_in_force(self, action: Action) -> None:
        """An action of its plans was refused, failed, or was taken back later by the host.

        A policy that remembers what it asked for forgets it here, and asks again if it still wants
        it. Its own exception ends the run, as one in ``decide`` does.
        """

    def next_interval_s(self) -> float | None:
        """Seconds until it wants to decide again; None: its interval."""
        return None


def _name_of(given: Any) -> str:
    own = given if isinstance(given, type) else type(given)
    if not issubclass(own, Policy):
        raise TypeError(
            f"{given!r} is no policy: expected a name, or an object or subclass of corun.Policy"
        )
    name = getattr(given, "name", None)
    if name is None:
        letters = (f"-{one.lower()}" if one.isupper() else one for one in own.__name__)
        name = "".join(letters).strip("-_")
    if not isinstance(name, str) or not name:
        raise TypeError(f"the name of {given!r} is {name!r}: expected a text")
    return name


def _fresh(given: Any, seed: int) -> Policy:
    policy = given() if isinstance(given, type) else copy.deepcopy(given)
    policy.seed = seed
    return policy


def _needs_of(policy: Policy) -> Needs:
    needs = policy.needs() if callable(policy.needs) else policy.needs
    if not isinstance(needs, Needs):
        raise TypeError(f"needs of {_name_of(policy)} is {needs!r}: expected a corun.Needs")
    return needs


def _has_own(policy: Policy, method: str) -> bool:
    return getattr(type(policy), method) is not getattr(Policy, method)


class TimeLimit(BaseException):
    """A policy's call took longer than its ``time_limit_s``."""


class _Watch:
    """Ends calls of policies that take too long, from a thread of its own."""

    def __init__(self) -> None:
        self._calls: dict[int, list[Any]] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._watcher: threading.Thread | None = None

    def begin(self, limit_s: float) -> None:
        with self._lock:
            self._calls[threading.get_ident()] = [time.monotonic() + limit_s, None]
            if self._watcher is None or not self._watcher.is_alive():
                self._watcher = threading.Thread(target=self._watch, daemon=True)
                self._watcher.start()
        self._wake.set()

    def end(self) -> None:
        with self._lock:
            _, raised = self._calls.pop(threading.get_ident())
            if raised is not None:
                # It may not have been delivered yet, and must not be later.
                _raise_in(threading.get_ident(), None)

    def interrupt_all(self) -> None:
        with self._lock:
            for thread, call in self._calls.items():
                call[1] = KeyboardInterrupt
                _raise_in(thread, KeyboardInterrupt)

    def _watch(self) -> None:
        while True:
            with self._lock:
                now = time.monotonic()
                for thread, call in self._calls.items():
                    if call[1] is None and now >= call[0]:
                        call[1] = TimeLimit
                        _raise_in(thread, TimeLimit)
                idle = not self._calls
                if idle:
                    self._wake.clear()
            if idle:
                self._wake.wait()
            time.sleep(0.02)


def _raise_in(thread: int, exception: type[BaseException] | None) -> None:
    raised = None if exception is None else ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


_WATCH = _Watch()


def _interrupt_all() -> None:
    _WATCH.interrupt_all()


def _ask(policy: Policy, method: str, *arguments: Any) -> Any:
    """Calls a policy's method, and holds it to its time."""
    _WATCH.begin(policy.time_limit_s)
    try:
        try:
            return getattr(policy, method)(*arguments)
        finally:
            _WATCH.end()
    except TimeLimit:
        raise TimeoutError(
            f"{method} did not return within {policy.time_limit_s:g} s (time_limit_s)"
        ) from None
