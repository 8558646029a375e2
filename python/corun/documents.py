"""What is given as mappings, as text for the native part."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from corun.errors import InputError


def json_of(given: Mapping[str, Any], what: str) -> str:
    """The JSON of a mapping, whose values may be numpy's and paths, too."""

    def plain(value: object) -> object:
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, (np.generic, np.ndarray)):
            return value.tolist()
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        kind = type(value).__name__
        raise TypeError(
            f"{what} holds {value!r} of type {kind}: expected texts, numbers, lists and mappings"
        )

    try:
        return json.dumps(given, default=plain, allow_nan=False)
    except ValueError as error:
        raise InputError(f"{what}: found a number that is none, or without end: {error}") from error
