//! What a policy asked the host for on one LLC, and what of it is in force.

use std::collections::BTreeSet;

use crate::{Action, CachePart, Plan, ThreadId, View};

/// Ways and caps on memory traffic of one LLC.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Division {
    pub(crate) parts: Vec<CachePart>,
    /// Threads that are capped together, and their cap in MB/s (1e6 bytes a second).
    pub(crate) caps: Vec<(Vec<ThreadId>, f64)>,
}

/// What is in force on one LLC as far as the policy knows. An order that the host did not carry out is repeated in the
/// policy's next interval, and not at each event until then.
#[derive(Debug, Default)]
pub(crate) struct InForce {
    division: Division,
    /// The last order of ways is not in force.
    are_parts_refused: bool,
    /// Threads of an order of caps that is not in force: they may have another cap, or none.
    of_refused_caps: BTreeSet<ThreadId>,
    /// An interval of the policy has ended since a refusal: it is time to ask again.
    is_time: bool,
}

impl InForce {
    /// Adds to the plan the steps that lead from what is in force on this LLC to what shall be. `why` is the
    /// reason, `why_capped` what precedes it at a cap.
    pub(crate) fn ask(
        &mut self,
        (llc, division): (usize, Division),
        why: impl Fn() -> String,
        why_capped: &str,
        view: &View<'_>,
        plan: &mut Plan,
    ) {
        let before = std::mem::replace(&mut self.division, division);
        let parts = &self.division.parts;
        let is_time = std::mem::take(&mut self.is_time);
        if *parts != before.parts || self.are_parts_refused && is_time {
            self.are_parts_refused = false;
            plan.push(Action::Partition { llc, parts: parts.clone() }, why());
        }
        let mut free: BTreeSet<ThreadId> =
            before.caps.iter().flat_map(|(threads, _)| threads).copied().collect();
        if is_time {
            free.append(&mut self.of_refused_caps);
        }
        let waits = |(threads, _): &(Vec<ThreadId>, f64)| {
            threads.iter().any(|one| self.of_refused_caps.contains(one))
        };
        self.division.caps.retain(|cap| !waits(cap));
        let caps = &self.division.caps;
        let is_capped = |one: &ThreadId| caps.iter().any(|(threads, _)| threads.contains(one));
        free.retain(|one| !is_capped(one) && view.thread(*one).is_some());
        if !free.is_empty() {
            let action =
                Action::CapBandwidth { threads: free.into_iter().collect(), mb_per_s: None };
            plan.push(action, format!("no longer capped; {}", why()));
        }
        let is_new = |cap: &&(Vec<ThreadId>, f64)| !before.caps.contains(cap);
        for (threads, mb_per_s) in caps.iter().filter(is_new) {
            let action =
                Action::CapBandwidth { threads: threads.clone(), mb_per_s: Some(*mb_per_s) };
            plan.push(action, format!("{why_capped} at {mb_per_s:.0} MB/s; {}", why()));
        }
    }

    /// The policy's interval is over. True where an order is to be repeated.
    pub(crate) fn begin_interval(&mut self) -> bool {
        self.is_time = self.are_parts_refused || !self.of_refused_caps.is_empty();
        self.is_time
    }

    /// An action is not in force. `own` is the LLC's index, `is_here` says which threads are on it: actions of other
    /// LLCs change nothing.
    pub(crate) fn not_in_force(
        &mut self,
        own: usize,
        is_here: impl Fn(&ThreadId) -> bool,
        action: &Action,
    ) {
        match action {
            Action::Partition { llc, .. } => self.are_parts_refused |= *llc == own,
            Action::CapBandwidth { threads, .. } if threads.iter().any(is_here) => {
                let is_of_it = |one: &ThreadId| threads.contains(one);
                // What is not among the caps is asked for again.
                self.division.caps.retain(|(capped, _)| !capped.iter().any(is_of_it));
                self.of_refused_caps.extend(threads);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Nanoseconds, ProcessId, ThreadView};

    struct Bench {
        machine: corun_machine::Machine,
        threads: Vec<ThreadView>,
        in_force: InForce,
    }

    impl Bench {
        /// Two threads.
        fn new() -> Self {
            let machine = corun_machine::preset("xeon-gold-6138").unwrap();
            let thread =
                |id| ThreadView::new(ThreadId(id), ProcessId(id), "program", &machine.cpu_set());
            let threads = (0..2).map(thread).collect();
            Self { machine, threads, in_force: InForce::default() }
        }

        /// The actions that lead to a mask and a cap of the first thread.
        fn asks(&mut self, mask: u64, cap: Option<f64>) -> Vec<Action> {
            let first = vec![ThreadId(0)];
            let parts = vec![CachePart { mask, threads: first.clone() }];
            let division =
                Division { parts, caps: cap.into_iter().map(|cap| (first.clone(), cap)).collect() };
            let now = Nanoseconds(0);
            let view = View { machine: &self.machine, threads: &self.threads, now };
            let mut plan = Plan::none();
            self.in_force.ask((0, division), || "why".to_owned(), "capped", &view, &mut plan);
            plan.steps.into_iter().map(|step| step.action).collect()
        }

        fn refuses(&mut self, action: &Action) {
            self.in_force.not_in_force(0, |_| true, action);
        }
    }

    fn ways(mask: u64) -> Action {
        let parts = vec![CachePart { mask, threads: vec![ThreadId(0)] }];
        Action::Partition { llc: 0, parts }
    }

    fn cap(mb_per_s: Option<f64>) -> Action {
        Action::CapBandwidth { threads: vec![ThreadId(0)], mb_per_s }
    }

    #[test]
    fn what_is_in_force_is_not_asked_for_again() {
        let mut bench = Bench::new();
        assert_eq!(bench.asks(1, Some(5.0)), [ways(1), cap(Some(5.0))]);
        assert!(!bench.in_force.begin_interval());
        assert_eq!(bench.asks(1, Some(5.0)), []);
        assert_eq!(bench.asks(1, Some(6.0)), [cap(Some(6.0))]);
        assert_eq!(bench.asks(1, None), [cap(None)]);
    }

    #[test]
    fn refused_ways_are_asked_for_again_once_an_interval() {
        let mut bench = Bench::new();
        bench.asks(1, None);
        bench.refuses(&ways(1));
        assert_eq!(bench.asks(1, None), [], "an event");
        for _ in 0..2 {
            assert!(bench.in_force.begin_interval());
            assert_eq!(bench.asks(1, None), [ways(1)]);
            bench.refuses(&ways(1));
        }
        assert_eq!(bench.asks(3, None), [ways(3)], "others are asked for at once");
    }

    #[test]
    fn a_refused_cap_is_set_or_lifted_in_the_next_interval() {
        for wanted in [Some(5.0), Some(6.0), None] {
            let mut bench = Bench::new();
            bench.asks(1, Some(5.0));
            bench.refuses(&cap(Some(5.0)));
            assert_eq!(bench.asks(1, wanted), [], "an event");
            assert!(bench.in_force.begin_interval());
            assert_eq!(bench.asks(1, wanted), [cap(wanted)]);
            assert!(!bench.in_force.begin_interval());
            assert_eq!(bench.asks(1, wanted), []);
        }
        // So it is where lifting is refused.
        let mut bench = Bench::new();
        bench.asks(1, Some(5.0));
        bench.asks(1, None);
        bench.refuses(&cap(None));
        assert!(bench.in_force.begin_interval());
        assert_eq!(bench.asks(1, None), [cap(None)]);
        assert_eq!(bench.asks(1, None), []);
    }

    #[test]
    fn actions_of_other_llcs_change_nothing() {
        let mut bench = Bench::new();
        bench.asks(1, Some(5.0));
        bench.in_force.not_in_force(
            0,
            |one| *one == ThreadId(0),
            &Action::Partition { llc: 1, parts: Vec::new() },
        );
        let other = Action::CapBandwidth { threads: vec![ThreadId(1)], mb_per_s: None };
        bench.in_force.not_in_force(0, |one| *one == ThreadId(0), &other);
        assert!(!bench.in_force.begin_interval());
        assert_eq!(bench.asks(1, Some(5.0)), []);
    }
}
