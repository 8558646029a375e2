"""What can go wrong. The texts are those of the command."""

from __future__ import annotations

from collections.abc import Sequence


class Error(Exception):
    """Anything that corun says went wrong."""


class InputError(Error, ValueError):
    """Bad input: what was found and what is expected.

    ``hints`` holds what could be asked for instead, as it is typed at the command.
    """

    def __init__(self, message: str, hints: Sequence[str] = ()) -> None:
        super().__init__(message, tuple(hints))
        self.message = message
        self.hints = tuple(hints)

    def __str__(self) -> str:
        return "\n".join([self.message, *(f"  try: {hint}" for hint in self.hints)])


class FailedError(Error, RuntimeError):
    """Something that should have worked did not."""


class PolicyError(Error, RuntimeError):
    """A policy failed, or asked for what cannot be done: which one, when, and its traceback.

    What a Python policy raised is the exception's ``__cause__``.
    """
