"""Policies over real threads."""

from __future__ import annotations

import json
import os
import subprocess
import warnings
from collections.abc import Mapping, Sequence

import pandas as pd

from corun import _corun
from corun.errors import InputError
from corun.mixes import ProfilesLike, library_of
from corun.questions import PolicyLike


def dry_run(
    policy: PolicyLike,
    programs: Mapping[str, Sequence[str | os.PathLike[str]]],
    *,
    duration_s: float = 10.0,
    interval_s: float | None = None,
    profiles: ProfilesLike | None = None,
    seed: int = 1,
) -> pd.DataFrame:
    """Starts programs here and says what a policy would do with them. Nothing is changed.

    The threads and where the kernel runs them are real; what the policy is shown of them is
    counted by the model, from the programs' profiles and where they are. The programs are ended
    when the time is over.

    Parameters
    ----------
    policy
        A name, or a policy of your own.
    programs
        For each profile the command line that stands for it: ``{"xz": ["xz", "-k", "big.tar"]}``.
        What they print is dropped.
    duration_s
        Ends after so many seconds, or when all programs have ended.
    interval_s
        Time between two decisions; None: the policy's own.

    Returns
    -------
    One row a decision: at_s, policy, kind, action, reason, verdict (``proposed`` or ``refused``)
    and why_not.
    """
    started: list[tuple[subprocess.Popen[bytes], str]] = []
    try:
        for name, command in programs.items():
            quiet = subprocess.DEVNULL
            words = _words(name, command)
            try:
                child = subprocess.Popen(
                    words, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
                )
            except OSError as error:
                raise InputError(f"{name}: {words[0]} cannot be started: {error.strerror}") from error
            started.append((child, name))
        decisions = _corun.dry_run(
            policy,
            [(child.pid, name, name) for child, name in started],
            library_of(profiles),
            duration_s,
            interval_s,
            seed,
        )
        for child, name in started:
            if child.poll():
                warnings.warn(f"{name} failed with exit code {child.returncode}", stacklevel=2)
    finally:
        for child, _ in started:
            child.terminate()
        for child, _ in started:
            try:
                child.wait(timeout=5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
    columns = ["at_s", "policy", "kind", "action", "reason", "verdict", "why_not"]
    return pd.DataFrame(json.loads(decisions), columns=columns)


def _words(name: str, command: Sequence[str | os.PathLike[str]]) -> list[str]:
    if isinstance(command, str):
        raise TypeError(f"the program of {name} is the text {command!r}: expected a list of words")
    words = [os.fspath(word) for word in command]
    if not words:
        raise InputError(f"the program of {name} has no words: expected a command line")
    return words
