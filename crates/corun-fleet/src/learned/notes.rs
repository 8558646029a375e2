//! What an agent publishes of what it learned, and when: few updates of few bytes.

use std::collections::BTreeMap;

use corun_policy::LearnedProgram;

use super::{LEAST_CONFIDENCE, LearnedEntry, LearnedReport, MOST_NAME, MOST_PROGRAMS};

/// Seconds between two updates.
const LEAST_S: u64 = 300;
/// The same where a program comes that was not published yet.
const LEAST_FOR_NEW_S: u64 = 60;
/// A program that is counted is published again after so many seconds, so that it does not grow old.
const REFRESH_S: u64 = 6 * 3600;
/// A figure that changed by this share of itself is worth an update, and so is a confidence that changed by so much.
const CHANGED_SHARE: f64 = 0.25;
const CHANGED_CONFIDENCE: f64 = 0.1;
/// The least change of misses that is worth one.
const LEAST_MPKI: f64 = 0.5;

/// What a node's annotation says of learned profiles, and when that is worth an update.
#[derive(Debug, Clone)]
pub struct LearnedNotes {
    machine: String,
    published: Vec<LearnedEntry>,
    published_at_s: Option<u64>,
}

/// An update of a node's annotation.
#[derive(Debug, Clone)]
pub struct LearnedUpdate {
    report: LearnedReport,
}

impl LearnedUpdate {
    /// The annotation's text.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(&self.report).expect("a report has string keys alone")
    }
}

impl LearnedNotes {
    /// Of an agent that begins, on a machine of this name. `annotation` is what the node's object says: what an agent
    /// before this one learned is kept until something surer is known. What cannot be read is not kept.
    pub fn resume(machine: &str, annotation: Option<&str>) -> Self {
        let read = annotation.and_then(|text| LearnedReport::read(text).ok());
        let published = read.filter(|read| read.machine == machine).map(|read| read.programs);
        let published = published.unwrap_or_default();
        Self { machine: machine.to_owned(), published, published_at_s: None }
    }

    /// What is worth an update at `clock_s` of a clock that does not jump; `now_s` is the time since 1970. `running` are
    /// the programs that were counted since the last look.
    pub fn due(
        &self,
        clock_s: u64,
        now_s: u64,
        running: &[(String, LearnedProgram)],
    ) -> Option<LearnedUpdate> {
        let programs = self.merged(now_s, running);
        let old = |new: &LearnedEntry| self.published.iter().find(|old| old.profile == new.profile);
        let is_new = programs.iter().any(|new| old(new).is_none());
        let is_gone = programs.len() < self.published.len();
        let is_other =
            || programs.iter().any(|new| old(new).is_some_and(|old| is_worth_an_update(old, new)));
        if !(is_new || is_gone || is_other()) {
            return None;
        }
        let wait_s = if is_new { LEAST_FOR_NEW_S } else { LEAST_S };
        let is_early = self.published_at_s.is_some_and(|at_s| clock_s < at_s + wait_s);
        let report = LearnedReport::new(&self.machine, programs);
        (!is_early).then_some(LearnedUpdate { report })
    }

    /// The update was published.
    pub fn published(&mut self, clock_s: u64, update: LearnedUpdate) {
        self.published = update.report.programs;
        self.published_at_s = Some(clock_s);
    }

    /// Of each program the surer of what is known now and what was published; of too many, those that run and are surest.
    fn merged(&self, now_s: u64, running: &[(String, LearnedProgram)]) -> Vec<LearnedEntry> {
        let is_sure = |one: &LearnedEntry| one.confidence(now_s) >= LEAST_CONFIDENCE;
        let known = self.published.iter().filter(|one| is_sure(one)).cloned();
        let mut all: BTreeMap<String, (bool, LearnedEntry)> =
            known.map(|one| (one.profile.clone(), (false, one))).collect();
        for (profile, learned) in running.iter().filter(|one| one.0.len() <= MOST_NAME) {
            let new = LearnedEntry::new(profile, learned, now_s);
            let before = all.get(profile).map_or(0.0, |(_, old)| old.confidence(now_s));
            if is_sure(&new) && new.confidence >= before {
                all.insert(profile.clone(), (true, new));
            } else if let Some((runs, _)) = all.get_mut(profile) {
                *runs = true;
            }
        }
        let mut all: Vec<(bool, LearnedEntry)> = all.into_values().collect();
        let sureness = |(runs, one): &(bool, LearnedEntry)| (*runs, one.confidence(now_s));
        all.sort_by(|a, b| {
            let ((a_runs, a_sure), (b_runs, b_sure)) = (sureness(a), sureness(b));
            b_runs.cmp(&a_runs).then(b_sure.total_cmp(&a_sure))
        });
        all.truncate(MOST_PROGRAMS);
        let mut programs: Vec<LearnedEntry> = all.into_iter().map(|one| one.1).collect();
        programs.sort_by(|a, b| a.profile.cmp(&b.profile));
        programs
    }
}

fn is_worth_an_update(old: &LearnedEntry, new: &LearnedEntry) -> bool {
    let far = |a: f64, b: f64, least: f64| (a - b).abs() > least.max(CHANGED_SHARE * a);
    let mut misses = old.llc_mpki.iter().zip(&new.llc_mpki);
    new.at >= old.at + REFRESH_S
        || (new.confidence - old.confidence).abs() >= CHANGED_CONFIDENCE
        || far(old.core_cpi, new.core_cpi, 0.0)
        || far(old.llc_apki, new.llc_apki, LEAST_MPKI)
        || misses.any(|(&old, &new)| far(old, new, LEAST_MPKI))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_pcg::Pcg64;

    use super::*;
    use crate::learned::tests::learned;

    fn one(mpki: f64, confidence: f64) -> Vec<(String, LearnedProgram)> {
        vec![("web".to_owned(), learned(mpki, confidence))]
    }

    fn names(update: &LearnedUpdate) -> Vec<&str> {
        update.report.programs.iter().map(|one| one.profile.as_str()).collect()
    }

    #[test]
    fn what_changed_decides_how_soon() {
        let mut notes = LearnedNotes::resume("m", None);
        assert!(notes.due(0, 1000, &[]).is_none());
        assert!(notes.due(0, 1000, &one(10.0, 0.19)).is_none(), "too unsure");
        let first = notes.due(0, 1000, &one(10.0, 0.5)).unwrap();
        notes.published(0, first);
        // Nothing new, a fifth more misses, a little surer.
        for same in [one(10.0, 0.5), one(12.0, 0.5), one(10.0, 0.59)] {
            assert!(notes.due(10_000, 11_000, &same).is_none());
        }
        for other in [one(13.0, 0.5), one(10.0, 0.61)] {
            assert!(notes.due(299, 1299, &other).is_none());
            assert!(notes.due(300, 1300, &other).is_some());
        }
        // The same program, counted for six hours more.
        assert!(notes.due(21_599, 22_599, &one(10.0, 0.5)).is_none());
        assert!(notes.due(21_600, 22_600, &one(10.0, 0.5)).is_some());
        let mut two = one(10.0, 0.5);
        two.push(("db".to_owned(), learned(3.0, 0.9)));
        assert!(notes.due(59, 1059, &two).is_none() && notes.due(60, 1060, &two).is_some());
    }

    #[test]
    fn an_agent_that_begins_anew_forgets_nothing_that_is_surer() {
        let mut before = LearnedNotes::resume("m", None);
        let sure = before.due(0, 1000, &one(10.0, 0.9)).unwrap();
        let text = sure.text();
        before.published(0, sure);
        let after = LearnedNotes::resume("m", Some(&text));
        assert!(after.due(0, 2000, &one(30.0, 0.5)).is_none());
        let surer = after.due(0, 2000, &one(30.0, 0.91)).unwrap();
        assert!(surer.text().contains("\"at\":2000"));
        // After a day the old one is half as sure.
        assert!(after.due(0, 1000 + 86_400, &one(30.0, 0.5)).is_some());
        // Two days and a half later it is not worth its room.
        let gone = after.due(0, 1000 + 220_000, &[]).unwrap();
        assert_eq!(names(&gone), [] as [&str; 0]);
        // What another machine or nobody wrote is not kept.
        for (machine, text) in [("other", text.as_str()), ("m", "nonsense")] {
            let none = LearnedNotes::resume(machine, Some(text));
            assert_eq!(names(&none.due(0, 2000, &one(30.0, 0.5)).unwrap()), ["web"]);
        }
    }

    #[test]
    fn of_many_those_that_run_and_are_surest_stay() {
        let many = |from: usize| -> Vec<(String, LearnedProgram)> {
            let named = |at: usize| (format!("p{at:02}"), learned(5.0, 0.3 + 0.02 * at as f64));
            (from..from + 12).map(named).collect()
        };
        let mut notes = LearnedNotes::resume("m", None);
        let first = notes.due(0, 1000, &many(0)).unwrap();
        assert_eq!(names(&first), ["p04", "p05", "p06", "p07", "p08", "p09", "p10", "p11"]);
        notes.published(0, first);
        let next = notes.due(60, 1060, &many(0)[..3]).unwrap();
        assert_eq!(names(&next), ["p00", "p01", "p02", "p07", "p08", "p09", "p10", "p11"]);
    }

    /// Whatever is counted: at most one update in a minute, one in five while the same programs run, and one in six
    /// hours at least.
    #[test]
    fn updates_are_few_whatever_is_counted() {
        let mut random = Pcg64::seed_from_u64(1);
        for churns in [true, false] {
            let mut notes = LearnedNotes::resume("m", None);
            let mut updates: Vec<u64> = Vec::new();
            for now_s in (0..100_000).step_by(10) {
                let count = if churns { random.random_range(0..9) } else { 3 };
                let learned = |at: usize| {
                    let mpki = random.random_range(0.0..40.0);
                    (at.to_string(), learned(mpki, 0.9))
                };
                let running: Vec<(String, LearnedProgram)> = (0..count).map(learned).collect();
                if let Some(update) = notes.due(now_s, 1_000_000 + now_s, &running) {
                    assert!(update.text().len() < 3 << 10);
                    notes.published(now_s, update);
                    updates.push(now_s);
                }
            }
            let gaps: Vec<u64> = updates.windows(2).map(|two| two[1] - two[0]).collect();
            let least = if churns { 60 } else { 300 };
            assert!(gaps.iter().all(|gap| *gap >= least), "{gaps:?}");
            assert!(!gaps.is_empty() && gaps.iter().all(|gap| *gap <= REFRESH_S), "{gaps:?}");
        }
    }
}
