//! Clusterings by programs' phases, known beforehand: what a policy that follows phases could be worth.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::anyhow;
use corun_app::{Error, Result};
use corun_optimal::partition::{Kind, PartitionObjective, PartitionProblem};
use corun_optimal::{Goal, SearchLimits};
use corun_policy::{
    Action, ActionKind, BuildOptions, CachePart, CounterKind, Event, Input, Interval, Nanoseconds,
    Needs, Partition, Partitioner, Plan, Policy, ThreadView, View, WaysCurve, WaysPoint,
    build_partitioner, ways_curve,
};
use corun_profile::{Library, Profile, ProfileData, Recording};
use rayon::prelude::*;

use super::runs::{INSTRUCTIONS, MixRun, app, judged};
use crate::harness::StudyInputs;
use crate::simulate::run_policy;
use crate::studies::partitioning::PartitionedLlc;

/// What such a policy decides by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knows {
    /// `fair-clusters` on the curves of the phases that programs are in.
    Curves,
    /// The same, a program's slowdowns being multiplied by how slow it has been so far.
    CurvesAndPast,
    /// The exact clustering of the least unfairness in these phases, by the model.
    Best,
}

/// All of them, and what they are called.
pub(super) const KNOWING: [(Knows, &str); 3] = [
    (Knows::Curves, "fair-clusters by phase"),
    (Knows::CurvesAndPast, "fair-clusters by phase, and the past"),
    (Knows::Best, "the best clustering by phase"),
];

/// How often who is in which phase is looked up.
const LOOK: Nanoseconds = Nanoseconds(50_000_000);
/// Nodes to look at for the best clustering of some phases.
const MOST: u64 = 200_000;

/// The phases of an LLC's programs.
pub(super) struct Phases {
    llc: Arc<PartitionedLlc>,
    /// By program and phase.
    curves: Vec<Vec<WaysCurve>>,
}

impl Phases {
    /// Of the programs of a library, which are the LLC's.
    pub(super) fn new(library: &Library, llc: Arc<PartitionedLlc>) -> Result<Arc<Self>> {
        let of = |name: &String| curves(&llc, library.get(name)?);
        let curves = llc.names.par_iter().map(of).collect::<Result<_>>()?;
        Ok(Arc::new(Self { llc, curves }))
    }
}

/// The curve of each phase, as a program by itself.
fn curves(llc: &PartitionedLlc, profile: &Profile) -> Result<Vec<WaysCurve>> {
    let ProfileData::Recording(recording) = &profile.data else {
        return Err(Error::input(format!("{}: no recording", profile.name)));
    };
    let curve = |phase: &corun_profile::Phase| {
        let alone = Recording::new(recording.origin.clone(), vec![phase.clone()]);
        let profile = Profile { name: profile.name.clone(), data: ProfileData::Recording(alone) };
        let program = llc.model.load(&profile)?;
        let curve = ways_curve(&llc.model, &program, 0);
        Ok(curve.ok_or_else(|| anyhow!("{}: no figures by ways", profile.name))?)
    };
    recording.phases.iter().map(curve).collect()
}

/// A policy that knows in which phase each program of a mix is.
pub(super) struct ByPhase {
    phases: Arc<Phases>,
    mix: Vec<usize>,
    knows: Knows,
    partitioner: Box<dyn Partitioner>,
    /// By the phases that programs are in, where nothing else matters.
    known: HashMap<Vec<usize>, Partition>,
    /// By place in the mix: when its present run began, and seconds that earlier runs took, and take alone.
    past: Vec<Past>,
    asked: Vec<CachePart>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Past {
    thread: Option<u64>,
    began_s: f64,
    took_s: f64,
    alone_s: f64,
}

impl ByPhase {
    /// Every mix by all that such policies may know.
    pub(super) fn all(
        inputs: &StudyInputs,
        phases: &Arc<Phases>,
        mixes: &[Vec<usize>],
        seed: u64,
    ) -> Result<Vec<Vec<MixRun>>> {
        let llc = &phases.llc;
        let one = |mix: &Vec<usize>| {
            let apps: Vec<_> = mix.iter().map(|&program| app(llc, program)).collect();
            let run = |(knows, _)| {
                let policy = Self::new(phases.clone(), mix.clone(), knows)?;
                let result = run_policy(inputs, &llc.model, &apps, Box::new(policy), seed)?;
                Ok(judged(llc, mix, &result))
            };
            KNOWING.into_iter().map(run).collect()
        };
        mixes.par_iter().map(one).collect()
    }

    fn new(phases: Arc<Phases>, mix: Vec<usize>, knows: Knows) -> Result<Self> {
        let partitioner = build_partitioner("fair-clusters", &BuildOptions::default());
        Ok(Self {
            partitioner: partitioner.map_err(Error::failed)?,
            past: vec![Past::default(); mix.len()],
            known: HashMap::new(),
            asked: Vec::new(),
            phases,
            mix,
            knows,
        })
    }

    /// A program's phase after so many instructions, and how long these take alone.
    fn phase_after(&self, program: usize, instructions: f64) -> (usize, f64) {
        let program = &self.phases.llc.programs[program];
        let stretch = INSTRUCTIONS as f64 / program.instructions();
        let (mut left, mut alone_s) = (instructions, 0.0);
        for part in &program.sequence {
            let length = part.instructions * stretch;
            let speed = program.phases[part.phase].best_instructions_per_s;
            if left < length {
                return (part.phase, alone_s + left / speed);
            }
            left -= length;
            alone_s += length / speed;
        }
        (program.sequence.last().map_or(0, |part| part.phase), alone_s)
    }

    /// How slow each program has been so far, and its phase; none while one of them is not there.
    fn now(&mut self, view: &View<'_>) -> Option<Vec<(usize, f64)>> {
        let now_s = view.now.as_secs_f64();
        let mut found = Vec::with_capacity(self.mix.len());
        for place in 0..self.mix.len() {
            let thread = self.thread(view, place)?;
            let done = thread.counts.instructions.map_or(0.0, |count| count.total);
            let (phase, alone_s) = self.phase_after(self.mix[place], done);
            let (_, whole_s) = self.phase_after(self.mix[place], INSTRUCTIONS as f64);
            let past = &mut self.past[place];
            if past.thread != Some(thread.id.0) {
                if past.thread.is_some() {
                    past.took_s += now_s - past.began_s;
                    past.alone_s += whole_s;
                }
                (past.thread, past.began_s) = (Some(thread.id.0), now_s);
            }
            let took_s = past.took_s + now_s - past.began_s;
            let slowdown = (took_s + 1.0) / (past.alone_s + alone_s + 1.0);
            found.push((phase, slowdown));
        }
        Some(found)
    }

    fn thread<'v>(&self, view: &'v View<'_>, place: usize) -> Option<&'v ThreadView> {
        let name = &self.phases.llc.names[self.mix[place]];
        view.threads.iter().find(|thread| thread.program == *name)
    }

    fn decided(&mut self, now: &[(usize, f64)]) -> Option<Partition> {
        let phases: Vec<usize> = now.iter().map(|(phase, _)| *phase).collect();
        if self.knows == Knows::CurvesAndPast {
            let past: Vec<f64> = now.iter().map(|(_, slowdown)| *slowdown).collect();
            return self.fair(&phases, &past);
        }
        if let Some(known) = self.known.get(&phases) {
            return Some(known.clone());
        }
        let found = match self.knows {
            Knows::Best => self.best(&phases)?,
            _ => self.fair(&phases, &vec![1.0; phases.len()])?,
        };
        self.known.insert(phases, found.clone());
        Some(found)
    }

    fn fair(&mut self, phases: &[usize], times: &[f64]) -> Option<Partition> {
        let curves: Option<Vec<WaysCurve>> = (self.mix.iter().zip(phases).zip(times))
            .map(|((&program, &phase), &times)| {
                let points = self.phases.curves[program][phase].points().iter();
                let slower =
                    points.map(|one| WaysPoint { slowdown: one.slowdown * times, ..*one });
                WaysCurve::new(slower.collect())
            })
            .collect();
        let curves = curves?;
        let curves: Vec<&WaysCurve> = curves.iter().collect();
        let input: Input<'_> = self.phases.llc.input(&curves);
        let mut found = Partition::default();
        self.partitioner.partition(&input, &mut found).ok()?;
        Some(found)
    }

    fn best(&self, phases: &[usize]) -> Option<Partition> {
        let llc = &self.phases.llc;
        let mut members = llc.members(&self.mix);
        for (member, &phase) in members.iter_mut().zip(phases) {
            member.phase = phase;
        }
        let problem =
            PartitionProblem::new(&llc.model, &members, llc.ways, 1, Kind::Cluster).ok()?;
        let limits = SearchLimits { nodes: MOST, ..SearchLimits::default() };
        let found = problem.solve(PartitionObjective::Unfairness, Goal::Best, &limits).ok()?;
        let mut cluster = vec![0; phases.len()];
        for (number, programs) in found.clusters.iter().enumerate() {
            programs.iter().for_each(|&program| cluster[program] = number);
        }
        Some(Partition::of_clusters(&cluster, &found.ways))
    }
}

impl Policy for ByPhase {
    fn name(&self) -> &str {
        "by-phase"
    }

    fn needs(&self) -> Needs {
        Needs {
            interval: Interval::Time(LOOK),
            counters: vec![CounterKind::Instructions],
            controls: vec![ActionKind::Partition],
            solo_figures: false,
            by_ways: false,
        }
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        matches!(event, Event::Arrived(_)).then(|| self.decide(view))
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        let mut plan = Plan::none();
        let Some(now) = self.now(view) else { return plan };
        let Some(partition) = self.decided(&now) else { return plan };
        let mut parts: Vec<CachePart> = Vec::new();
        for place in 0..self.mix.len() {
            let Some(thread) = self.thread(view, place) else { return plan };
            let mask = partition.mask(place);
            match parts.iter_mut().find(|part| part.mask == mask) {
                Some(part) => part.threads.push(thread.id),
                None => parts.push(CachePart { mask, threads: vec![thread.id] }),
            }
        }
        if parts != self.asked {
            self.asked.clone_from(&parts);
            plan.push(Action::Partition { llc: 0, parts }, "by phases that are known");
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use clap::ArgMatches;
    use corun_app::Cancel;
    use corun_model::ModelOptions;

    use super::*;
    use crate::simulate::run;
    use crate::studies::lfoc::WAYS;
    use crate::studies::lfoc::runs::STOCK;

    fn phases() -> Arc<Phases> {
        let shipped = Library::shipped().unwrap();
        let mut library = Library::default();
        for name in ["bzip2", "numpy", "sort"] {
            library.insert(shipped.get(name).unwrap().clone(), format!("{name}.toml")).unwrap();
        }
        let llc = PartitionedLlc::new(&library, WAYS, ModelOptions::default()).unwrap();
        Phases::new(&library, Arc::new(llc)).unwrap()
    }

    /// The stretches of a program are as long in a run of 150e9 instructions as in its recording, in proportion.
    #[test]
    fn a_programs_phase_is_told_by_its_instructions() {
        let phases = phases();
        let program = phases.llc.programs[0].clone();
        assert!(program.phases.len() > 1);
        let policy = ByPhase::new(phases, vec![0, 1, 2], Knows::Curves).unwrap();
        let first = program.sequence[0].instructions / program.instructions() * INSTRUCTIONS as f64;
        let of = |instructions| policy.phase_after(0, instructions).0;
        assert_eq!(of(0.99 * first), program.sequence[0].phase);
        assert_eq!(of(1.01 * first), program.sequence[1].phase);
        let alone = program.phases.iter().map(|one| one.instructions / one.best_instructions_per_s);
        let alone_s = alone.sum::<f64>() * INSTRUCTIONS as f64 / program.instructions();
        let (_, found_s) = policy.phase_after(0, INSTRUCTIONS as f64);
        assert!((found_s / alone_s - 1.0).abs() < 1e-9, "{found_s} {alone_s}");
    }

    /// Each phase has a curve of its own, and the best clustering by phase is no less fair than none.
    #[test]
    fn knowing_the_phases_makes_nothing_less_fair() {
        let phases = phases();
        let of_numpy = &phases.curves[1];
        assert!(of_numpy.windows(2).any(|two| two[0] != two[1]));
        let inputs = StudyInputs::new(None, 1, ArgMatches::default(), Cancel::default()).unwrap();
        let mix = vec![0, 1, 2];
        let apps: Vec<_> = mix.iter().map(|&program| app(&phases.llc, program)).collect();
        let stock = run(&inputs, &phases.llc.model, &apps, STOCK, 1).unwrap();
        let stock = judged(&phases.llc, &mix, &stock).unfairness;
        let runs = ByPhase::all(&inputs, &phases, &[mix], 1).unwrap().remove(0);
        assert_eq!(runs.len(), KNOWING.len());
        let best = runs[2].unfairness;
        assert!(best < 1.002 * stock, "{best} {stock}");
    }
}
