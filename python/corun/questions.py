"""The questions: compare, simulate, place, predict, partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Union

from corun import _corun
from corun.mixes import (
    MachineLike,
    MixLike,
    ProfilesLike,
    library_of,
    machine_of,
    machine_or_none,
    mix_of,
    names_of,
)
from corun.policies import Policy
from corun.results import Comparison, Partition, Placement, Run

if TYPE_CHECKING:
    from distributed import Client

#: A policy by name, an object, or a class.
PolicyLike = Union[str, Policy, type[Policy]]

#: The machine of a question about placements that names none.
DEFAULT_MACHINE = "xeon-x5365"

#: A worker gives back what it has not looked into after so many seconds.
SLICE_S = 1.0

#: The machine of a question about partitions that names none.
PARTITION_MACHINE = "xeon-gold-6138"


def compare(
    mix: MixLike | None = None,
    *,
    machine: MachineLike | None = None,
    profiles: ProfilesLike | None = None,
    policies: Sequence[PolicyLike] | None = None,
    seeds: int | None = None,
    instructions: int | None = None,
    options: _corun.ModelOptions | None = None,
    time_limit_s: float = 60.0,
    as_live: str | None = None,
    objective: str = "antt",
) -> Comparison:
    """Policies side by side on a simulated machine, with the best and the worst placement.

    Parameters
    ----------
    mix
        The programs: names, :class:`Profile` objects, a :class:`Mix`, or a mix file. None: eight
        programs of the library.
    machine
        A :class:`Machine`, a preset, a machine file, or ``"this"``. None: the mix's, else
        ``xeon-x5365``.
    profiles
        Where names are looked up: a :class:`Library`, a folder or file, or :class:`Profile`
        objects. None: the library that corun ships.
    policies
        Names of policies, one name, or policies of your own: objects or subclasses of :class:`Policy`.
        ``dio+lfoc`` places by the one and partitions by the other. None: all of the names that
        place and are for the machine.
    seeds
        Each experiment is repeated with the seeds 1 to this. None: the mix's, else 10.
    instructions
        Length of each program's run where the mix does not say. None: 150e9, or the profile's
        where the mix is a file.
    options
        How slowdowns are computed.
    time_limit_s
        The searches for the best and for the worst placement end after so many seconds each and
        give what they found so far.
    as_live
        Policies see the machine as poorly as on a real one, with these settings: ``""`` or
        ``"refused=0.2,noise=0.05"`` (docs/simulator.md). None: they see everything.
    objective
        By what the bounds are the best and the worst, and how far above the best the policies are; as of :func:`place`.

    Raises
    ------
    InputError
        A name that is not known, a file with mistakes, a policy that is not for the machine.
    PolicyError
        A policy raised, did not return, or asked for what cannot be done.
    """
    native = _corun.compare(
        mix_of(mix),
        machine_or_none(machine),
        library_of(profiles, mix),
        [policies] if isinstance(policies, str) else None if policies is None else list(policies),
        seeds,
        instructions,
        options,
        time_limit_s,
        as_live,
        objective,
    )
    return Comparison(native)


def simulate(
    policy: PolicyLike,
    mix: MixLike | None = None,
    *,
    machine: MachineLike | None = None,
    profiles: ProfilesLike | None = None,
    seed: int = 1,
    instructions: int | None = None,
    options: _corun.ModelOptions | None = None,
    as_live: str | None = None,
) -> Run:
    """One run of a policy; parameters as of :func:`compare`.

    The run holds where every thread was when, and what the policy did and why. With seeds above 1
    where threads were is not kept.
    """
    native = _corun.simulate(
        policy,
        mix_of(mix),
        machine_or_none(machine),
        library_of(profiles, mix),
        seed,
        instructions,
        options,
        as_live,
    )
    return Run(native)


def place(
    apps: Sequence[str | _corun.Profile],
    policy: PolicyLike = "optimal",
    *,
    machine: MachineLike = DEFAULT_MACHINE,
    profiles: ProfilesLike | None = None,
    objective: str = "antt",
    target_slowdown: float | None = None,
    seed: int = 1,
    time_limit_s: float | None = None,
    options: _corun.ModelOptions | None = None,
    dask: Client | str | None = None,
) -> Placement:
    """One placement of programs, each on a CPU of its own.

    Parameters
    ----------
    apps
        Names or :class:`Profile` objects; a program may be named several times.
    policy
        A policy that places, by name or your own, or ``optimal`` or ``worst``, or
        ``optimal-cluster``, which also clusters the ways of each LLC.
    objective
        What ``optimal`` optimises: ``antt`` (least mean slowdown), ``stp`` (highest sum of
        1 / slowdown), ``max-slowdown``, ``unfairness``, or on machines with power figures ``energy``
        (least energy above idle for the work done) or ``energy-delay`` (the same times the delay).
    target_slowdown
        Keeps everybody to this slowdown: ``optimal``, and policies that know such a target; and says
        who is slower (``slower_than_target``). None: no such target. Not with ``dask``.
    seed
        Seed of the policies that draw at random.
    time_limit_s
        A search ends after so many seconds and gives the best found. None: no limit.
    dask
        A Dask client, or a scheduler's address: its workers search ``optimal`` (or ``worst``) in
        parts, with the same answer.
    """
    if dask is not None:
        if target_slowdown is not None:
            raise ValueError("target_slowdown: workers of dask search without one")
        from corun.dask import connected, run_search, threads_of

        with connected(dask) as client:
            search = _corun.SharedSearch(
                names_of(apps),
                policy if isinstance(policy, str) else getattr(policy, "name", repr(policy)),
                machine_of(machine),
                library_of(profiles, apps),
                objective,
                threads_of(client),
                SLICE_S,
                options,
            )
            return Placement(run_search(client, search, time_limit_s=time_limit_s)[0])
    document = _corun.place(
        names_of(apps),
        policy,
        machine_of(machine),
        library_of(profiles, apps),
        objective,
        target_slowdown,
        seed,
        time_limit_s,
        options,
    )
    return Placement(document)


def predict(
    apps: Sequence[str | _corun.Profile],
    cpus: Sequence[int],
    *,
    machine: MachineLike = DEFAULT_MACHINE,
    profiles: ProfilesLike | None = None,
    options: _corun.ModelOptions | None = None,
) -> Placement:
    """The slowdowns of a given placement: for each program the CPU (the machine's own number)."""
    document = _corun.predict(
        names_of(apps), list(cpus), machine_of(machine), library_of(profiles, apps), options
    )
    return Placement(document)


def partition(
    apps: Sequence[str | _corun.Profile],
    policy: str | None = None,
    *,
    masks: Sequence[int] = (),
    allow_overlap: bool = False,
    all: bool = False,  # noqa: A002 - the command's option
    cluster: bool = False,
    objective: str = "stp",
    machine: MachineLike = PARTITION_MACHINE,
    profiles: ProfilesLike | None = None,
    ways: int | None = None,
    min_ways: int | None = None,
    parameters: Mapping[str, float | str] | None = None,
    seed: int = 1,
    time_limit_s: float | None = None,
    options: _corun.ModelOptions | None = None,
) -> Partition:
    """Who has which ways of the machine's first LLC.

    Parameters
    ----------
    apps
        Names or :class:`Profile` objects; a program may be named several times.
    policy
        A partitioning policy, or ``optimal`` or ``worst``.
    masks
        Given ways instead of a policy, for each program a mask such as ``0x7c``.
    allow_overlap
        Given masks may overlap.
    all
        All policies and optima side by side.
    cluster
        The optimum may let programs share the ways of a cluster.
    objective
        ``stp``, ``unfairness``, ``antt``, ``max-slowdown``, ``jain`` or ``bandwidth``.
    ways, min_ways
        Ways of the LLC and the fewest of a part. None: the machine's.
    parameters
        The policies' parameters (docs/partitioning.md): numbers, or names of choices (``{"overlap": "off"}``).
    """
    wanted = SimpleNamespace(
        apps=names_of(apps),
        policy=policy,
        masks=list(masks),
        allow_overlap=allow_overlap,
        all=all,
        cluster=cluster,
        objective=objective,
        ways=ways,
        min_ways=min_ways,
        set=list((parameters or {}).items()),
        seed=seed,
        time_limit_s=time_limit_s,
    )
    library = library_of(profiles, apps)
    return Partition(_corun.partition(wanted, machine_of(machine), library, options))
