"""What the questions answer: documents as pandas data frames."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from corun import _corun

#: Figures of a policy in a comparison: column, and what it is.
POLICY_COLUMNS = {
    "kind": "policy, optimal, expectation or worst",
    "mean_slowdown": "mean over programs and seeds",
    "stp": "sum of 1 / slowdown",
    "unfairness": "largest / smallest slowdown",
    "worst_slowdown": "the largest slowdown of any program with any seed",
    "spread": "standard deviation / mean of completion times over seeds",
    "worst_over_best": "longest / shortest completion time over seeds",
    "migrations": "moves to another CPU a run",
    "llc_migrations": "of these, to another LLC",
    "energy_per_work_j": "J above idle for what a program does in a second alone, if known",
    "energy_delay_per_work_j": "the same times how many times as long that takes",
    "above_optimal_percent": "how much worse than the optimum by the objective, in percent",
    "optimal_proven": "of a bound: is it proven?",
    "standard_error": "of a sampled expectation",
    "same_as": "an earlier policy with which everything came out the same",
}


class _Document:
    """A result that is a JSON document (docs/json.md)."""

    document: dict[str, Any]

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()

    def __repr__(self) -> str:
        return f"{type(self).__name__}\n{self._table().to_string()}"

    def _table(self) -> pd.DataFrame:
        raise NotImplementedError


class Comparison(_Document):
    """Policies side by side."""

    def __init__(self, native: _corun.Comparison) -> None:
        self._native = native
        self.document = json.loads(native._document)

    @property
    def machine(self) -> str:
        """The machine's name."""
        return self.document["machine"]

    @property
    def apps(self) -> list[str]:
        """The programs' names, all different."""
        return self.document["apps"]

    @property
    def policies(self) -> pd.DataFrame:
        """One row a policy or bound, by name, with the columns of ``POLICY_COLUMNS``."""
        rows = self.document["policies"]
        frame = pd.DataFrame(rows, columns=["policy", *POLICY_COLUMNS])
        return frame.set_index("policy")

    @property
    def slowdowns(self) -> pd.DataFrame:
        """One row a policy or bound, one column a program: slowdowns, mean over seeds."""
        rows = self.document["policies"]
        index = pd.Index([row["policy"] for row in rows], name="policy")
        return pd.DataFrame([row["slowdown"] for row in rows], index=index, columns=self.apps)

    @property
    def placements(self) -> pd.DataFrame:
        """One row a policy and program: the CPU on which it ran longest with the first seed, and
        that CPU's LLC."""
        rows = [
            (row["policy"], app, cpu, llc)
            for row in self.document["policies"]
            for app, cpu, llc in zip(self.apps, row["cpu"], row["llc"])
        ]
        return pd.DataFrame(rows, columns=["policy", "app", "cpu", "llc"])

    def run(self, policy: str, seed: int = 1) -> Run:
        """The run of a policy with a seed. Where threads were is kept for the first seed."""
        names = self._native.policies
        if policy not in names:
            known = ", ".join(names)
            raise KeyError(f"no policy {policy!r} ran here: expected one of {known}")
        native = self._native.run(names.index(policy), seed)
        if native is None:
            raise KeyError(f"no run with seed {seed}: expected 1 to {self.document['seeds']}")
        return Run(native)

    def long(self, workload: str | None = None) -> pd.DataFrame:
        """Every figure as a row of its own: workload, policy, app, property, value.

        Figures of the whole mix have an empty app. ``workload`` is what the mix is called; None:
        its programs' names.
        """
        rows = json.loads(self._native._long("+".join(self.apps) if workload is None else workload))
        return pd.DataFrame(rows, columns=["workload", "policy", "app", "property", "value"])

    def write_trace(
        self, path: str | os.PathLike[str], policies: Sequence[str] | None = None
    ) -> None:
        """Writes who ran where when under these policies (None: all), with the first seed, as a
        trace viewer reads it: open it at ui.perfetto.dev."""
        names = self._native.policies
        chosen = names if policies is None else policies
        unknown = [name for name in chosen if name not in names]
        if unknown:
            raise KeyError(f"no policy {unknown[0]!r} ran here: expected {', '.join(names)}")
        places = [names.index(name) for name in chosen]
        Path(path).write_text(self._native._trace(places))

    def _table(self) -> pd.DataFrame:
        shown = ["mean_slowdown", "above_optimal_percent", "worst_slowdown", "stp", "unfairness"]
        return self.policies[[*shown, "migrations"]]


class Run(_Document):
    """A simulated run. Times are simulated seconds, CPUs the machine's own numbers."""

    def __init__(self, native: _corun.Run) -> None:
        self._native = native
        self.document = json.loads(native._document)

    @property
    def policy(self) -> str:
        """The policy's name."""
        return self._native.policy

    @property
    def seed(self) -> int:
        """The seed."""
        return self._native.seed

    @property
    def machine(self) -> _corun.Machine:
        """The machine."""
        return self._native.machine

    @property
    def simulated_s(self) -> float:
        """Length of the run in s."""
        return self.document["simulated_s"]

    @property
    def apps(self) -> pd.DataFrame:
        """One row a program: slowdown, completion times in s, migrations, CPU time in s,
        instructions, LLC references and misses per 1000 instructions."""
        return pd.DataFrame(self.document["apps"]).set_index("app")

    @property
    def threads(self) -> pd.DataFrame:
        """One row a thread: its program, which run, start and end in s."""
        columns = ["thread", "app", "index", "run", "start_s", "end_s"]
        return pd.DataFrame(self.document["threads"], columns=columns)

    @property
    def placements(self) -> pd.DataFrame:
        """One row each time that a thread came onto another CPU: at_s, thread, app, cpu, llc."""
        columns = ["at_s", "thread", "app", "cpu", "llc"]
        return pd.DataFrame(self.document["placements"], columns=columns)

    @property
    def log(self) -> pd.DataFrame:
        """One row a step of a policy: at_s, policy, kind, action, and the reason in words."""
        columns = ["at_s", "policy", "kind", "action", "reason"]
        return pd.DataFrame(self.document["log"], columns=columns)

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes who ran where when as a trace viewer reads it: open it at ui.perfetto.dev."""
        Path(path).write_text(self._native._trace)

    def _table(self) -> pd.DataFrame:
        return self.apps[["slowdown", "mean_completion_s", "solo_completion_s", "migrations"]]


class _Answer(_Document):
    """Programs' places and the objective's value."""

    def __init__(self, document: str) -> None:
        self.document = json.loads(document)

    @property
    def value(self) -> float:
        """The objective's value."""
        return self.document["value"]

    @property
    def proven(self) -> bool | None:
        """Is it proven to be the best? None where nothing was searched."""
        return self.document["proven"]

    def _programs(self, *first: str) -> pd.DataFrame:
        """One row a program: the document's lists of these names, then the model's figures."""
        frame = pd.DataFrame(self.document["programs"])
        for place, name in enumerate(first):
            frame.insert(place, name, self.document[name])
        frame.index = pd.Index(self.document["apps"], name="app")
        return frame


class Placement(_Answer):
    """Where programs run, and what that does to them."""

    @property
    def programs(self) -> pd.DataFrame:
        """One row a program: cpu, llc, mask (of ``optimal-cluster`` alone), slowdown, ipc,
        llc_apki, llc_mpki, bandwidth_mb_per_s, llc_occupancy_bytes, memory_stall_share (0 to 1),
        extrapolated."""
        first = ["cpu", "llc", "mask", "slowdown"]
        return self._programs(*(name for name in first if name in self.document))

    def _table(self) -> pd.DataFrame:
        return self.programs[["cpu", "llc", "slowdown", "ipc", "llc_mpki", "bandwidth_mb_per_s"]]


class Partition(_Answer):
    """Who has which ways of an LLC, and what that does to them."""

    @property
    def programs(self) -> pd.DataFrame:
        """One row a program: class, cluster, ways, mask, cap_mb_per_s, slowdown, ipc, llc_mpki,
        bandwidth_mb_per_s, llc_occupancy_bytes, extrapolated."""
        return self._programs("class", "cluster", "ways", "mask", "cap_mb_per_s", "slowdown")

    @property
    def policies(self) -> pd.DataFrame:
        """With ``all``, one row a policy: stp, unfairness, antt, max_slowdown, jain,
        bandwidth_mb_per_s, value, from_optimal_percent, proven, error."""
        columns = ["stp", "unfairness", "antt", "max_slowdown", "jain", "bandwidth_mb_per_s"]
        columns += ["value", "from_optimal_percent", "proven", "error"]
        rows = self.document.get("policies", [])
        return pd.DataFrame(rows, columns=["policy", *columns]).set_index("policy")

    def _table(self) -> pd.DataFrame:
        return self.programs[["class", "cluster", "ways", "mask", "slowdown", "llc_mpki"]]
