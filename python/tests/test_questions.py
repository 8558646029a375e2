"""The questions answer as the command does."""

import math
import pickle
import signal
import threading
import time

import numpy as np
import pytest

import corun


def test_a_comparison_has_the_policies_between_the_bounds(comparison, four):
    frame = comparison.policies
    assert list(frame.index) == [
        "optimal",
        "linux-default",
        "dio-2010",
        "random (expected)",
        "worst",
    ]
    policies = frame[frame.kind == "policy"]
    assert (policies.mean_slowdown > frame.mean_slowdown["optimal"] * 0.999).all()
    assert (policies.mean_slowdown < frame.mean_slowdown["worst"] * 1.001).all()
    assert comparison.apps == four
    # Row by row the mean of the programs' slowdowns.
    means = comparison.slowdowns.mean(axis=1)
    np.testing.assert_allclose(means, frame.mean_slowdown, rtol=1e-5)


def test_the_same_question_has_the_same_answer(comparison, four):
    again = corun.compare(four, policies=["linux-default", "dio-2010"], seeds=2)
    assert again.document == comparison.document


def test_a_run_of_a_comparison_is_the_run_alone(comparison, four):
    alone = corun.simulate("dio-2010", four, seed=2)
    assert alone.document["apps"] == comparison.run("dio-2010", 2).document["apps"]
    assert comparison.run("dio-2010").seed == 1
    with pytest.raises(KeyError, match="expected 1 to 2"):
        comparison.run("dio-2010", 3)
    with pytest.raises(KeyError, match="linux-default, dio-2010"):
        comparison.run("di")


def test_a_run_as_live_is_the_run_of_a_comparison_as_live(four):
    poorly = "noise=0.05,failed=0.05,tick-ms=200"
    compared = corun.compare(four, policies=["dio-2010"], seeds=1, as_live=poorly)
    alone = corun.simulate("dio-2010", four, as_live=poorly)
    assert alone.document == compared.run("dio-2010").document
    assert alone.document != corun.simulate("dio-2010", four).document
    with pytest.raises(corun.InputError, match="--as-live: noise: found `loud`"):
        corun.simulate("dio-2010", four, as_live="noise=loud")


def test_a_run_says_who_was_where_and_why(comparison):
    run = comparison.run("dio-2010")
    placements = run.placements
    assert set(placements.cpu) <= set(run.machine.cpus)
    assert placements.at_s.is_monotonic_increasing
    assert set(placements.thread) <= set(run.threads.thread)
    log = run.log
    assert (log.policy == "dio-2010").all() and (log.kind == "place").all()
    assert log.reason.str.contains("MPKI").all()
    assert run.apps.slowdown.min() >= 0.99


def test_the_optimum_is_no_worse_than_any_given_placement():
    apps = ["sort", "numpy", "xz", "glpsol"]
    best = corun.place(apps, machine="xeon-x5365")
    assert best.proven
    for cpus in ([0, 1, 2, 3], [0, 4, 1, 5], [0, 2, 4, 6]):
        given = corun.predict(apps, cpus, machine="xeon-x5365")
        assert list(given.programs.cpu) == cpus
        assert best.value <= given.programs.slowdown.mean() + 1e-6
    again = corun.predict(apps, list(best.programs.cpu), machine="xeon-x5365")
    assert math.isclose(again.programs.slowdown.mean(), best.value, rel_tol=1e-5)


def test_a_target_slowdown_is_kept_or_told():
    apps = ["sort", "numpy", "kernel-triad", "hmmsearch"]
    kept = corun.place(apps, machine="xeon-x5365", objective="energy", target_slowdown=1.5)
    assert kept.proven and kept.programs.slowdown.max() <= 1.5
    assert kept.document["slower_than_target"] == []
    told = corun.place(apps, machine="xeon-x5365", objective="energy", target_slowdown=1.0)
    assert told.document["objective"] == "max-slowdown" and told.document["slower_than_target"]
    with pytest.raises(ValueError, match="target_slowdown"):
        corun.place(apps, machine="xeon-x5365", target_slowdown=2.0, dask="local")


def test_partitions_are_judged_side_by_side():
    every = corun.partition(["sort", "xz", "numpy"], all=True, objective="unfairness")
    decided = every.policies[every.policies.error.isna()]
    assert {"optimal", "optimal-cluster", "lfoc", "ucp"} <= set(decided.index)
    # Masks that overlap are none that the optimum looks at.
    apart = decided.drop(["overlap-annealing", "dunn"], errors="ignore")
    assert (apart.from_optimal_percent >= -1e-4).all()
    given = corun.partition(["sort", "xz", "numpy"], masks=[0x3, 0xC, 0x7F0])
    assert list(given.programs.ways) == [2, 2, 7]
    assert list(given.programs["mask"]) == ["0x3", "0xc", "0x7f0"]


def test_profiles_say_their_curve():
    profile = corun.Library()["sort"]
    sizes = np.array([2.0**15, 2.0**20, 2.0**25])
    mpki = profile.mpki(sizes)
    assert mpki.shape == (3,) and (np.diff(mpki) <= 0).all() and mpki[0] > 0
    assert profile.footprint_bytes > 0 and profile.instructions > 0


def test_profiles_of_ones_own_can_be_in_a_mix(tmp_path):
    profile = corun.Library()["sort"]
    path = tmp_path / "mine.toml"
    path.write_text(profile.to_toml().replace('name = "sort"', 'name = "mine"'))
    mine = corun.Profile.load(path)
    placed = corun.place([mine, "xz", mine])
    assert list(placed.programs.index) == ["mine", "xz", "mine#2"]
    run = corun.simulate("dio", [mine, "xz"], profiles=[mine, corun.Library()["xz"]])
    assert list(run.apps.index) == ["mine", "xz"]


def test_mixes_hold_what_mix_files_hold(tmp_path):
    mix = corun.Mix([{"profile": "xz", "count": 2, "weight": 2.0}, "sort"], seeds=3)
    assert (mix.threads, mix.seeds, mix.names) == (3, 3, ["xz", "sort"])
    path = tmp_path / "mix.toml"
    path.write_text(mix.to_toml())
    assert corun.Mix.load(path).to_toml() == mix.to_toml()
    compared = corun.compare(mix, policies=["linux-default"])
    assert compared.document["seeds"] == 3 and compared.apps == ["xz", "xz#2", "sort"]


@pytest.mark.parametrize(
    "thing",
    [
        corun.Machine("xeon-e5520"),
        corun.Library()["sort"],
        corun.Mix(["xz", {"profile": "sort", "count": 2}], machine="xeon-x5365"),
        corun.Mix.from_toml('[[app]]\nprofile = "xz"\n', "a.toml"),
    ],
    ids=repr,
)
def test_things_survive_pickling(thing):
    copy = pickle.loads(pickle.dumps(thing))
    assert repr(copy) == repr(thing) and copy.to_toml() == thing.to_toml()
    assert copy.__reduce__()[1] == thing.__reduce__()[1]


@pytest.mark.parametrize(
    "options",
    [
        corun.ModelOptions(),
        corun.ModelOptions(space="whirlpool", peak_mb_per_s=9000, solo_peak_share=0.5),
        corun.ModelOptions(compat="pbbcache", peak_mb_per_s=35000),
    ],
    ids=["default", "chosen", "pbbcache"],
)
def test_options_survive_pickling(options):
    copy = pickle.loads(pickle.dumps(options))
    for name in ("space", "bandwidth", "compat", "peak_mb_per_s", "solo_peak_share"):
        assert getattr(copy, name) == getattr(options, name), name


def test_libraries_survive_pickling():
    shipped = corun.Library()
    assert pickle.loads(pickle.dumps(shipped)).names() == shipped.names()
    own = corun.Library.of([shipped["sort"], shipped["xz"]])
    copy = pickle.loads(pickle.dumps(own))
    assert copy.names() == own.names() == ["sort", "xz"]
    assert copy["sort"].to_toml() == own["sort"].to_toml()


def test_machines_tell_their_tree():
    assert "xeon-x5365" in corun.presets()
    machine = corun.Machine("xeon-x5365")
    assert machine.cpus == list(range(8))
    assert "Package" in machine.tree()
    assert corun.Machine.from_toml(machine.to_toml()).tree() == machine.tree()


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: corun.compare(["xzz"]), 'no program is named "xzz"; near it: xz'),
        (lambda: corun.compare(["xz"], policies=["dioo"]), "unknown policy `dioo`\n  try: dio"),
        (lambda: corun.compare(["xz"], seeds=0), "seeds is 0: expected a whole number from 1"),
        (lambda: corun.compare(["xz"], time_limit_s=float("nan")), "time_limit_s is NaN"),
        (lambda: corun.Machine("xeon-x5366"), "no machine preset and no file is called"),
        (lambda: corun.Mix([{"profile": "xz", "cuont": 2}]), "unknown field `cuont`"),
        (lambda: corun.Mix([]), "mix:"),
        (lambda: corun.Mix(["xz"], method="once"), "unknown variant `once`"),
        (lambda: corun.place(["xz"], "lfoc"), "partitions caches and does not place"),
        (lambda: corun.place(["xz"], objective="speed"), "unknown objective `speed`"),
        (lambda: corun.place(["xz"] * 9), "9 programs on xeon-x5365 with 8 CPUs"),
        (lambda: corun.predict(["xz"], [99]), "has no CPU 99"),
        (lambda: corun.partition(["xz"], "dio"), "places programs"),
        (lambda: corun.partition(["xz"], masks=[0x5]), "is not contiguous"),
        (lambda: corun.partition(["xz"], "ucp", parameters={"x": 1}), "unknown parameter `x`"),
        (
            lambda: corun.partition(["xz"], "ucp", parameters={"per-cycle": 0.5}),
            "parameter `per-cycle` is 0.5: expected 0 (off) or 1 (on)",
        ),
        (
            lambda: corun.partition(["xz"], "ucp", parameters={"per-cycle": "of"}),
            "parameters: per-cycle: found `of`, expected 0 (off) or 1 (on)",
        ),
        (lambda: corun.compare(["xz"], policies=["corun:objective=1.5"]), "objective` is 1.5: expected 0 (mean"),
        (lambda: corun.partition([], "lfoc"), "found no program"),
        (lambda: corun.Model([]), "found no program"),
        (lambda: corun.place([]), "found no program"),
        (lambda: corun.predict([], []), "found no program"),
        (lambda: corun.predict(["sort"], [-1]), "xeon-x5365 has no CPU -1: expected 0-7"),
        (lambda: corun.Machine("xeon-x5365").llc_of(-1), "has no CPU -1: expected 0-7"),
        (lambda: corun.compare(["sort"], seeds=-1), "seeds is -1"),
        (lambda: corun.compare(["sort"], instructions=-1), "instructions is -1"),
        (lambda: corun.Mix([{"profile": "xz", "instructions": -1}]), "expected a whole number"),
        (lambda: corun.ModelOptions(space="lru"), "`lru` is no"),
        (lambda: corun.ModelOptions(peak_mb_per_s=-1), "peak_mb_per_s is -1"),
        (
            lambda: corun.partition(["xz"], "lfoc", masks=[1]),
            "found policy `lfoc` and masks: expected one of them",
        ),
        (lambda: corun.partition(["xz"], masks=[-1]), "masks is -1: expected a whole number"),
        (lambda: corun.partition(["xz"], "lfoc", ways=-1), "ways is -1: expected a whole number"),
        (lambda: corun.partition(["xz"], "lfoc", seed=-5), "seed is -5: expected a whole number"),
        (lambda: corun.simulate("di", ["xz"], seed=-1), "seed is -1: expected a whole number"),
        (lambda: corun.simulate("di", ["xz"], instructions=2**63), "instructions is 92233720368"),
        (lambda: corun.place(["xz"], "random", seed=-1), "seed is -1: expected a whole number"),
        (lambda: corun.Mix(["xz"], seeds=-1), "seeds is -1: expected a whole number from 1"),
        (lambda: corun.Machine("xeon-x5365").llc_of(10**30), "has no CPU 10000000000"),
        (
            lambda: corun.Mix([{"profile": "xz", "instructions": float("nan")}]),
            "mix: found a number that is none",
        ),
        (lambda: corun.Profile.load("/nonexistent.toml"), "/nonexistent.toml: cannot be read"),
    ],
)
def test_bad_input_says_what_is_expected(ask, says):
    with pytest.raises(corun.InputError) as raised:
        ask()
    assert says in str(raised.value)
    assert isinstance(raised.value, (corun.Error, ValueError))


def test_one_policy_needs_no_list():
    found = corun.compare(["sort", "xz"], policies="dio-2010", seeds=1)
    assert "dio-2010" in found.policies.index


def test_a_text_is_no_list_of_programs():
    with pytest.raises(TypeError, match="expected a list"):
        corun.place("xz")
    with pytest.raises(TypeError, match="expected a list"):
        corun.Mix("xz")
    with pytest.raises(TypeError, match="unexpected keyword"):
        corun.compare(["xz"], seed=2)


def test_a_type_that_does_not_fit_is_named():
    with pytest.raises(TypeError, match="masks is ") as raised:
        corun.partition(["xz"], masks=["a"])
    assert "Wanted" not in str(raised.value)
    with pytest.raises(TypeError, match="mix holds .* of type set: expected texts, numbers"):
        corun.Mix([{"profile": "xz", "home_node": {1}}])
    assert corun.Mix([{"profile": "xz", "instructions": np.int64(10**9)}]).threads == 1


def test_a_library_is_a_list_of_names():
    library = corun.Library()
    assert list(library) == library.names()


#: A search that takes far longer than any test may.
ENDLESS = [
    "sort", "numpy", "xsltproc", "xz", "glpsol", "sqlite3", "hmmsearch", "flac",
] * 4  # fmt: skip


def test_ctrl_c_ends_a_long_call():
    def press():
        time.sleep(0.5)
        signal.raise_signal(signal.SIGINT)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        threading.Thread(target=press).start()
        corun.compare(ENDLESS, machine="2x-xeon-8480", seeds=10_000, policies=["dio"])
    assert time.monotonic() - began < 120


def test_other_threads_run_meanwhile():
    ticks = 0
    done = threading.Event()

    def tick():
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    other = threading.Thread(target=tick)
    other.start()
    # On a busy machine the other thread may have no CPU during a short call.
    for seeds in (20, 200, 2000):
        before = ticks
        corun.compare(["xz", "sort", "flac", "numpy"], policies=["dio"], seeds=seeds)
        during = ticks - before
        if during > 5:
            break
    done.set()
    other.join()
    assert during > 5
