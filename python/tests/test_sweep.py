"""Sweeps on this machine."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import corun

SEEDS = [2**64 - 1, 2**63, 1]

SWEEP = {
    "machines": ["xeon-x5365"],
    "policies": ["di"],
    "seeds": SEEDS,
    "bounds": ["optimal"],
    "instructions": np.int64(10**9),
    "mix": [{"apps": ["sort", "xz"]}],
}


def test_seeds_are_those_that_were_asked_for(tmp_path):
    rows = corun.sweep(SWEEP, tmp_path).rows
    assert str(rows.seed.dtype) == "UInt64"
    assert rows.seed.isna().sum() == 1
    assert [int(seed) for seed in rows.seed.dropna()] == SEEDS
    stored = pd.read_parquet(tmp_path / "results.parquet")
    assert stored.seed.dropna().max() > 2**63


@pytest.mark.parametrize("jobs", [-1, 4097, 10**9, 10**30])
def test_a_number_of_threads_has_bounds(tmp_path, jobs):
    with pytest.raises(corun.InputError, match=f"jobs is {jobs}: expected a whole number from 0"):
        corun.sweep(SWEEP, tmp_path, jobs=jobs)


def test_more_threads_than_tasks_are_not_started(tmp_path):
    assert corun.sweep(SWEEP, tmp_path, jobs=4096).failed == 0


def test_a_description_may_hold_paths_and_no_number_that_is_none(tmp_path):
    (tmp_path / "mixes.csv").write_text("sort, xz # both\n")
    by_path = {**SWEEP, "mix": [], "workloads": [{"file": Path(tmp_path / "mixes.csv")}]}
    assert corun.sweep(by_path, tmp_path / "out").rows.mix.unique().tolist() == ["sort+xz"]
    with pytest.raises(corun.InputError, match="the description: found a number that is none"):
        corun.sweep({**SWEEP, "instructions": float("nan")}, tmp_path / "none")
