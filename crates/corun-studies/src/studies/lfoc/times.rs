//! What a decision takes (Table 6.2): of the algorithms with known curves, and of the policies that
//! measure as they go.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use corun_app::{Error, Result};
use corun_policy::{
    BuildOptions, Event, Partition, Plan, Policy, PolicyWrapper, View, WrappedPolicy,
    build_partitioner,
};
use corun_sim::AppSpec;

use super::mixes;
use super::runs::{ONLINE, STATIC};
use crate::harness::StudyInputs;
use crate::simulate::{TunedPolicy, run_policy};
use crate::studies::partitioning::PartitionedLlc;

/// As many programs as the thesis's table.
const PROGRAMS: [usize; 3] = [4, 8, 11];
/// How often a decision with known curves is taken.
pub(super) const TIMES: usize = 500;
/// A program's length in the runs of those that measure.
const INSTRUCTIONS: u64 = 20_000_000_000;

/// How long a policy takes to decide.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecisionTime {
    pub(super) policy: &'static str,
    pub(super) programs: usize,
    /// Decisions that were timed.
    pub(super) decisions: usize,
    /// Microseconds, of half of them at most.
    pub(super) median_us: f64,
    /// Microseconds, of nine in ten at most.
    pub(super) ninth_us: f64,
}

/// All policies, one after the other.
pub(super) fn all(inputs: &StudyInputs, llc: &PartitionedLlc) -> Result<Vec<DecisionTime>> {
    let mut times = Vec::new();
    for programs in PROGRAMS {
        let mix = mixes::by_class(llc, programs, 1, 1).remove(0);
        for policy in STATIC.into_iter().filter(is_partitioner) {
            times.push(time(policy, programs, with_curves(llc, &mix, policy)?));
        }
        for policy in ONLINE.into_iter().filter(|policy| policy.parameters.is_empty()) {
            times.push(time(policy, programs, measuring(inputs, llc, &mix, policy)?));
        }
    }
    Ok(times)
}

/// Does it decide on curves alone?
pub(super) fn is_partitioner(policy: &TunedPolicy) -> bool {
    build_partitioner(policy.policy, &BuildOptions::default()).is_ok()
}

fn time(policy: TunedPolicy, programs: usize, mut taken_us: Vec<f64>) -> DecisionTime {
    taken_us.sort_by(f64::total_cmp);
    let at = |part: f64| taken_us.get((taken_us.len() as f64 * part) as usize).copied();
    DecisionTime {
        policy: policy.shown,
        programs,
        decisions: taken_us.len(),
        median_us: at(0.5).unwrap_or(f64::NAN),
        ninth_us: at(0.9).unwrap_or(f64::NAN),
    }
}

fn us(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e6
}

/// The algorithm alone, once its working memory has grown.
pub(super) fn with_curves(
    llc: &PartitionedLlc,
    mix: &[usize],
    policy: TunedPolicy,
) -> Result<Vec<f64>> {
    let mut partitioner =
        build_partitioner(policy.policy, &BuildOptions::default()).map_err(Error::input)?;
    let curves = llc.curves_of(mix);
    let input = llc.input(&curves);
    let mut found = Partition::default();
    let mut taken = Vec::with_capacity(TIMES);
    for _ in 0..=TIMES {
        let begin = Instant::now();
        partitioner.partition(&input, &mut found).map_err(Error::input)?;
        taken.push(us(begin));
    }
    taken.remove(0);
    Ok(taken)
}

/// Each call that ended in a plan: what it had measured meanwhile, the decision, its reasons in words.
pub(super) fn measuring(
    inputs: &StudyInputs,
    llc: &PartitionedLlc,
    mix: &[usize],
    policy: TunedPolicy,
) -> Result<Vec<f64>> {
    let app = |&program: &usize| AppSpec {
        instructions: Some(INSTRUCTIONS),
        ..AppSpec::new(llc.programs[program].clone())
    };
    let apps: Vec<AppSpec> = mix.iter().map(app).collect();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let timed = WrappedPolicy::new(policy.build(1)?, Timed { taken: taken.clone() });
    run_policy(inputs, &llc.model, &apps, Box::new(timed), 1)?;
    let taken = std::mem::take(&mut *taken.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(taken)
}

/// Times a policy's plans.
struct Timed {
    taken: Arc<Mutex<Vec<f64>>>,
}

impl Timed {
    fn note(&self, begin: Instant) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(us(begin));
    }
}

impl PolicyWrapper for Timed {
    fn on_event(
        &mut self,
        policy: &mut dyn Policy,
        event: &Event,
        view: &View<'_>,
    ) -> Option<Plan> {
        let begin = Instant::now();
        let plan = policy.on_event(event, view);
        if plan.as_ref().is_some_and(|plan| !plan.steps.is_empty()) {
            self.note(begin);
        }
        plan
    }

    fn decide(&mut self, policy: &mut dyn Policy, view: &View<'_>) -> Plan {
        let begin = Instant::now();
        let plan = policy.decide(view);
        if !plan.steps.is_empty() {
            self.note(begin);
        }
        plan
    }
}
