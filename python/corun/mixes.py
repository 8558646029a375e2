"""Mixes and libraries as they are given to functions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

from corun import _corun

#: A program of a mix: its profile's name, a profile, or the keys of an ``[[app]]`` of a mix file.
App = Union[str, "_corun.Profile", Mapping[str, Any]]

#: A mix: one that is ready, a mix file, or its programs.
MixLike = Union["_corun.Mix", str, os.PathLike, Sequence[App]]

#: Where profiles are looked up: a library, a folder or file, or profiles.
ProfilesLike = Union["_corun.Library", str, os.PathLike, Iterable["_corun.Profile"]]

#: A machine, or a preset, a machine file or ``"this"``.
MachineLike = Union["_corun.Machine", str, os.PathLike]


def mix_of(given: MixLike | None) -> _corun.Mix | None:
    """The mix that was given in whatever form."""
    if given is None or isinstance(given, _corun.Mix):
        return given
    if isinstance(given, (str, os.PathLike)):
        return _corun.Mix.load(os.fspath(given))
    return _corun.Mix(given)


def library_of(profiles: ProfilesLike | None, given: Any = None) -> _corun.Library:
    """The library that was given in whatever form, with the profiles that a mix brings along."""
    brought = []
    if given is not None and not isinstance(given, (_corun.Mix, str, os.PathLike)):
        brought = [app for app in given if isinstance(app, _corun.Profile)]
    if profiles is None:
        return _corun.Library.of(brought, shipped=True) if brought else _corun.Library()
    if isinstance(profiles, (str, os.PathLike)):
        profiles = _corun.Library(os.fspath(profiles))
    if isinstance(profiles, _corun.Library):
        if not brought:
            return profiles
        profiles = [profiles[name] for name in profiles.names()]
    return _corun.Library.of([*profiles, *brought])


def machine_of(given: MachineLike) -> _corun.Machine:
    """The machine that was given in whatever form."""
    return given if isinstance(given, _corun.Machine) else _corun.Machine(os.fspath(given))


def machine_or_none(given: MachineLike | None) -> _corun.Machine | None:
    """The same where there may be none."""
    return None if given is None else machine_of(given)


def names_of(apps: Sequence[str | _corun.Profile], what: str = "apps") -> list[str]:
    """The names of programs that may be profiles."""
    if isinstance(apps, str):
        raise TypeError(f"{what} is the text {apps!r}: expected a list of names or profiles")
    return [app.name if isinstance(app, _corun.Profile) else app for app in apps]
