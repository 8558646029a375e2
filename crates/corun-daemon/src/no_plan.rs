//! Why nothing is planned, or nothing that helps, and what one can do: said at the start and whenever the reason changes.

use corun_live::{Host, SampledThread, Tick, Verdict};
use corun_machine::CpuSet;
use corun_policy::{ActionKind, Needs, ThreadState};

/// Looks for which a reason has to hold that other threads or counts may end at the next look.
const SETTLED_LOOKS: u32 = 3;

/// Why nothing is planned, or nothing that helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPlan {
    /// No process belongs to any of the programs.
    NobodyThere,
    /// The policy places threads at most, and the machine has one last-level cache and one type of core.
    OneCache,
    /// The policy leaves all to the kernel.
    NoPolicy,
    /// Each thread may run on one CPU alone.
    AllPinned,
    /// The policy goes by counters, and nothing is counted of any thread that runs.
    Uncounted,
    /// The policy goes by stored profiles, and no program has one.
    Unprofiled,
    /// All that the policy asked for was refused.
    Refused,
}

impl NoPlan {
    /// Its name in metrics, in which there are no dashes.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::NoPolicy => "no_policy",
            Self::NobodyThere => "nobody_there",
            Self::OneCache => "one_cache",
            Self::AllPinned => "all_pinned",
            Self::Uncounted => "uncounted",
            Self::Unprofiled => "unprofiled",
            Self::Refused => "refused",
        }
    }

    /// What follows, as the beginning of a sentence that [`Self::why`] ends.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::OneCache => "no placement helps against neighbours",
            _ => "nothing is planned",
        }
    }

    /// The reason, in a sentence without its end.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::NoPolicy => "this policy leaves all to the kernel",
            Self::NobodyThere => "no process belongs to any of the programs",
            Self::OneCache => {
                "this machine has one last-level cache, which all share wherever they are placed"
            }
            Self::AllPinned => {
                "each thread may run on one CPU alone, so that none can be placed elsewhere"
            }
            Self::Uncounted => {
                "the policy goes by hardware counters, and they count nothing of the threads that run"
            }
            Self::Unprofiled => {
                "the policy goes by stored profiles, and none of the programs has one"
            }
            Self::Refused => "all that the policy asked for was refused",
        }
    }

    /// What one can do.
    pub(crate) fn help(self) -> &'static str {
        match self {
            Self::NoPolicy => "policy = \"auto\" chooses one that can run here",
            Self::NobodyThere => {
                "corun top shows what runs; name it by unit, user, command or cgroup under [[program]]"
            }
            Self::OneCache => {
                "a policy that divides the cache's ways (corun doctor --policies says which can here); corun explain PID \
                 for what else slows a program down"
            }
            Self::AllPinned => {
                "let them run on more CPUs (taskset, CPUAffinity=, AllowedCPUs=); corun explain PID says what that gives"
            }
            Self::Uncounted => "corun doctor says why; policy = \"di\" goes by stored profiles",
            Self::Unprofiled => {
                "record the programs (corun profile) and name the folder: profiles = \"PATH\"; a policy that measures, \
                 such as dio, needs hardware counters"
            }
            Self::Refused => {
                "each refusal stands in the log with its reason; corun explain PID for what else helps"
            }
        }
    }

    /// The reason that follows from the policy and the machine alone, before anybody was looked at.
    pub fn beforehand(host: &Host) -> Option<Self> {
        let lasting = |reason: &Self| matches!(reason, Self::NoPolicy | Self::OneCache);
        Circumstances { has_threads: true, ..Circumstances::of_policy(host) }
            .reason()
            .filter(lasting)
    }

    /// Two lines for people: the reason, and what one can do.
    pub fn note(self) -> String {
        format!("note: {}: {}\n  try: {}", self.what(), self.why(), self.help())
    }

    /// May it end with the next look, since it stands on single threads or counts? A policy may also have planned all that
    /// it wants by then.
    fn is_passing(self) -> bool {
        matches!(self, Self::AllPinned | Self::Uncounted | Self::Unprofiled | Self::Refused)
    }

    /// The same for whoever looks at a page.
    pub(crate) fn entry(self) -> corun_top::NoPlanEntry {
        corun_top::NoPlanEntry {
            reason: self.label(),
            what: self.what(),
            why: self.why(),
            help: self.help(),
        }
    }
}

/// What a reason follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Circumstances {
    /// There is a policy that could act.
    has_policy: bool,
    /// The policy does nothing but place threads.
    places_alone: bool,
    goes_by_counters: bool,
    goes_by_profiles: bool,
    /// Is one place as good as another, but for neighbours in private caches?
    has_one_cache: bool,
    /// Is there any thread in care, one that may run on several CPUs, one that runs, one of which something is counted, and
    /// one with a stored profile?
    has_threads: bool,
    has_movable: bool,
    has_running: bool,
    has_counted: bool,
    has_profiled: bool,
    /// At this look the policy planned something.
    has_plan: bool,
    /// All that the policy asked for last was refused.
    is_refused: bool,
}

impl Circumstances {
    /// Those after a look.
    fn of(host: &Host, tick: &Tick) -> Self {
        let is_plan =
            |verdict: &Verdict| matches!(verdict, Verdict::Done(_) | Verdict::Proposed(_));
        let several = |cpus: &CpuSet| cpus.intersection(host.online()).len() > 1;
        let is_movable =
            |one: &SampledThread<'_>| !one.thread.left_alone && several(&one.thread.may_run_on);
        let is_counted = |one: &SampledThread<'_>| {
            one.rates.instructions_per_s.is_some() || one.rates.llc_misses.is_some()
        };
        // Each question is over with the first thread of which it holds.
        let any =
            |holds: &dyn Fn(&SampledThread<'_>) -> bool| host.threads().any(|one| holds(&one));
        Self {
            has_threads: any(&|_| true),
            has_movable: any(&is_movable),
            has_running: any(&|one| one.view.state != ThreadState::Sleeping),
            has_counted: any(&is_counted),
            has_profiled: any(&|one| one.view.solo.is_some()),
            has_plan: tick.decisions.iter().any(|one| is_plan(&one.verdict)),
            ..Self::of_policy(host)
        }
    }

    /// Those of the policy and the machine alone.
    fn of_policy(host: &Host) -> Self {
        let machine = host.machine();
        let has_one_cache = machine.llcs().len() == 1 && machine.core_types().len() == 1;
        Self::of_needs(host.needs(), has_one_cache)
    }

    /// One that controls nothing is no policy that could act.
    fn of_needs<'a>(all: impl Iterator<Item = &'a Needs>, has_one_cache: bool) -> Self {
        let mut own = Self { has_one_cache, places_alone: true, ..Self::default() };
        for needs in all {
            own.has_policy |= !needs.controls.is_empty();
            let places =
                |kind: &ActionKind| matches!(kind, ActionKind::Place | ActionKind::MovePages);
            own.places_alone &= needs.controls.iter().all(places);
            own.goes_by_counters |= !needs.counters.is_empty();
            own.goes_by_profiles |= needs.solo_figures || needs.by_ways;
        }
        own
    }

    fn reason(&self) -> Option<NoPlan> {
        let reasons = [
            (NoPlan::NobodyThere, !self.has_threads),
            (NoPlan::OneCache, self.places_alone && self.has_one_cache),
            (NoPlan::NoPolicy, !self.has_policy),
            (NoPlan::AllPinned, !self.has_movable),
            (NoPlan::Uncounted, self.goes_by_counters && self.has_running && !self.has_counted),
            (NoPlan::Unprofiled, self.goes_by_profiles && !self.has_profiled),
            (NoPlan::Refused, self.is_refused),
        ];
        reasons.into_iter().find(|(_, holds)| *holds).map(|(reason, _)| reason)
    }
}

/// The reason that was told last.
#[derive(Debug, Default)]
pub(crate) struct ToldReason {
    told: Option<NoPlan>,
    /// One that is not told yet, and for how many looks it has held.
    next: Option<(NoPlan, u32)>,
    /// The policy planned something since all that it plans for were gone.
    has_planned: bool,
    /// All that the policy asked for last was refused. It may ask seldom.
    is_refused: bool,
}

impl ToldReason {
    /// The reason in force.
    pub(crate) fn now(&self) -> Option<NoPlan> {
        self.told
    }

    /// After a look: the new reason, where it is another one than before.
    pub(crate) fn news(&mut self, host: &Host, tick: &Tick) -> Option<NoPlan> {
        let mut verdicts = tick.decisions.iter().map(|one| &one.verdict).peekable();
        if verdicts.peek().is_some() {
            self.is_refused = verdicts.all(|verdict| matches!(verdict, Verdict::Refused(_)));
        }
        let found = Circumstances { is_refused: self.is_refused, ..Circumstances::of(host, tick) };
        self.after(found.reason(), found.has_plan)
    }

    fn after(&mut self, reason: Option<NoPlan>, has_plan: bool) -> Option<NoPlan> {
        self.has_planned |= has_plan;
        // What is planned and in force is asked for no more.
        let reason = reason.filter(|one| !(self.has_planned && one.is_passing()));
        if reason == self.told {
            self.next = None;
            return None;
        }
        let Some(reason) = reason else {
            // Somebody came who can be planned for.
            (self.told, self.next) = (None, None);
            return None;
        };
        let looks = match self.next {
            Some((before, looks)) if before == reason => looks + 1,
            _ => 1,
        };
        self.next = Some((reason, looks));
        if reason.is_passing() && looks < SETTLED_LOOKS {
            return None;
        }
        // Whoever comes after all have gone is planned for anew.
        let has_planned = self.has_planned && reason != NoPlan::NobodyThere;
        *self = Self { told: Some(reason), next: None, has_planned, ..*self };
        Some(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a case is about, and what differs from [`fine`].
    type Case = (NoPlan, fn(&mut Circumstances));

    /// Two threads on two caches that run and are counted, with profiles, under a policy that places them.
    fn fine() -> Circumstances {
        Circumstances {
            has_policy: true,
            places_alone: true,
            goes_by_counters: true,
            goes_by_profiles: true,
            has_one_cache: false,
            has_threads: true,
            has_movable: true,
            has_running: true,
            has_counted: true,
            has_profiled: true,
            has_plan: false,
            is_refused: false,
        }
    }

    #[test]
    fn each_reason_is_told_apart_and_the_first_that_holds_is_named() {
        assert_eq!(fine().reason(), None);
        let cases: [Case; 7] = [
            (NoPlan::Refused, |one| one.is_refused = true),
            (NoPlan::Unprofiled, |one| one.has_profiled = false),
            (NoPlan::Uncounted, |one| one.has_counted = false),
            (NoPlan::AllPinned, |one| one.has_movable = false),
            (NoPlan::NoPolicy, |one| one.has_policy = false),
            (NoPlan::OneCache, |one| one.has_one_cache = true),
            (NoPlan::NobodyThere, |one| one.has_threads = false),
        ];
        let mut all = fine();
        for (expected, change) in cases {
            let mut alone = fine();
            change(&mut alone);
            assert_eq!(alone.reason(), Some(expected));
            // Each goes before all those above.
            change(&mut all);
            assert_eq!(all.reason(), Some(expected));
        }
    }

    /// The policy that leaves all to the kernel is a policy like any other to the host.
    #[test]
    fn a_policy_that_controls_nothing_is_none() {
        let of = |name: &str| {
            let mut policies = corun_app::build_policies(name, 1).unwrap();
            let needs: Vec<Needs> = policies.iter_mut().map(|one| one.needs()).collect();
            let found = Circumstances::of_needs(needs.iter(), false);
            Circumstances { has_threads: true, has_movable: true, has_profiled: true, ..found }
        };
        assert_eq!(of("linux-default").reason(), Some(NoPlan::NoPolicy));
        assert_eq!(of("di").reason(), None);
        assert!(of("di").places_alone && !of("di+lfoc").places_alone);
    }

    #[test]
    fn what_does_not_matter_is_no_reason() {
        let partitions = Circumstances { places_alone: false, has_one_cache: true, ..fine() };
        assert_eq!(partitions.reason(), None);
        let by_profiles = Circumstances { goes_by_counters: false, has_counted: false, ..fine() };
        assert_eq!(by_profiles.reason(), None);
        let by_counters = Circumstances { goes_by_profiles: false, has_profiled: false, ..fine() };
        assert_eq!(by_counters.reason(), None);
        let asleep = Circumstances { has_running: false, has_counted: false, ..fine() };
        assert_eq!(asleep.reason(), None);
    }

    #[test]
    fn a_reason_is_told_once_and_a_passing_one_when_it_has_settled() {
        let mut told = ToldReason::default();
        let mut after = |reason| (told.after(reason, false), told.now());
        let (one_cache, pinned) = (Some(NoPlan::OneCache), Some(NoPlan::AllPinned));
        assert_eq!(after(one_cache), (one_cache, one_cache));
        assert_eq!(after(one_cache), (None, one_cache));
        let looks: Vec<Option<NoPlan>> = (0..4).map(|_| after(pinned).0).collect();
        assert_eq!(looks, [None, None, pinned, None]);
        // One look with another reason tells nothing.
        assert_eq!(after(Some(NoPlan::Uncounted)), (None, pinned));
        assert_eq!(after(pinned), (None, pinned));
        assert_eq!(after(None), (None, None));
    }

    /// Where a plan is in force the policy has nothing to ask for, until all have gone. That nothing helps is said all the
    /// same.
    #[test]
    fn after_a_plan_no_passing_reason_is_one() {
        let mut told = ToldReason::default();
        assert_eq!(told.after(None, true), None);
        let mut after = |reason| (0..3).filter_map(|_| told.after(reason, false)).next();
        assert_eq!(after(Some(NoPlan::Unprofiled)), None);
        assert_eq!(after(Some(NoPlan::OneCache)), Some(NoPlan::OneCache));
        assert_eq!(after(Some(NoPlan::Unprofiled)), None);
        assert_eq!(after(Some(NoPlan::NobodyThere)), Some(NoPlan::NobodyThere));
        assert_eq!(after(Some(NoPlan::Unprofiled)), Some(NoPlan::Unprofiled));
    }
}
