//! Who wakes a program, and where the waker runs: programs that wake each other often share data, and a wake-up from
//! another LLC takes longer.

use std::collections::BTreeMap;

use corun_machine::Machine;

use super::advice::{advice, run_on};
use super::causes::percent;
use super::diagnosis::{Advice, FarPartner, Unknown, UnknownKind};
use super::facts::{CountedWakeups, ProgramFacts, UncountedWakeups, WakePartner};

/// Wake-ups a second from which on it matters from where they come. One from another LLC takes some microseconds longer:
/// so many take some tenths of a percent of a CPU.
const LEAST_WAKEUPS_PER_S: f64 = 500.0;
/// Share of a program's wake-ups from which on a partner has most of them.
const MOSTLY: f64 = 0.5;

/// How often one thread woke another while a program was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeCount {
    /// The kernel's number of the thread that woke the other.
    pub waker: u32,
    /// The kernel's number of the thread that was woken.
    pub wakee: u32,
    /// How often.
    pub count: u64,
}

/// A thread and where it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenThread {
    /// Its process.
    pub pid: u32,
    /// The name of its process.
    pub name: String,
    /// Its LLC at the beginning and at the end; none where the thread was not there or on no CPU of the machine.
    pub llcs: [Option<usize>; 2],
}

/// What two programs share.
#[derive(Default)]
struct Shared {
    count: u64,
    across: u64,
    has_moved: bool,
    /// Wake-ups across LLCs by the partner's LLC, and by the program's own.
    theirs: BTreeMap<usize, u64>,
    own: BTreeMap<usize, u64>,
}

impl CountedWakeups {
    /// Of the program with the processes `pids`. `threads`: all that were seen, by the kernel's number; whoever woke a
    /// thread and is not among them, such as an interrupt or a thread of the kernel, is nobody's partner.
    pub fn of(
        pids: &[u32],
        counts: &[WakeCount],
        threads: &BTreeMap<u32, SeenThread>,
        machine: &Machine,
        interval_s: f64,
    ) -> Self {
        let per_s = |count: u64| count as f64 / interval_s.max(1e-9);
        let is_own =
            |thread: Option<&SeenThread>| thread.is_some_and(|one| pids.contains(&one.pid));
        let mut all = 0;
        let mut by_pid: BTreeMap<u32, (&str, Shared)> = BTreeMap::new();
        for one in counts {
            let (waker, wakee) = (threads.get(&one.waker), threads.get(&one.wakee));
            let (own, other) = match (is_own(waker), is_own(wakee)) {
                (false, false) => continue,
                (true, false) => (waker, wakee),
                (false, true) => (wakee, waker),
                (true, true) => (None, None),
            };
            all += one.count;
            let (Some(own), Some(other)) = (own, other) else { continue };
            let shared = &mut by_pid.entry(other.pid).or_insert((&other.name, Shared::default())).1;
            shared.count += one.count;
            if let (Some(here), Some(there)) = (own.llcs[1], other.llcs[1])
                && here != there
            {
                shared.across += one.count;
                shared.has_moved |= [own, other].iter().any(|one| one.llcs[0] != one.llcs[1]);
                *shared.own.entry(here).or_default() += one.count;
                *shared.theirs.entry(there).or_default() += one.count;
            }
        }
        let first = by_pid.into_iter().max_by_key(|(pid, (_, shared))| {
            (shared.count, shared.across, std::cmp::Reverse(*pid))
        });
        let partner = first.map(|(pid, (name, shared))| {
            let llc = most(&shared.theirs);
            WakePartner {
                pid,
                name: name.to_owned(),
                per_s: per_s(shared.count),
                across_llcs_per_s: per_s(shared.across),
                stayed: !shared.has_moved,
                llc,
                llc_cpus: machine.llcs().get(llc).map(|llc| llc.cpus.clone()).unwrap_or_default(),
                own_llc: most(&shared.own),
            }
        });
        Self { per_s: per_s(all), partner }
    }
}

fn most(counts: &BTreeMap<usize, u64>) -> usize {
    let most = counts.iter().max_by_key(|(llc, count)| (**count, std::cmp::Reverse(**llc)));
    most.map_or(0, |(llc, _)| *llc)
}

/// The program's partner, where the two share most of the program's wake-ups, and most of those go from LLC to LLC.
pub(super) fn far_partner(facts: &ProgramFacts) -> Option<FarPartner> {
    let counted = facts.wakeups.counted.as_ref()?;
    let partner = counted.partner.as_ref()?;
    let across = partner.across_llcs_per_s;
    if across < LEAST_WAKEUPS_PER_S || across < MOSTLY * counted.per_s {
        return None;
    }
    let WakePartner { pid, name, llc, own_llc, .. } = partner;
    let places = if partner.stayed {
        "Counted by corun's scheduler in the kernel; both were on these LLCs at the beginning and at the end."
    } else {
        "Counted by corun's scheduler in the kernel; where they were is estimated, since some threads moved meanwhile."
    };
    let found = format!(
        "It shares {:.0} wake-ups a second with {name} ({pid}), {} of all that it gives and gets; {across:.0} a second go \
         between LLC {own_llc}, where it runs, and LLC {llc}. {places} Programs that wake each other often share data, as \
         a rule; what the distance costs is not known.",
        partner.per_s,
        percent(partner.per_s / counted.per_s.max(1e-9)),
    );
    let does = format!("runs it on LLC {llc}, where {name} runs");
    let mut helps = vec![run_on(&partner.llc_cpus, does, facts)];
    helps.push(advice(
        "has corun keep programs on one LLC that wake each other so often; in the daemon's configuration: policy and parameters",
        format!(
            "corun run MIX.toml --backend sched-ext --policy linux-sched-cache --set wakes-together={:.0}",
            round_down(across)
        ),
    ));
    Some(FarPartner {
        pid: *pid,
        name: name.clone(),
        wakeups_per_s: across,
        share: across / counted.per_s.max(1e-9),
        is_measured: partner.stayed,
        found,
        advice: helps,
    })
}

/// To one digit: a threshold that the figure is safely above.
fn round_down(figure: f64) -> f64 {
    let unit = 10f64.powf(figure.max(1.0).log10().floor());
    (figure / unit).floor() * unit
}

/// Of a program that is woken often: why it cannot be told by whom.
pub(super) fn unknown_wakers(facts: &ProgramFacts) -> Option<Unknown> {
    let often = facts.wakeups.woken_per_s.filter(|rate| *rate >= LEAST_WAKEUPS_PER_S)?;
    let uncounted = facts.wakeups.uncounted.as_ref()?;
    let pid = facts.pids.first().copied().unwrap_or(0);
    let (why, help) = match uncounted {
        UncountedWakeups::NoScheduler => {
            ("by whom only corun's scheduler in the kernel counts, which is not in force".to_owned(), ask())
        }
        UncountedWakeups::NotAsked => {
            ("corun's scheduler in the kernel was not asked to count by whom".to_owned(), ask())
        }
        UncountedWakeups::NotInScheduler => (
            "corun's scheduler in the kernel counts by whom, but only of programs that corun looks after, of which it is none"
                .to_owned(),
            ask(),
        ),
        UncountedWakeups::NoRight => (
            "only root may read by whom".to_owned(),
            advice("as root it can", format!("sudo corun explain {pid}")),
        ),
        UncountedWakeups::Unreadable(error) => (
            format!("by whom cannot be read: {error}"),
            advice("says what can be used here, and why not", "corun doctor"),
        ),
    };
    Some(Unknown {
        kind: UnknownKind::Wakers,
        why: format!("it is woken {often:.0} times a second; {why}"),
        advice: vec![help],
    })
}

fn ask() -> Advice {
    advice(
        "runs programs in a scheduler that counts it; in the daemon's configuration: backend = \"sched-ext\", wakers = true",
        "corun run MIX.toml --backend sched-ext --wakers",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::diagnose;
    use crate::explain::tests::calm;
    use crate::explain::{LostShare, ThreadTime};

    const PID: u32 = 7;

    fn seen(pid: u32, name: &str, llcs: [usize; 2]) -> SeenThread {
        SeenThread { pid, name: name.to_owned(), llcs: llcs.map(Some) }
    }

    /// The program has threads 7 and 8 on LLC 0; `redis` has 20 on LLC 1 and 21 on LLC 0, `log` has 30 on LLC 0.
    fn threads() -> BTreeMap<u32, SeenThread> {
        BTreeMap::from([
            (7, seen(PID, "solver", [0, 0])),
            (8, seen(PID, "solver", [0, 0])),
            (20, seen(20, "redis", [1, 1])),
            (21, seen(20, "redis", [0, 0])),
            (30, seen(30, "log", [0, 0])),
        ])
    }

    fn counted(counts: &[(u32, u32, u64)], threads: &BTreeMap<u32, SeenThread>) -> CountedWakeups {
        let machine = corun_machine::preset("2x-gold-6138-4c").unwrap();
        let of = |&(waker, wakee, count): &(u32, u32, u64)| WakeCount { waker, wakee, count };
        let counts: Vec<WakeCount> = counts.iter().map(of).collect();
        CountedWakeups::of(&[PID], &counts, threads, &machine, 2.0)
    }

    /// Of 10,000 wake-ups in 2 s 8000 are shared with redis, 7000 of them with its thread on the other LLC; 500 are among
    /// its own threads, 900 come from `log`, 600 from an interrupt. What redis and log do with each other is not its.
    #[test]
    fn wake_ups_are_given_to_the_program_that_shares_most() {
        let found = counted(
            &[
                (20, 7, 4000),
                (7, 20, 3000),
                (21, 8, 1000),
                (7, 8, 500),
                (30, 7, 900),
                (4711, 7, 600),
                (20, 30, 99_999),
            ],
            &threads(),
        );
        assert_eq!(found.per_s, 5000.0);
        let machine = corun_machine::preset("2x-gold-6138-4c").unwrap();
        let partner = WakePartner {
            pid: 20,
            name: "redis".to_owned(),
            per_s: 4000.0,
            across_llcs_per_s: 3500.0,
            stayed: true,
            llc: 1,
            llc_cpus: machine.llcs()[1].cpus.clone(),
            own_llc: 0,
        };
        assert_eq!(found.partner, Some(partner));
        assert_eq!(
            counted(&[(20, 30, 9)], &threads()),
            CountedWakeups { per_s: 0.0, partner: None }
        );
    }

    fn with(counts: &[(u32, u32, u64)], threads: &BTreeMap<u32, SeenThread>) -> ProgramFacts {
        let mut facts = calm();
        facts.time = ThreadTime { asleep_s: 1.0, ..facts.time };
        facts.wakeups.woken_per_s = Some(3000.0);
        facts.wakeups.counted = Some(counted(counts, threads));
        facts
    }

    #[test]
    fn a_partner_on_another_llc_is_named_with_its_figures_and_what_would_help() {
        let diagnosis = diagnose(&with(&[(20, 7, 5000), (7, 20, 4000), (30, 7, 1000)], &threads()));
        let partner = diagnosis.far_partner.as_ref().unwrap();
        assert_eq!((partner.pid, partner.wakeups_per_s), (20, 4500.0));
        assert_eq!((partner.share, partner.is_measured), (0.9, true));
        for words in
            ["4500 wake-ups a second with redis (20), 90 %", "LLC 0, where it runs, and LLC 1"]
        {
            assert!(partner.found.contains(words), "{}", partner.found);
        }
        let machine = corun_machine::preset("2x-gold-6138-4c").unwrap();
        let there = format!("taskset -a -cp {} 7", machine.llcs()[1].cpus);
        assert_eq!(partner.advice[0].command, there);
        assert_eq!(partner.advice[0].undo.as_deref(), Some("taskset -a -cp 0-7 7"));
        assert!(partner.advice[1].command.ends_with("--set wakes-together=4000"));
        assert!(diagnosis.verdict.contains("4500 times a second"), "{}", diagnosis.verdict);
        assert!(diagnosis.causes.is_empty() && diagnosis.unknown.is_empty());
    }

    /// A cause whose share of the time is known comes first.
    #[test]
    fn a_cause_with_a_share_of_the_time_goes_before_a_partner() {
        let mut facts = with(&[(20, 7, 9000)], &threads());
        facts.time = ThreadTime { on_cpu_s: 5.0, waiting_s: Some(5.0), ..ThreadTime::default() };
        let diagnosis = diagnose(&facts);
        assert_eq!(diagnosis.causes[0].lost, LostShare::Measured(0.5));
        assert!(diagnosis.verdict.contains("waits for a CPU"), "{}", diagnosis.verdict);
        assert!(diagnosis.far_partner.is_some());
    }

    #[test]
    fn a_partner_is_not_named_where_it_is_near_seldom_or_one_of_many() {
        let near =
            BTreeMap::from([(7, seen(PID, "solver", [0, 0])), (20, seen(20, "redis", [0, 0]))]);
        let cases = [
            ("on the same LLC", with(&[(20, 7, 9000)], &near)),
            ("499 times a second", with(&[(20, 7, 998)], &threads())),
            ("less than half", with(&[(20, 7, 4900), (30, 7, 5100)], &threads())),
            (
                "mostly by its thread that is near",
                with(&[(20, 7, 2000), (21, 7, 7000)], &threads()),
            ),
        ];
        for (what, facts) in cases {
            assert_eq!(diagnose(&facts).far_partner, None, "{what}");
        }
        assert!(diagnose(&with(&[(20, 7, 1000)], &threads())).far_partner.is_some());
    }

    #[test]
    fn where_threads_moved_meanwhile_the_places_are_estimated() {
        let mut moved = threads();
        moved.insert(20, seen(20, "redis", [0, 1]));
        let partner = diagnose(&with(&[(20, 7, 9000)], &moved)).far_partner.unwrap();
        assert!(!partner.is_measured && partner.found.contains("estimated"), "{}", partner.found);
    }

    #[test]
    fn of_a_program_that_is_woken_often_it_is_said_why_nobody_knows_by_whom() {
        use UncountedWakeups as Why;
        let diagnosis = |woken_per_s, why| {
            let mut facts = calm();
            facts.wakeups.woken_per_s = woken_per_s;
            facts.wakeups.uncounted = Some(why);
            diagnose(&facts)
        };
        for (why, words, command) in [
            (
                Why::NoScheduler,
                "is not in force",
                "corun run MIX.toml --backend sched-ext --wakers",
            ),
            (Why::NotAsked, "was not asked", "corun run MIX.toml --backend sched-ext --wakers"),
            (Why::NotInScheduler, "it is none", "corun run MIX.toml --backend sched-ext --wakers"),
            (Why::NoRight, "only root", "sudo corun explain 7"),
            (Why::Unreadable("no memory".to_owned()), "no memory", "corun doctor"),
        ] {
            let diagnosis = diagnosis(Some(600.0), why);
            assert!(diagnosis.cannot_tell());
            let unknown = &diagnosis.unknown[0];
            assert_eq!(unknown.kind, UnknownKind::Wakers);
            assert!(unknown.why.starts_with("it is woken 600 times a second; "), "{}", unknown.why);
            assert!(unknown.why.contains(words), "{}", unknown.why);
            assert_eq!(unknown.advice[0].command, command);
        }
        assert_eq!(diagnosis(Some(499.0), Why::NoScheduler).unknown, []);
        assert_eq!(diagnosis(None, Why::NoScheduler).unknown, []);
    }
}
