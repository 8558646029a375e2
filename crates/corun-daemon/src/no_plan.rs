//! Why nothing is planned, and what one can do: said at the start and whenever the reason changes.

use corun_live::{Host, Tick, Verdict};
use corun_machine::CpuSet;
use corun_policy::{ActionKind, ThreadState};

/// Looks for which a reason has to hold that other threads or counts may end at the next look.
const SETTLED_LOOKS: u32 = 3;

/// Why nothing is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPlan {
    /// The policy leaves all to the kernel.
    NoPolicy,
    /// No process belongs to any of the programs.
    NobodyThere,
    /// The policy places threads and does nothing else, and the machine has one last-level cache.
    OneCache,
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

    /// The reason, in a sentence without its end.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::NoPolicy => "this policy leaves all to the kernel",
            Self::NobodyThere => "no process belongs to any of the programs",
            Self::OneCache => {
                "this machine has one last-level cache: wherever threads are placed, they share it"
            }
            Self::AllPinned => {
                "each thread may run on one CPU alone: nothing can be placed elsewhere"
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

    /// May it end with the next look, since it stands on single threads or counts?
    fn is_passing(self) -> bool {
        matches!(self, Self::AllPinned | Self::Uncounted | Self::Unprofiled | Self::Refused)
    }

    /// The same for whoever looks at a page.
    pub(crate) fn entry(self) -> corun_top::NoPlanEntry {
        corun_top::NoPlanEntry { reason: self.label(), why: self.why(), help: self.help() }
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
    llcs: usize,
    /// Of the threads in care: all, those that may run on several CPUs, those that run, of these those of which something is
    /// counted, and those that have a stored profile.
    threads: usize,
    movable: usize,
    running: usize,
    counted: usize,
    profiled: usize,
    /// At this look all that the policy asked for was refused.
    is_refused: bool,
}

impl Circumstances {
    /// Those after a look; none where the policy planned something in it.
    fn of(host: &Host, tick: &Tick) -> Option<Self> {
        let is_plan =
            |verdict: &Verdict| matches!(verdict, Verdict::Done(_) | Verdict::Proposed(_));
        if tick.decisions.iter().any(|one| is_plan(&one.verdict)) {
            return None;
        }
        let mut own = Self::of_policy(host);
        let is_refused = |verdict: &Verdict| matches!(verdict, Verdict::Refused(_));
        own.is_refused =
            !tick.decisions.is_empty() && tick.decisions.iter().all(|one| is_refused(&one.verdict));
        let several = |cpus: &CpuSet| cpus.intersection(host.online()).len() > 1;
        for one in host.threads() {
            own.threads += 1;
            own.movable += usize::from(!one.thread.left_alone && several(&one.thread.may_run_on));
            own.profiled += usize::from(one.view.solo.is_some());
            if one.view.state != ThreadState::Sleeping {
                own.running += 1;
                let rates = &one.rates;
                let is_counted = rates.instructions_per_s.is_some() || rates.llc_misses.is_some();
                own.counted += usize::from(is_counted);
            }
        }
        Some(own)
    }

    /// Those of the policy and the machine alone.
    fn of_policy(host: &Host) -> Self {
        let mut own =
            Self { llcs: host.machine().llcs().len(), places_alone: true, ..Self::default() };
        for needs in host.needs() {
            own.has_policy = true;
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
            (NoPlan::NoPolicy, !self.has_policy),
            (NoPlan::NobodyThere, self.threads == 0),
            (NoPlan::OneCache, self.places_alone && self.llcs == 1),
            (NoPlan::AllPinned, self.movable == 0),
            (NoPlan::Uncounted, self.goes_by_counters && self.running > 0 && self.counted == 0),
            (NoPlan::Unprofiled, self.goes_by_profiles && self.profiled == 0),
            (NoPlan::Refused, self.is_refused),
        ];
        reasons.into_iter().find(|(_, holds)| *holds).map(|(reason, _)| reason)
    }
}

/// The reason that follows from the policy and the machine alone, before anybody was looked at.
pub(crate) fn beforehand(host: &Host) -> Option<NoPlan> {
    let lasting = |reason: &NoPlan| matches!(reason, NoPlan::NoPolicy | NoPlan::OneCache);
    Circumstances { threads: 1, ..Circumstances::of_policy(host) }.reason().filter(lasting)
}

/// The reason that was told last.
#[derive(Debug, Default)]
pub(crate) struct ToldReason {
    told: Option<NoPlan>,
    /// One that is not told yet, and for how many looks it has held.
    next: Option<(NoPlan, u32)>,
    /// The policy planned something since all that it plans for were gone.
    has_planned: bool,
}

impl ToldReason {
    /// The reason in force.
    pub(crate) fn now(&self) -> Option<NoPlan> {
        self.told
    }

    /// After a look: the new reason, where it is another one than before.
    pub(crate) fn news(&mut self, host: &Host, tick: &Tick) -> Option<NoPlan> {
        self.after(Circumstances::of(host, tick).map(|found| found.reason()))
    }

    /// `found`: the reason of a look, if any; none where the policy planned something.
    fn after(&mut self, found: Option<Option<NoPlan>>) -> Option<NoPlan> {
        let Some(reason) = found else {
            // A plan that is carried out needs no other for a while.
            *self = Self { has_planned: true, ..Self::default() };
            return None;
        };
        let reason = reason.filter(|one| *one == NoPlan::NobodyThere || !self.has_planned);
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
        *self = Self { told: Some(reason), ..Self::default() };
        Some(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads on two caches that run and are counted, with profiles, under a policy that places them.
    fn fine() -> Circumstances {
        Circumstances {
            has_policy: true,
            places_alone: true,
            goes_by_counters: true,
            goes_by_profiles: true,
            llcs: 2,
            threads: 2,
            movable: 2,
            running: 2,
            counted: 2,
            profiled: 2,
            is_refused: false,
        }
    }

    #[test]
    fn each_reason_is_told_apart_and_the_first_that_holds_is_named() {
        assert_eq!(fine().reason(), None);
        let cases: [(NoPlan, fn(&mut Circumstances)); 7] = [
            (NoPlan::Refused, |one| one.is_refused = true),
            (NoPlan::Unprofiled, |one| one.profiled = 0),
            (NoPlan::Uncounted, |one| one.counted = 0),
            (NoPlan::AllPinned, |one| one.movable = 0),
            (NoPlan::OneCache, |one| one.llcs = 1),
            (NoPlan::NobodyThere, |one| one.threads = 0),
            (NoPlan::NoPolicy, |one| one.has_policy = false),
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

    #[test]
    fn what_does_not_matter_is_no_reason() {
        let partitions = Circumstances { places_alone: false, llcs: 1, ..fine() };
        assert_eq!(partitions.reason(), None);
        let by_profiles = Circumstances { goes_by_counters: false, counted: 0, ..fine() };
        assert_eq!(by_profiles.reason(), None);
        let by_counters = Circumstances { goes_by_profiles: false, profiled: 0, ..fine() };
        assert_eq!(by_counters.reason(), None);
        let asleep = Circumstances { running: 0, counted: 0, ..fine() };
        assert_eq!(asleep.reason(), None);
    }

    #[test]
    fn a_reason_is_told_once_and_a_passing_one_when_it_has_settled() {
        let mut told = ToldReason::default();
        let one_cache = Some(Some(NoPlan::OneCache));
        assert_eq!(told.after(one_cache), Some(NoPlan::OneCache));
        assert_eq!((told.after(one_cache), told.now()), (None, Some(NoPlan::OneCache)));
        let pinned = Some(Some(NoPlan::AllPinned));
        let after: Vec<Option<NoPlan>> = (0..4).map(|_| told.after(pinned)).collect();
        assert_eq!(after, [None, None, Some(NoPlan::AllPinned), None]);
        // One look with another reason tells nothing.
        assert_eq!(told.after(Some(Some(NoPlan::Uncounted))), None);
        assert_eq!((told.after(pinned), told.now()), (None, Some(NoPlan::AllPinned)));
        assert_eq!((told.after(Some(None)), told.now()), (None, None));
    }

    /// Where a plan is in force the policy has nothing to ask for, until all have gone.
    #[test]
    fn after_a_plan_nothing_is_a_reason_but_that_nobody_is_there() {
        let mut told = ToldReason::default();
        assert_eq!(told.after(None), None);
        let one_cache = Some(Some(NoPlan::OneCache));
        assert_eq!((told.after(one_cache), told.now()), (None, None));
        assert_eq!(told.after(Some(Some(NoPlan::NobodyThere))), Some(NoPlan::NobodyThere));
        assert_eq!(told.after(one_cache), Some(NoPlan::OneCache));
    }
}
