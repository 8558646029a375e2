"""Policies over real threads, without acting on them."""

import sys
import time

import pytest

import corun

SPIN = [sys.executable, "-c", "while True: pass"]


class Watches(corun.Policy):
    """Asks that every thread be held on the first CPU."""

    needs = corun.Needs(interval_s=0.2, counters=["instructions", "llc-misses"])

    def decide(self, view):
        plan = corun.Plan()
        for thread in view.threads:
            mpki = thread.counters.llc_mpki
            if mpki is not None:
                plan.push(
                    corun.Allow(thread.id, [min(thread.may_run_on)]), f"{mpki:.1f} MPKI"
                )
        return plan


def test_a_policy_is_shown_real_threads_and_changes_nothing():
    # On a busy machine two seconds may be over before the second look.
    for duration_s in (2.0, 30.0):
        decisions = corun.dry_run(
            Watches, {"sort": SPIN, "xz": SPIN}, duration_s=duration_s, interval_s=0.2
        )
        proposed = decisions[decisions.verdict == "proposed"]
        if len(proposed) > 0:
            break
    assert len(proposed) > 0, decisions
    assert set(proposed.policy) == {"watches"} and set(proposed.kind) == {"place"}
    assert proposed.reason.str.contains("MPKI").all()
    assert proposed.at_s.max() <= 60


def test_it_ends_when_the_programs_have():
    began = time.monotonic()
    corun.dry_run("dio", {"xz": [sys.executable, "-c", "pass"]}, duration_s=300.0)
    assert time.monotonic() - began < 120


def test_what_fails_names_the_policy_and_leaves_no_program(tmp_path):
    class Raises(corun.Policy):
        needs = corun.Needs(interval_s=0.1)

        def decide(self, view):
            raise LookupError("no such luck")

    mark = tmp_path / "mark"
    alive = f"import time, pathlib\nwhile True: pathlib.Path({str(mark)!r}).touch(); time.sleep(.01)"
    with pytest.raises(corun.PolicyError, match="policy `raises` failed: decide, interval 1"):
        corun.dry_run(Raises, {"xz": [sys.executable, "-c", alive]}, duration_s=60.0)
    mark.unlink(missing_ok=True)
    time.sleep(0.3)
    assert not mark.exists(), "the program still runs"


def test_programs_that_cannot_be_run_are_said():
    with pytest.raises(TypeError, match="the program of xz is the text 'sleep 1': expected a list"):
        corun.dry_run("dio", {"xz": "sleep 1"})
    with pytest.raises(corun.InputError, match="the program of xz has no words"):
        corun.dry_run("dio", {"xz": []})
    with pytest.raises(corun.InputError, match="xz: /nonexistent cannot be started: No such file"):
        corun.dry_run("dio", {"xz": ["/nonexistent"]})
    with pytest.warns(UserWarning, match="xz failed with exit code 1"):
        corun.dry_run("dio", {"xz": ["false"]}, duration_s=60.0)


def test_unknown_profiles_and_times_are_refused():
    with pytest.raises(corun.InputError, match='no program is named "xzz"'):
        corun.dry_run("dio", {"xzz": SPIN}, duration_s=1.0)
    with pytest.raises(corun.InputError, match="duration_s is 0"):
        corun.dry_run("dio", {"xz": SPIN}, duration_s=0.0)
