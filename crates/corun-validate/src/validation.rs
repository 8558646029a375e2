//! Predicted beside measured figures, and how far they are apart.

use corun_app::{Result, Scenario, round};
use corun_linux::Noise;
use corun_model::{CAUSES, Cause, LoadedProgram, Running, Scratch};
use serde::Serialize;

use crate::seen::{as_seen, clock_mhz};
use crate::{
    Agreement, CacheUse, ClockFindings, CoreUse, Estimate, LeftOut, Measured, MeasuredGroup,
    MeasuredSolo, NeighbourFindings, Pair, RoundPlan, RunError, SeenAgreements, agreement,
};

/// The JSON document. docs/json.md is its reference.
#[derive(Debug, Serialize)]
pub struct Validation {
    /// The machine's name.
    pub machine: String,
    /// First rounds that were run, in each of which everything ran.
    pub rounds: usize,
    /// What others took of the CPUs meanwhile.
    pub load: Noise,
    /// How much of their core programs had alone.
    pub core: CoreUse,
    /// The clock of the core meanwhile; none where nobody looked.
    pub clock: Option<ClockFindings>,
    /// How often groups shared a cache.
    pub cache: CacheUse,
    /// What others outside the machine left of the last cache meanwhile; none where nobody looked.
    pub neighbours: Option<NeighbourFindings>,
    /// Programs alone.
    pub alone: Vec<Alone>,
    /// Groups of programs.
    pub groups: Vec<Together>,
    /// How near predictions are.
    pub agreement: Agreements,
    /// How near they are for a machine file that says what was seen of clock and neighbours; none where nobody looked.
    pub as_seen: Option<SeenAgreements>,
    /// Programs and groups that cannot be compared.
    pub left_out: Vec<LeftOutProgram>,
}

/// How near predictions are.
#[derive(Debug, Serialize)]
pub struct Agreements {
    /// Times of programs alone.
    pub alone: Agreement,
    /// Of programs that had their core for themselves, or of which runs beside others tell how long they would take so.
    pub free_core: Agreement,
    /// Cycles per instruction of programs alone: ranks without the programs' lengths.
    pub cpi: Agreement,
    /// Slowdowns of all members of all groups.
    pub slowdowns: Agreement,
    /// Of those slowdowns that are at least three times as far from 1 as their interval is wide.
    pub clear_slowdowns: Agreement,
    /// What each part of the model is worth: without it.
    pub without: Vec<Without>,
}

/// How near predictions would be if the cycles that the model charges to a cause were left out, of
/// programs with a CPI stack.
#[derive(Debug, Serialize)]
pub struct Without {
    /// The cause.
    pub cause: &'static str,
    /// Times of programs alone.
    pub alone: Agreement,
    /// Their cycles per instruction.
    pub cpi: Agreement,
}

/// A program alone.
#[derive(Debug, Serialize)]
pub struct Alone {
    /// The program's name.
    pub name: String,
    /// CPU time, in seconds.
    pub measured_s: Estimate,
    /// Are there rounds in which no other hardware thread used its core?
    pub had_core: bool,
    /// Few or none are, and the time is what runs beside busy hardware threads tell of a core of its own.
    pub from_shared_runs: bool,
    /// Predicted CPU time, in seconds.
    pub predicted_s: f64,
    /// Predicted / measured - 1.
    pub error: f64,
    /// Measured cycles an instruction.
    pub measured_cpi: f64,
    /// Predicted cycles an instruction.
    pub predicted_cpi: f64,
    /// Predicted cycles an instruction by cause; `None` where the profile cannot tell.
    pub cpi_stack: Option<serde_json::Map<String, serde_json::Value>>,
}

/// A group.
#[derive(Debug, Serialize)]
pub struct Together {
    /// Its programs.
    pub members: Vec<MemberOf>,
    /// Further rounds that it got, which its slowdowns are of; 0: they are of the first rounds.
    pub further_rounds: usize,
}

/// A member of a group.
#[derive(Debug, Serialize)]
pub struct MemberOf {
    /// The program's name.
    pub name: String,
    /// Time beside the others / time alone, as measured.
    pub measured_slowdown: Estimate,
    /// The same as predicted.
    pub predicted_slowdown: f64,
    /// Is the measured slowdown more than chance?
    pub clear: bool,
}

/// A program that was left out.
#[derive(Debug, Serialize)]
pub struct LeftOutProgram {
    /// The program's name.
    pub name: String,
    /// Why.
    pub why: String,
}

impl MemberOf {
    /// Predicted beside measured.
    pub fn pair(&self) -> Pair {
        Pair { predicted: self.predicted_slowdown, measured: self.measured_slowdown.median }
    }
}

impl Alone {
    /// Predicted beside measured.
    pub fn pair(&self) -> Pair {
        Pair { predicted: self.predicted_s, measured: self.measured_s.median }
    }
}

impl Validation {
    /// `cpus`: those (indices) of the members of a group, in order; alone a program is on the first.
    ///
    /// # Errors
    /// Figures of clock and neighbours, out of the document of an earlier run, that no machine can have.
    pub fn new(
        scenario: &Scenario,
        plan: &RoundPlan,
        cpus: &[usize],
        (measured, load): (&Measured, Noise),
        unfit: Vec<(String, String)>,
    ) -> Result<Self> {
        let (alone, groups) = compared(scenario, plan, cpus, measured);
        let machine = scenario.machine();
        let seen = as_seen(scenario, cpus[0], measured)?.map(|scenario| {
            let (alone, groups) = compared(&scenario, plan, cpus, measured);
            let Agreements { alone, cpi, slowdowns, clear_slowdowns, .. } =
                agreements(&alone, &groups);
            SeenAgreements { alone, cpi, slowdowns, clear_slowdowns }
        });
        let neighbours = measured.neighbours.as_ref();
        let failed = measured.left_out.iter();
        let failed = failed.map(|one| (scenario.names[one.subject].clone(), one.why.to_string()));
        let shared = shared_alone(&scenario.names, plan, measured);
        Ok(Self {
            machine: machine.name().to_owned(),
            rounds: measured.rounds,
            load,
            core: measured.core,
            clock: measured.clock.map(|clock| ClockFindings::new(clock, machine, cpus[0])),
            cache: measured.cache,
            neighbours: neighbours.map(|seen| NeighbourFindings::new(seen, machine)),
            agreement: agreements(&alone, &groups),
            as_seen: seen,
            alone,
            groups,
            left_out: unfit
                .into_iter()
                .chain(failed)
                .chain(shared)
                .map(|(name, why)| LeftOutProgram { name, why })
                .collect(),
        })
    }
}

/// Takes out programs that did something else here, on this CPU (an index), than when they were recorded, and the groups with
/// them: those that took less time than the instructions of their recordings can.
pub fn leave_out_others(
    scenario: &Scenario,
    plan: &RoundPlan,
    cpu: usize,
    measured: &mut Measured,
) {
    let machine = scenario.machine();
    let core_type = &machine.core_types()[machine.cpus()[cpu].core_type];
    // A comparison and its branch count as two, and a measured width may be low.
    let most_a_second = 2.0 * core_type.dispatch_width * clock_mhz(machine, cpu) * 1e6;
    for (subject, solo) in measured.solo.iter_mut().enumerate() {
        let least_s = scenario.profiles[subject].instructions() as f64 / most_a_second;
        let Some(found) = solo.take_if(|solo| solo.cpu_s.median < least_s) else { continue };
        let why = RunError::Other { took_s: found.cpu_s.median, least_s };
        measured.left_out.push(LeftOut { subject, why });
        let groups = plan.groups.iter().zip(&mut measured.groups);
        groups.filter(|(group, _)| group.contains(&subject)).for_each(|(_, found)| *found = None);
    }
}

/// Programs and groups that were measured, beside what is predicted of them.
fn compared(
    scenario: &Scenario,
    plan: &RoundPlan,
    cpus: &[usize],
    measured: &Measured,
) -> (Vec<Alone>, Vec<Together>) {
    let found = measured.solo.iter().enumerate();
    let alone =
        found.filter_map(|(at, solo)| Some(alone(scenario, at, cpus[0], solo.as_ref()?))).collect();
    let found = plan.groups.iter().zip(&measured.groups);
    let groups = found
        .filter_map(|(group, found)| Some(together(scenario, group, cpus, found.as_ref()?)))
        .collect();
    (alone, groups)
}

/// Groups of programs that were timed and whose slowdowns cannot be told.
fn shared_alone(names: &[String], plan: &RoundPlan, measured: &Measured) -> Vec<(String, String)> {
    let failed = |at: &usize| measured.left_out.iter().any(|one| one.subject == *at);
    let groups = plan.groups.iter().zip(&measured.groups);
    let untold = groups
        .filter(|(members, found)| found.is_none() && !members.iter().any(failed))
        .map(|(members, _)| members.iter().map(|&at| names[at].as_str()).collect::<Vec<&str>>());
    let why = "no round in which all ended in time, its CPUs shared a cache and each member had about as much of its core as in a run alone";
    untold.map(|names| (names.join(" + "), why.to_owned())).collect()
}

fn alone(scenario: &Scenario, at: usize, cpu: usize, measured: &MeasuredSolo) -> Alone {
    let measured_s = measured.cpu_s;
    let program = &scenario.programs[at];
    let instructions = scenario.profiles[at].instructions() as f64;
    let solo = scenario.model.solo(program, LoadedProgram::WHOLE, cpu);
    let clock_hz = clock_mhz(scenario.machine(), cpu) * 1e6;
    let predicted_s = instructions / solo.instructions_per_s;
    let stack = scenario.model.by_ways(program, cpu).last().and_then(|whole| whole.stack);
    let six = |value: f64| round(value, 6);
    Alone {
        name: scenario.names[at].clone(),
        error: six(Pair { predicted: predicted_s, measured: measured_s.median }.error()),
        measured_cpi: six(measured_s.median * clock_hz / instructions),
        predicted_cpi: six(predicted_s * clock_hz / instructions),
        predicted_s,
        measured_s,
        had_core: measured.had_core,
        from_shared_runs: measured.from_shared_runs,
        cpi_stack: stack.map(|stack| {
            let part = |cause: Cause| {
                (cause.name().to_owned(), serde_json::Value::from(six(stack.of(cause))))
            };
            CAUSES.into_iter().map(part).collect()
        }),
    }
}

fn together(
    scenario: &Scenario,
    group: &[usize],
    cpus: &[usize],
    measured: &MeasuredGroup,
) -> Together {
    let running: Vec<Running<'_>> = group
        .iter()
        .zip(cpus)
        .map(|(&at, &cpu)| Running::local(&scenario.programs[at], LoadedProgram::WHOLE, cpu))
        .collect();
    let mut outcomes = Vec::new();
    scenario.model.solve(&running, &mut Scratch::default(), &mut outcomes);
    let member =
        |((&at, &measured), outcome): ((&usize, &Estimate), &corun_model::Outcome)| MemberOf {
            name: scenario.names[at].clone(),
            measured_slowdown: measured,
            predicted_slowdown: round(outcome.slowdown, 6),
            clear: measured.is_clear(),
        };
    Together {
        members: group.iter().zip(&measured.slowdowns).zip(&outcomes).map(member).collect(),
        further_rounds: measured.further_rounds,
    }
}

fn agreements(alone: &[Alone], groups: &[Together]) -> Agreements {
    let members = || groups.iter().flat_map(|group| &group.members);
    let cpi = |one: &Alone| Pair { predicted: one.predicted_cpi, measured: one.measured_cpi };
    let of = |pairs: Vec<Pair>| agreement(&pairs);
    let of_free_core = |one: &&Alone| one.had_core || one.from_shared_runs;
    Agreements {
        alone: of(alone.iter().map(Alone::pair).collect()),
        free_core: of(alone.iter().filter(of_free_core).map(Alone::pair).collect()),
        cpi: of(alone.iter().map(cpi).collect()),
        slowdowns: of(members().map(MemberOf::pair).collect()),
        clear_slowdowns: of(members().filter(|one| one.clear).map(MemberOf::pair).collect()),
        without: without(alone),
    }
}

/// For each cause but the base, which is no part that one could leave out; none without CPI stacks.
fn without(alone: &[Alone]) -> Vec<Without> {
    let left = |cause: Cause| -> Vec<(f64, &Alone)> {
        let left = |one| Some((1.0 - cycles_of(one, cause)? / one.predicted_cpi, one));
        alone.iter().filter_map(left).collect()
    };
    let causes = CAUSES.into_iter().filter(|cause| *cause != Cause::Base);
    let of = |cause: Cause| {
        let left = left(cause);
        let time = |(share, one): &(f64, &Alone)| {
            let Pair { predicted, measured } = one.pair();
            Pair { predicted: predicted * share, measured }
        };
        let cpi = |(share, one): &(f64, &Alone)| Pair {
            predicted: one.predicted_cpi * share,
            measured: one.measured_cpi,
        };
        let agreement_of = |pair: &dyn Fn(&(f64, &Alone)) -> Pair| {
            agreement(&left.iter().map(pair).collect::<Vec<_>>())
        };
        Without { cause: cause.name(), alone: agreement_of(&time), cpi: agreement_of(&cpi) }
    };
    causes.map(of).filter(|one| one.alone.count > 0).collect()
}

/// Predicted cycles an instruction of a cause.
fn cycles_of(one: &Alone, cause: Cause) -> Option<f64> {
    one.cpi_stack.as_ref()?.get(cause.name())?.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Predicted 3 cycles an instruction, of which memory takes 2; measured 1.
    fn overrated(cpi_stack: Option<serde_json::Value>) -> Alone {
        let measured_s = Estimate { median: 1.0, low: 1.0, high: 1.0, confidence: 1.0, rounds: 1 };
        let cpi_stack = cpi_stack.and_then(|stack| stack.as_object().cloned());
        Alone {
            name: "one".to_owned(),
            measured_s,
            had_core: true,
            from_shared_runs: false,
            predicted_s: 3.0,
            error: 2.0,
            measured_cpi: 1.0,
            predicted_cpi: 3.0,
            cpi_stack,
        }
    }

    #[test]
    fn groups_without_a_free_run_alone_are_named() {
        let names = ["one", "two", "bad"].map(str::to_owned);
        let plan = RoundPlan {
            rounds: 1,
            groups: vec![vec![0, 1], vec![0, 2], vec![1, 1]],
            ..RoundPlan::default()
        };
        let measured = Measured {
            groups: vec![
                None,
                None,
                Some(MeasuredGroup { slowdowns: Vec::new(), further_rounds: 0 }),
            ],
            left_out: vec![crate::LeftOut { subject: 2, why: RunError::Code(1) }],
            ..Measured::default()
        };
        let found = shared_alone(&names, &plan, &measured);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, "one + two");
    }

    #[test]
    fn without_a_cause_its_cycles_are_not_there() {
        let stack = serde_json::json!({"base": 0.5, "memory": 2.0, "branches": 0.5});
        let found = without(&[overrated(Some(stack)), overrated(None)]);
        let of =
            |cause| found.iter().find(|one| one.cause == cause).map(|one| one.alone.mean_error);
        assert_eq!(of("memory"), Some(Some(0.0)));
        assert_eq!(of("branches"), Some(Some(1.5)));
        assert_eq!(of("base"), None, "no part that one could leave out");
        assert!(found.iter().all(|one| one.alone.count == 1), "one has no stack");
        assert!(without(&[overrated(None)]).is_empty());
    }
}
