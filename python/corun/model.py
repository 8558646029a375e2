"""The model on many mixes at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from corun import _corun
from corun.mixes import MachineLike, ProfilesLike, library_of, machine_of, names_of
from corun.questions import DEFAULT_MACHINE


class Model:
    """Programs on a machine's model, to be asked about thousands of mixes in one call.

    Parameters
    ----------
    apps
        The programs that mixes are made of: names or :class:`Profile` objects.
    machine, profiles, options
        As of :func:`corun.compare`.

    >>> model = Model(["xz", "sort", "flac"], machine="xeon-x5365")
    >>> model.solve([[0, 1], [0, 2], [1, -1]], cpus=[0, 1])["slowdown"].shape
    (3, 2)
    """

    def __init__(
        self,
        apps: Sequence[str | _corun.Profile],
        *,
        machine: MachineLike = DEFAULT_MACHINE,
        profiles: ProfilesLike | None = None,
        options: _corun.ModelOptions | None = None,
    ) -> None:
        self._native = _corun.Model(
            names_of(apps), machine_of(machine), library_of(profiles, apps), options
        )

    @property
    def apps(self) -> list[str]:
        """The programs' names; mixes name them by their place here."""
        return self._native.names

    def solve(
        self, mixes: npt.ArrayLike, cpus: npt.ArrayLike
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Figures of each program beside the others of its mix.

        Parameters
        ----------
        mixes
            Shape (mixes, slots), whole numbers: in each slot the place of a program in
            :attr:`apps`, or -1 for none.
        cpus
            The CPU (the machine's own number) of each slot: shape (slots,) for all mixes alike, or
            (mixes, slots). Memory is on the CPU's own node.

        Returns
        -------
        Arrays of the shape of `mixes`, NaN in empty slots: ``slowdown`` (time beside the others /
        alone), ``ipc``, ``llc_mpki`` (misses per 1000 instructions), ``bandwidth_mb_per_s`` (1e6
        bytes a second), ``llc_occupancy_bytes``.
        """
        return self._native.solve(*self._arrays(mixes, cpus))

    @staticmethod
    def _arrays(
        mixes: npt.ArrayLike, cpus: npt.ArrayLike
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        given = [np.asarray(mixes), np.asarray(cpus)]
        for name, array in zip(["mixes", "cpus"], given):
            if array.size and not np.issubdtype(array.dtype, np.integer):
                raise TypeError(f"{name} holds {array.dtype}: expected whole numbers")
            # As a signed number it would be another one.
            if array.size and int(array.max()) > np.iinfo(np.int64).max:
                raise ValueError(f"{name} holds {array.max()}: expected numbers below 2**63")
        if given[0].ndim != 2 or given[1].ndim not in (1, 2):
            raise ValueError(
                f"mixes has {given[0].ndim} dimensions and cpus {given[1].ndim}: expected "
                "(mixes, slots), and (slots,) or (mixes, slots)"
            )
        first, second = (np.ascontiguousarray(one, dtype=np.int64) for one in given)
        return first, np.atleast_2d(second)
