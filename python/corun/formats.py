"""Formats that others read and write."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from corun import _corun
from corun.errors import InputError
from corun.mixes import MachineLike, machine_of, machine_or_none, names_of

#: The machine of the public table of solo figures, which does not name it.
TABLE_MACHINE = "xeon-gold-6138"


def read_csv(path: str | os.PathLike[str], *, machine: MachineLike | None = None) -> _corun.Library:
    """The programs of a CSV table of solo figures by LLC ways, as the public simulator PBBCache
    reads it.

    Parameters
    ----------
    machine
        The machine it was measured on. None: that of the public table, ``xeon-gold-6138``.
    """
    return _corun.Library.read_csv(os.fspath(path), machine_or_none(machine))


def write_csv(
    path: str | os.PathLike[str],
    programs: Sequence[str] | None = None,
    *,
    library: _corun.Library | None = None,
    machine: MachineLike = TABLE_MACHINE,
) -> None:
    """Writes such a table of a library's programs (None: all). What was measured on the machine
    stays as it stands; all else is what the model says of it there."""
    library = library or _corun.Library()
    names = library.names() if programs is None else names_of(programs, "programs")
    Path(path).write_text(library._to_csv(names, machine_of(machine)))


def read_workloads(path: str | os.PathLike[str]) -> list[list[str]]:
    """The workloads of a text file: a line each, names of programs with commas between.

    What follows a ``#`` is left out, and empty lines are.
    """
    workloads = []
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        names = [name.strip() for name in line.split(",")]
        if not all(names):
            raise InputError(
                f"{os.fspath(path)}:{number}: found `{line}`, expected names of programs with "
                "commas between"
            )
        workloads.append(names)
    return workloads


def write_workloads(path: str | os.PathLike[str], workloads: Iterable[Sequence[str]]) -> None:
    """Writes workloads, a line each."""
    lines = []
    for names in workloads:
        bad = [name for name in names if not name or set(name) & set(",\n\r#")]
        if bad or not names or isinstance(names, str):
            raise InputError(f"the workload {names!r} is no list of names of programs")
        lines.append(",".join(names) + "\n")
    Path(path).write_text("".join(lines))
