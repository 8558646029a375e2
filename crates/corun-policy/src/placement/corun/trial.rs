//! Trials: a program without a profile gets more or fewer ways for a moment, where what it does with them may
//! change how its LLC is divided.
//!
//! A trial begins while nothing else is worth a change. It has a division that would pay with curves that are as
//! likely as the likely ones, but not surely: the program whose curve makes that least sure gets the ways that the
//! division has for it, the others on the LLC share the rest. A part of an interval fills the cache, another is
//! counted, and the counts are points of the curves of all of them ([`super::curve`]).

use std::collections::{BTreeMap, BTreeSet};

use corun_machine::Machine;

use crate::Nanoseconds;

/// Parts of an interval in which the cache fills, and in which is counted then.
pub(super) const SETTLING_PART: f64 = 0.05;
pub(super) const COUNTING_PART: f64 = 0.1;
/// What a trial takes of an interval.
pub(super) const TRIAL_PART: f64 = SETTLING_PART + COUNTING_PART;
/// The same is tried or checked again after this time at the earliest.
const AGAIN_S: f64 = 60.0;
/// Most trials of a program in that time.
const MOST_OF_A_PROGRAM: usize = 4;

/// The programs of each LLC that somebody comes to or leaves, in an order that does not tell LLCs apart.
pub(super) type Companions = Vec<Vec<String>>;

/// Who would be together on these LLCs, of all threads their programs and the CPUs (indices) where they would be.
pub(super) fn companions<'a>(
    machine: &Machine,
    llcs: &BTreeSet<usize>,
    places: impl Iterator<Item = (&'a str, usize)>,
) -> Companions {
    let mut groups: BTreeMap<usize, Vec<String>> =
        llcs.iter().map(|&llc| (llc, Vec::new())).collect();
    for (program, cpu) in places {
        if let Some(group) = groups.get_mut(&machine.cpus()[cpu].llc) {
            group.push(program.to_owned());
        }
    }
    let mut groups: Companions = groups.into_values().collect();
    groups.iter_mut().for_each(|group| group.sort_unstable());
    groups.sort_unstable();
    groups
}

/// What was done of late, and when.
#[derive(Debug)]
pub(super) struct Recent<K>(BTreeMap<K, Nanoseconds>);

impl<K> Default for Recent<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Recent<K> {
    pub(super) fn has(&self, what: &K, now: Nanoseconds) -> bool {
        self.0.get(what).is_some_and(|&at| is_recent(at, now))
    }

    pub(super) fn add(&mut self, what: K, now: Nanoseconds) {
        self.0.retain(|_, at| is_recent(*at, now));
        self.0.insert(what, now);
    }

    fn all(&self, now: Nanoseconds) -> impl Iterator<Item = &K> {
        self.0.iter().filter(move |(_, at)| is_recent(**at, now)).map(|(what, _)| what)
    }
}

fn is_recent(at: Nanoseconds, now: Nanoseconds) -> bool {
    now.as_secs_f64() < at.as_secs_f64() + AGAIN_S
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Settling,
    Counting,
}

/// Which trials there were, and the one that is on.
#[derive(Debug)]
pub(super) struct Trials {
    /// Of ways, and of places.
    are_on: [bool; 2],
    interval_s: f64,
    stage: Option<Stage>,
    /// Programs with so many ways.
    tried: Recent<(String, u32)>,
    placed: Recent<Companions>,
}

impl Trials {
    /// By the policy's parameter.
    pub(super) fn new(which: f64) -> Self {
        let are_on = [which >= 1.0, which >= 2.0];
        Self {
            are_on,
            interval_s: 0.0,
            stage: None,
            tried: Recent::default(),
            placed: Recent::default(),
        }
    }

    /// Are other ways tried, and better places checked?
    pub(super) fn of_ways(&self) -> bool {
        self.are_on[0]
    }

    /// Are other places tried?
    pub(super) fn of_places(&self) -> bool {
        self.are_on[1]
    }

    /// May a program be tried with so many ways?
    pub(super) fn may(&self, program: &str, ways: u32, now: Nanoseconds) -> bool {
        let own = self.tried.all(now).filter(|(name, _)| name == program);
        let recent: Vec<u32> = own.map(|&(_, ways)| ways).collect();
        recent.len() < MOST_OF_A_PROGRAM && !recent.contains(&ways)
    }

    /// A trial begins; `interval_s`: the time between two decisions else.
    pub(super) fn begin(&mut self, program: &str, ways: u32, now: Nanoseconds, interval_s: f64) {
        self.tried.add((program.to_owned(), ways), now);
        (self.stage, self.interval_s) = (Some(Stage::Settling), interval_s);
    }

    /// May these programs be put together on LLCs on trial?
    pub(super) fn may_place(&self, together: &Companions, now: Nanoseconds) -> bool {
        !self.placed.has(together, now)
    }

    /// A trial of a placement begins.
    pub(super) fn begin_places(&mut self, together: Companions, now: Nanoseconds, interval_s: f64) {
        self.placed.add(together, now);
        (self.stage, self.interval_s) = (Some(Stage::Settling), interval_s);
    }

    /// Does the cache of a trial still fill?
    pub(super) fn is_settling(&self) -> bool {
        self.stage == Some(Stage::Settling)
    }

    /// Is a trial counted?
    pub(super) fn is_counting(&self) -> bool {
        self.stage == Some(Stage::Counting)
    }

    /// From now on the trial's counts count.
    pub(super) fn begin_counting(&mut self) {
        self.stage = Some(Stage::Counting);
    }

    /// The trial that is on, if one is, has ended.
    pub(super) fn end(&mut self) {
        self.stage = None;
    }

    /// How long until the next look; none where no trial is on.
    pub(super) fn next_interval(&self) -> Option<Nanoseconds> {
        let part = match self.stage? {
            Stage::Settling => SETTLING_PART,
            Stage::Counting => COUNTING_PART,
        };
        Some(Nanoseconds::from_secs_f64((part * self.interval_s).max(1e-6)))
    }
}

#[cfg(test)]
mod tests {
    use corun_machine::preset;

    use super::*;

    /// An interval of 0.5 s: 25 ms to settle, 50 ms to count. The same ways are not tried again within a minute,
    /// and no more than four numbers of ways.
    #[test]
    fn a_trial_settles_counts_and_ends() {
        let mut trials = Trials::new(2.0);
        assert_eq!((trials.next_interval(), trials.is_settling()), (None, false));
        let second = |at: f64| Nanoseconds::from_secs_f64(at);
        trials.begin("x", 3, second(1.0), 0.5);
        assert_eq!((trials.next_interval(), trials.is_settling()), (Some(second(0.025)), true));
        trials.begin_counting();
        assert_eq!((trials.next_interval(), trials.is_settling()), (Some(second(0.05)), false));
        trials.end();
        assert_eq!(trials.next_interval(), None);
        assert!(!trials.may("x", 3, second(60.9)) && trials.may("x", 3, second(61.1)));
        assert!(trials.may("x", 4, second(2.0)) && trials.may("y", 3, second(2.0)));
        for ways in 4..7 {
            trials.begin("x", ways, second(2.0), 0.5);
        }
        assert!(!trials.may("x", 9, second(3.0)) && trials.may("y", 9, second(3.0)));
        let [one, other] = ["x", "y"].map(|name| vec![vec![name.to_owned()], Vec::new()]);
        trials.begin_places(one.clone(), second(4.0), 0.5);
        assert!(trials.is_settling() && !trials.may_place(&one, second(63.9)));
        assert!(trials.may_place(&one, second(64.1)) && trials.may_place(&other, second(5.0)));
    }

    /// On two LLCs of two CPUs, b and c change places; only their LLCs count, and the order of LLCs does not.
    #[test]
    fn companions_are_those_on_the_llcs_that_change() {
        let machine = preset("xeon-x5365").unwrap();
        let llc = |cpu: usize| machine.cpus()[cpu].llc;
        let on = |of: usize, nth: usize| (0..8).filter(|&cpu| llc(cpu) == of).nth(nth).unwrap();
        let places =
            [("a", on(0, 0)), ("b", on(1, 0)), ("c", on(0, 1)), ("d", on(1, 1)), ("e", on(2, 0))];
        let together = companions(&machine, &BTreeSet::from([0, 1]), places.into_iter());
        assert_eq!(together, [["a", "c"], ["b", "d"]]);
    }

    #[test]
    fn which_trials_are_made_is_a_parameter() {
        let on = [0.0, 1.0, 2.0].map(Trials::new).map(|one| (one.of_ways(), one.of_places()));
        assert_eq!(on, [(false, false), (true, false), (true, true)]);
    }
}
