//! Which policies run here, and what the others lack.

use corun_policy::{
    ActionKind, BuildOptions, CounterKind, LiveForm, Needs, Policy, PolicyKind, build, registry,
};
use serde::Serialize;

use super::facts::{CountOutcome, Facts};
use super::findings::{self, Judged, State, counters_remedy, monitors};
use super::words;

/// Does a policy run here?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runs {
    /// As it is.
    Yes,
    /// When it is given profiles of the programs.
    WithProfiles,
    /// Something is missing.
    No,
    /// Nothing is known to be missing, and not all is known.
    Unknown,
}

/// Something that a policy needs and the machine does not give.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// What.
    pub what: String,
    /// What would provide it; none where nothing does.
    pub remedy: Option<String>,
    /// Is it only not known to be there?
    pub unknown: bool,
}

/// What the machine means for a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyVerdict {
    /// The policy.
    pub policy: String,
    /// Does it run here?
    pub runs: Runs,
    /// Where its counters come from, and what carries out its actions.
    pub by: Vec<&'static str>,
    /// What is missing.
    pub missing: Vec<Missing>,
    /// Policies that decide the same and run here by stored profiles, where it lacks counters.
    pub instead: Vec<String>,
    /// What to know before using it.
    pub note: Option<String>,
}

/// One verdict for each policy there is, in the registry's order.
pub fn verdicts(facts: &Facts) -> Vec<PolicyVerdict> {
    let one = |entry: &corun_policy::PolicyEntry| {
        // A policy of the registry is built with its own defaults.
        let mut policy = build(entry.name, &BuildOptions::default()).ok()?;
        let without = done_without(facts, policy.as_mut());
        let needs = policy.needs();
        let mut verdict = verdict(facts, entry.name, entry.kind(), &needs);
        if policy.goes_by_latency() {
            let what = "how long the requests of services take".to_owned();
            verdict.missing.insert(0, Missing { what, remedy: None, unknown: false });
            verdict.runs = Runs::No;
        }
        let notes = [verdict.note.or(without), untested(entry.live)];
        verdict.note = notes.into_iter().flatten().reduce(|one, other| format!("{one}; {other}"));
        Some((verdict, entry.kind(), needs))
    };
    let all: Vec<(PolicyVerdict, PolicyKind, Needs)> = registry().iter().filter_map(one).collect();
    let instead = |kind: PolicyKind| {
        let able = all
            .iter()
            .filter(move |(other, of, _)| *of == kind && other.runs == Runs::WithProfiles);
        able.map(|(other, ..)| other.policy.clone()).collect()
    };
    let complete = |(verdict, kind, needs): &(PolicyVerdict, PolicyKind, Needs)| {
        let mut verdict = verdict.clone();
        if verdict.runs == Runs::No && !needs.counters.is_empty() {
            verdict.instead = instead(*kind);
        }
        verdict
    };
    all.iter().map(complete).collect()
}

/// Says so where a policy's live form was not evaluated.
fn untested(live: LiveForm) -> Option<String> {
    let LiveForm::Untested { why } = live else { return None };
    Some(format!("acts only with --untested: {why}"))
}

/// Has it do without what this machine cannot do, where it can, and says so.
fn done_without(facts: &Facts, policy: &mut dyn Policy) -> Option<String> {
    let controls = policy.needs().controls.into_iter();
    let lacking = controls.filter(|&one| cannot(facts, one) && policy.do_without(one));
    let names: Vec<&str> = lacking.map(words::action).collect();
    (!names.is_empty()).then(|| format!("here it does without {}", names.join(", ")))
}

fn cannot(facts: &Facts, action: ActionKind) -> bool {
    match action {
        ActionKind::IdleCpu | ActionKind::OrderSlots => true,
        ActionKind::MovePages => findings::pages(facts).state == State::No,
        _ => false,
    }
}

/// What the machine means for a policy with these needs.
pub fn verdict(facts: &Facts, name: &str, kind: PolicyKind, needs: &Needs) -> PolicyVerdict {
    let mut verdict = PolicyVerdict {
        policy: name.to_owned(),
        runs: Runs::Yes,
        by: Vec::new(),
        missing: Vec::new(),
        instead: Vec::new(),
        note: note(facts, kind, needs),
    };
    if let Some(why) = facts.shape.as_ref().and_then(|shape| shape.unfit.get(name)) {
        let what = format!("a machine that it is for ({why})");
        verdict.missing.push(Missing { what, remedy: None, unknown: false });
    }
    counters(facts, &needs.counters, &mut verdict);
    for &action in &needs.controls {
        control(facts, action, &mut verdict);
    }
    let profiles = needs.solo_figures || needs.by_ways;
    if profiles {
        verdict.by.push("profiles");
    }
    verdict.by.sort_unstable();
    verdict.by.dedup();
    verdict.runs = if verdict.missing.iter().any(|one| !one.unknown) {
        Runs::No
    } else if !verdict.missing.is_empty() {
        Runs::Unknown
    } else if profiles {
        Runs::WithProfiles
    } else {
        Runs::Yes
    };
    verdict
}

fn counters(facts: &Facts, kinds: &[CounterKind], verdict: &mut PolicyVerdict) {
    let (mut lacking, mut unknown) = (Vec::new(), Vec::new());
    for &kind in kinds {
        match provider(facts, kind) {
            Provider::Is(name) => verdict.by.push(name),
            Provider::None => lacking.push(kind.in_words()),
            Provider::Unknown => unknown.push(kind.in_words()),
        }
    }
    for (names, unknown) in [(lacking, false), (unknown, true)] {
        if !names.is_empty() {
            let what = format!("counters ({})", names.join(", "));
            verdict.missing.push(Missing { what, remedy: Some(counters_remedy(facts)), unknown });
        }
    }
}

enum Provider {
    Is(&'static str),
    None,
    Unknown,
}

/// Who gives a counter. A core's counter has to work on every kind of core: a thread may run on any.
fn provider(facts: &Facts, kind: CounterKind) -> Provider {
    let resctrl = |feature: &str| {
        if monitors(facts, feature) && facts.resctrl.writable != Some(false) {
            Provider::Is("resctrl")
        } else if facts.resctrl.mounted.is_none() {
            Provider::Unknown
        } else {
            Provider::None
        }
    };
    match kind {
        CounterKind::LlcOccupancy => return resctrl("llc_occupancy"),
        CounterKind::MemoryBytes => return resctrl("mbm_total_bytes"),
        kind if kind.is_of_scheduler() => return Provider::Is("scheduler"),
        _ => {}
    }
    let answers = || {
        let of = |core: &super::CoreCounters| {
            core.events.iter().find(|one| one.counter == Some(kind)).map(|one| one.answer.clone())
        };
        facts.perf.cores.iter().map(of)
    };
    if facts.perf.cores.is_empty() || answers().any(|one| one == Some(CountOutcome::NotTried)) {
        Provider::Unknown
    } else if answers().all(|one| one == Some(CountOutcome::Works)) {
        Provider::Is("perf")
    } else if kind == CounterKind::LlcMisses
        && let Provider::Is(name) = resctrl("mbm_total_bytes")
    {
        // Lines fetched are bytes / 64, prefetches included.
        Provider::Is(name)
    } else {
        Provider::None
    }
}

fn control(facts: &Facts, action: ActionKind, verdict: &mut PolicyVerdict) {
    let what = words::action(action).to_owned();
    let (name, Judged { state, found, advice }) = match action {
        ActionKind::Place => ("affinity", placing(facts)),
        ActionKind::Partition => ("resctrl", findings::ways(facts)),
        ActionKind::CapBandwidth => ("resctrl", findings::caps(facts)),
        ActionKind::MovePages => ("pages", findings::pages(facts)),
        // Lowering a priority is allowed to everybody.
        ActionKind::SetWeight => {
            verdict.by.push("priorities");
            return;
        }
        ActionKind::IdleCpu | ActionKind::OrderSlots => {
            let what = format!("{what}: only in simulation (corun compare)");
            verdict.missing.push(Missing { what, remedy: None, unknown: false });
            return;
        }
    };
    match state {
        State::Yes | State::Partly => verdict.by.push(name),
        State::No | State::Unknown => verdict.missing.push(Missing {
            what: format!("{what} ({found})"),
            remedy: advice,
            unknown: state == State::Unknown,
        }),
    }
}

fn placing(facts: &Facts) -> Judged {
    let (state, found) = match facts.affinity {
        Some(true) => (State::Yes, "own programs"),
        Some(false) => (State::No, "the kernel forbids sched_setaffinity"),
        None => (State::Unknown, "not tried"),
    };
    let advice = "in a container, its seccomp profile has to allow sched_setaffinity".to_owned();
    Judged { state, found: found.to_owned(), advice: Some(advice).filter(|_| state == State::No) }
}

/// What is true whatever is missing.
fn note(facts: &Facts, kind: PolicyKind, needs: &Needs) -> Option<String> {
    let shape = facts.shape.as_ref()?;
    let places = needs.controls.contains(&ActionKind::Place);
    (kind == PolicyKind::Placement && places && shape.llcs == 1 && shape.core_types.len() < 2)
        .then(|| "there is one last-level cache: who is placed where changes little".to_owned())
}
