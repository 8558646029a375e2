"""The model on many mixes at once."""

import numpy as np
import pytest

import corun

APPS = ["sort", "numpy", "xz", "flac"]


@pytest.fixture(scope="module")
def model():
    return corun.Model(APPS, machine="xeon-x5365")


def test_a_mix_in_a_batch_is_what_predict_says(model):
    mixes = np.array([[0, 1, 2], [3, -1, 0], [2, 2, 2]])
    cpus = np.array([[0, 1, 4], [0, 1, 2], [3, 2, 1]])
    solved = model.solve(mixes, cpus)
    assert set(solved) == {
        "slowdown",
        "ipc",
        "llc_mpki",
        "bandwidth_mb_per_s",
        "llc_occupancy_bytes",
    }
    for row, (mix, places) in enumerate(zip(mixes, cpus)):
        filled = mix >= 0
        names = [APPS[place] for place in mix[filled]]
        alone = corun.predict(names, [int(cpu) for cpu in places[filled]], machine="xeon-x5365")
        for name in ["slowdown", "ipc", "llc_mpki", "bandwidth_mb_per_s"]:
            expected = alone.programs[name].to_numpy()
            np.testing.assert_allclose(solved[name][row][filled], expected, atol=1e-3, rtol=1e-5)
            assert np.isnan(solved[name][row][~filled]).all()


def test_one_row_of_cpus_is_for_all_mixes(model):
    mixes = np.random.default_rng(1).integers(0, 4, size=(500, 4))
    every = model.solve(mixes, [0, 1, 2, 3])["slowdown"]
    each = model.solve(mixes, np.tile([0, 1, 2, 3], (500, 1)))["slowdown"]
    assert every.shape == (500, 4) and np.array_equal(every, each)
    assert (every >= 0.999).all()


def test_miss_rates_are_at_sizes_that_can_be():
    profile = corun.Library()["xz"]
    at = profile.mpki(np.array([1e6, 4e6]))
    for same in [[1e6, 4e6], np.array([1_000_000, 4_000_000]), (1e6, 4_000_000)]:
        np.testing.assert_array_equal(profile.mpki(same), at)
    assert profile.mpki(1_000_000)[0] == at[0]
    for wrong in [np.nan, -1.0, 0.0, np.inf]:
        with pytest.raises(corun.InputError, match="expected a number of bytes above 0"):
            profile.mpki(np.array([1e6, wrong]))


def test_no_mix_is_no_figure(model):
    assert model.solve(np.empty((0, 2), dtype=int), [0, 1])["ipc"].shape == (0, 2)


def test_other_layouts_are_read_right(model):
    mixes = np.asfortranarray(np.random.default_rng(2).integers(0, 4, size=(50, 3)))
    straight = model.solve(np.ascontiguousarray(mixes), [0, 1, 2])["ipc"]
    assert np.array_equal(model.solve(mixes.astype(np.int32), [0, 1, 2])["ipc"], straight)


def test_the_same_mixes_take_rust_some_time(model):
    mixes, cpus = model._arrays([[0, 1], [2, 3]], [0, 1])
    together, alone = model._native.rust_seconds(mixes, cpus)
    assert together > 0 and alone > 0


@pytest.mark.parametrize(
    ("mixes", "cpus", "error", "says"),
    [
        ([[0, 4]], [0, 1], ValueError, "mixes name program 4: expected 0 to 3, or -1 for none"),
        ([[0, -2]], [0, 1], ValueError, "mixes name program -2"),
        ([[0, 1]], [0, 99], ValueError, "has no CPU 99"),
        ([[0, 1]], [3, 3], ValueError, "CPU 3 stands twice"),
        ([[0, 1]], [0, 1, 2], ValueError, "mixes are 1x2 and cpus 1x3"),
        ([[0, 1]] * 3, [[0, 1]] * 2, ValueError, "mixes are 3x2 and cpus 2x2"),
        ([0, 1], [0, 1], ValueError, "1 dimensions"),
        ([[0.5, 1.0]], [0, 1], TypeError, "mixes holds float64: expected whole numbers"),
        (
            np.array([[0, 2**64 - 1]], dtype=np.uint64),
            [0, 1],
            ValueError,
            "mixes holds 18446744073709551615: expected numbers below",
        ),
    ],
)
def test_arrays_that_cannot_be_are_refused(model, mixes, cpus, error, says):
    with pytest.raises(error, match=says):
        model.solve(mixes, cpus)
