"""Policies written in Python, good and bad."""

import signal
import threading
import time

import pytest

import corun

FOUR = ["sort", "numpy", "xz", "glpsol"]


class Pack(corun.Policy):
    """All threads on as few LLCs as possible."""

    needs = corun.Needs(interval_s=None)

    def on_event(self, event, view):
        if event.kind not in ("arrived", "exited"):
            return None
        return self.decide(view)

    def decide(self, view):
        plan = corun.Plan()
        cpus = [cpu for llc in view.machine.llcs for cpu in llc.cpus]
        for thread, cpu in zip(view.threads, cpus * 100):
            if thread.allowed != {cpu} and cpu in thread.may_run_on:
                plan.push(corun.Allow(thread.id, [cpu]), f"{thread.program}: packed")
        return plan


class Spread(corun.Policy):
    """Those that miss most apart, by what is counted: what `di` does, from counters."""

    needs = corun.Needs(interval_s=0.5, counters=["llc-misses", "instructions"])

    def decide(self, view):
        plan = corun.Plan()
        if any(thread.counters.llc_mpki is None for thread in view.threads):
            return plan
        ranked = sorted(view.threads, key=lambda thread: -thread.counters.llc_mpki)
        llcs = view.machine.llcs
        # The first round goes up, the second down.
        order = [llc.cpus[0] for llc in llcs] + [llc.cpus[1] for llc in reversed(llcs)]
        for thread, cpu in zip(ranked, order):
            if thread.allowed != {cpu}:
                mpki = thread.counters.llc_mpki
                plan.push(corun.Allow(thread.id, [cpu]), f"{thread.program}: {mpki:.1f} MPKI")
        return plan


def test_a_policy_runs_beside_the_built_in_ones():
    compared = corun.compare(FOUR, policies=["dio", Pack, Spread()], seeds=2)
    frame = compared.policies
    assert {"dio", "pack", "spread"} <= set(frame.index)
    assert frame.mean_slowdown["spread"] < frame.mean_slowdown["pack"]
    assert frame.mean_slowdown["spread"] < frame.mean_slowdown["worst"]
    on = compared.placements.set_index("policy").loc["pack"]
    assert set(on.llc) == {0, 1}, "two LLCs hold four programs"
    assert "packed" in compared.run("pack").log.reason[0]


def test_a_placement_can_be_asked_of_a_policy():
    placed = corun.place(FOUR, Pack())
    assert sorted(placed.programs.llc) == [0, 0, 1, 1]
    assert placed.document["policy"] == "pack"


def test_each_run_has_a_policy_of_its_own():
    class Counts(corun.Policy):
        seen = []

        def __init__(self):
            self.decisions = 0

        def decide(self, view):
            self.decisions += 1
            self.seen.append((self.seed, self.decisions))

    given = Counts()
    corun.compare(FOUR[:2], policies=[given], seeds=3)
    assert given.decisions == 0
    firsts = [seed for seed, count in Counts.seen if count == 1]
    assert sorted(firsts) == [1, 2, 3]


def test_a_policy_sees_what_a_view_has():
    seen = {}

    class Looks(corun.Policy):
        needs = corun.Needs(
            interval_s=1.0,
            counters=["instructions", "llc-misses", "llc-occupancy"],
            controls=["place", "partition"],
            solo_figures=True,
            by_ways=True,
        )

        def on_event(self, event, view):
            seen.setdefault("events", []).append(event.kind)

        def decide(self, view):
            thread = view.threads[0]
            seen["view"] = (view.now_s, len(view.threads), view.machine.name)
            seen["thread"] = (thread.program, thread.state, thread.weight, thread.important)
            seen["counters"] = thread.counters
            seen["solo"] = thread.solo
            seen["ways"] = thread.by_ways
            seen["held"] = thread.llc_occupancy_bytes
            seen["found"] = view.thread(thread.id).id == thread.id and view.thread(99) is None

    corun.simulate(Looks, FOUR, machine="xeon-gold-6138")
    assert seen["events"][:4] == ["arrived"] * 4 and "switched" in seen["events"]
    assert seen["view"][1:] == (4, "xeon-gold-6138") and seen["view"][0] >= 1.0
    assert seen["thread"][0] in FOUR and seen["thread"][2:] == (1.0, False)
    counters = seen["counters"]
    assert counters.instructions_per_s > 1e8 and 0 < counters.ipc < 6
    assert counters.llc_mpki == pytest.approx(
        1000 * counters.llc_misses_per_s / counters.instructions_per_s
    )
    assert seen["solo"].llc_mpki >= 0 and seen["held"] > 0 and seen["found"]
    assert len(seen["ways"]) == 11
    assert seen["ways"][0].slowdown >= seen["ways"][-1].slowdown == pytest.approx(1.0)


def test_a_policy_partitions():
    class Halves(corun.Policy):
        needs = corun.Needs(controls=["partition"])

        def decide(self, view):
            plan = corun.Plan()
            for llc in view.machine.llcs:
                here = [one.id for one in view.threads if one.cpu in llc.cpus]
                if len(here) == 2:
                    plan.push(
                        corun.PartitionLlc(llc.index, [(0x3F, here[:1]), (0x7C0, here[1:])]),
                        "a half each",
                    )
            return plan

    once = corun.Mix(FOUR[:2], method="first-run")
    log = corun.simulate(Halves, once, machine="xeon-gold-6138").log
    assert set(log.kind) == {"partition"}
    assert log.action[0] == "ways of LLC 0: 0x3f for sort; 0x7c0 for numpy"


class Raises(corun.Policy):
    def decide(self, view):
        if view.now_s > 2.5:
            raise LookupError("no such luck")


def test_a_policy_that_raises_stops_the_run_with_its_traceback():
    with pytest.raises(corun.PolicyError) as raised:
        corun.compare(FOUR, policies=["dio", Raises()], seeds=4)
    text = str(raised.value)
    assert "at 3.000000 s policy `raises` failed: decide, interval 3:" in text
    assert 'raise LookupError("no such luck")' in text and "test_policies.py" in text
    assert isinstance(raised.value.__cause__, LookupError)


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (lambda: corun.Plan([(corun.Allow(99, [0]), "x")]), "about thread 99, which is not in"),
        (lambda: corun.Plan([(corun.Swap(0, 7), "x")]), "about thread 7, which is not in"),
        (lambda: corun.Plan([(corun.Allow(0, [99]), "x")]), "and 99 is not within that"),
        (lambda: corun.Plan([(corun.Allow(0, []), "x")]), "thread 0 was allowed on no CPU"),
        (lambda: corun.Plan([(corun.Allow("a", [0]), "x")]), "interval 1"),
        (lambda: corun.Plan([("off with it", "x")]), "its plan has a str"),
        (lambda: [1, 2], "it answered [1, 2]: expected a corun.Plan or None"),
        (lambda: corun.Plan([(corun.SetWeight(0, 2.0), "x")]), "did not announce"),
        (lambda: corun.Plan([(corun.IdleCpu(0, -1.0), "x")]), "duration_s is -1"),
    ],
)
def test_a_plan_that_cannot_be_names_policy_and_moment(plan, says):
    class Wrong(corun.Policy):
        def decide(self, view):
            return plan()

    with pytest.raises(corun.PolicyError) as raised:
        corun.simulate(Wrong, FOUR)
    assert says in str(raised.value)
    assert "at 1.000000 s policy `wrong`" in str(raised.value)


def test_a_policy_that_never_returns_is_ended():
    class Endless(corun.Policy):
        time_limit_s = 0.3

        def decide(self, view):
            while True:
                pass

    began = time.monotonic()
    with pytest.raises(corun.PolicyError, match="did not return within 0.3 s") as raised:
        corun.simulate(Endless, FOUR)
    assert "policy `endless` failed: decide, interval 1" in str(raised.value)
    assert isinstance(raised.value.__cause__, TimeoutError)
    assert time.monotonic() - began < 60


def test_ctrl_c_ends_a_policy_that_never_returns():
    class Endless(corun.Policy):
        time_limit_s = 600.0

        def decide(self, view):
            while True:
                pass

    def press():
        time.sleep(0.5)
        signal.raise_signal(signal.SIGINT)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        threading.Thread(target=press).start()
        corun.compare(FOUR, policies=[Endless], seeds=4)
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("policy", "error", "says"),
    [
        (object(), TypeError, "is no policy: expected a name, or an object or subclass"),
        (dict, TypeError, "is no policy"),
    ],
)
def test_only_policies_are_taken(policy, error, says):
    with pytest.raises(error, match=says):
        corun.compare(FOUR, policies=[policy])


def test_what_a_policy_needs_is_checked_before_it_starts():
    def needing(**needs):
        return type("Needy", (corun.Policy,), {"needs": corun.Needs(**needs)})

    for needs, says in [
        ({"counters": ["llc-mises"]}, "unknown counter `llc-mises`\n  try: llc-misses"),
        ({"controls": ["plac"]}, "unknown control `plac`\n  try: place"),
        ({"interval_s": 0.0}, "interval_s is 0"),
    ]:
        with pytest.raises(ValueError) as raised:
            corun.simulate(needing(**needs), FOUR)
        assert says in str(raised.value)
    with pytest.raises(corun.InputError, match="two policies are called `raises`"):
        corun.compare(FOUR, policies=[Raises, Raises()])
    with pytest.raises(corun.InputError, match="policies is empty"):
        corun.compare(FOUR, policies=[])


def test_a_policy_can_decline_a_machine():
    class Picky(corun.Policy):
        def unfit_for(self, machine):
            return "it wants one LLC" if len(machine.llcs) > 1 else None

    with pytest.raises(corun.InputError, match="`picky` is not for machine `xeon-x5365`: it wants"):
        corun.simulate(Picky, FOUR)


def test_a_policy_hears_what_is_not_in_force():
    runs = []

    class Stubborn(corun.Policy):
        """Every thread on a CPU of its own; remembers what it asked for."""

        needs = corun.Needs(interval_s=0.5)

        def __init__(self):
            self.asked, self.refused = {}, []
            runs.append(self)

        def decide(self, view):
            plan = corun.Plan()
            for thread, cpu in zip(view.threads, view.machine.llcs[0].cpus):
                if thread.id in self.asked:
                    assert thread.allowed == {self.asked[thread.id]}, "not refused, so in force"
                else:
                    self.asked[thread.id] = cpu
                    plan.push(corun.Allow(thread.id, [cpu]), "asked once")
            return plan

        def not_in_force(self, action):
            assert action == corun.Allow(action.thread, {self.asked[action.thread]})
            self.refused.append(action)
            del self.asked[action.thread]

    corun.compare(FOUR[:2], policies=[Stubborn], seeds=3, as_live="refused=0.5")
    refused = [len(run.refused) for run in runs if run.asked]
    assert len(refused) == 3 and sum(refused) > 0, refused
    # A program that starts again is another thread: what was asked of those that ended stays.
    assert all(len(run.asked) >= 2 for run in runs if run.asked), "asked again until it was in force"

    class Complains(Stubborn):
        def not_in_force(self, action):
            raise LookupError("no such luck")

    with pytest.raises(corun.PolicyError, match="not_in_force, interval 1"):
        corun.compare(FOUR[:2], policies=[Complains], seeds=3, as_live="refused=0.9")
    with pytest.raises(corun.InputError, match="refused"):
        corun.compare(FOUR[:2], policies=[Stubborn], as_live="refused=2")
