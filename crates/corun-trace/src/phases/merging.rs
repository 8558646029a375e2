//! Similar phases of a finished recording into one.

use corun_profile::{
    CoreDetail, CurvePoint, InstructionMix, MissRateCurve, Phase, Recording, Stretch,
};

use super::clusters::{Behaviour, Clusters, Union};
use super::sequence::Sequence;
use super::vector::BehaviourVector;
use crate::engine::PRIVATE_CACHE_BYTES;
use crate::summary;

/// Merges phases that behave alike, as the tracer tells its own phases apart: for recordings put
/// together from several, such as those of a process tree. What comes out has at most
/// [`super::MOST_PHASES`] phases and [`super::MOST_STRETCHES`] stretches, and the same
/// instructions.
///
/// Rates of a merged phase are means by instructions, shares of misses are means by the misses of a
/// cache of [`PRIVATE_CACHE_BYTES`], and its footprint is the greatest one: whether its parts
/// touched the same bytes is not known.
pub(crate) fn merge_similar(recording: &mut Recording) {
    let mut clusters = Clusters::default();
    let mut number: Vec<usize> = Vec::new();
    let renumber = |number: &mut Vec<usize>, union: Union| {
        number.iter_mut().for_each(|phase| *phase = union.number(*phase));
    };
    for phase in std::mem::take(&mut recording.phases) {
        let (at, union) = clusters.add(phase);
        number.push(at);
        union.into_iter().for_each(|union| renumber(&mut number, union));
    }
    while let Some(union) = clusters.reduce(0) {
        renumber(&mut number, union);
    }
    let mut sequence = Sequence::default();
    for &Stretch { phase, instructions } in &recording.sequence {
        sequence.push(Stretch { phase: number[phase], instructions });
    }
    recording.phases = sequence.order(clusters.phases());
    recording.sequence = sequence.into_stretches();
    for phase in &mut recording.phases {
        if let Some(curve) = summary::curve(phase.curve.points().to_vec()) {
            phase.curve = curve;
        }
    }
}

impl Behaviour for Phase {
    fn vector(&self) -> BehaviourVector {
        BehaviourVector::of_phase(self)
    }

    fn instructions(&self) -> u64 {
        self.instructions
    }

    fn merge(&mut self, other: &Self) {
        let [mine, others] = [&*self, other].map(|phase| phase.instructions as f64);
        let by_length = |one: f64, other: f64| mean([(one, mine), (other, others)]);
        let [my_misses, other_misses] = [&*self, other].map(|phase| {
            phase.curve.mpki(PRIVATE_CACHE_BYTES as f64).value * phase.instructions as f64
        });
        let by_misses = |one: f64, other: f64| mean([(one, my_misses), (other, other_misses)]);
        let waits = |phase: &Self| 1.0 / phase.memory_level_parallelism;
        let (mix, with) = (self.mix, other.mix);
        let branches_pki = by_length(mix.branches_pki, with.branches_pki);
        let merged = Self {
            instructions: self.instructions + other.instructions,
            threads: self.threads.max(other.threads),
            data_accesses_pki: by_length(self.data_accesses_pki, other.data_accesses_pki),
            mix: InstructionMix {
                loads_pki: by_length(mix.loads_pki, with.loads_pki),
                stores_pki: by_length(mix.stores_pki, with.stores_pki),
                branches_pki,
                float_pki: by_length(mix.float_pki, with.float_pki),
                mispredicted_pki: by_length(mix.mispredicted_pki, with.mispredicted_pki)
                    .min(branches_pki),
            },
            prefetchable: by_misses(self.prefetchable, other.prefetchable).min(1.0),
            // It is misses / chained misses: the chained ones add up.
            memory_level_parallelism: (1.0 / by_misses(waits(self), waits(other))).max(1.0),
            dirty_share: by_misses(self.dirty_share, other.dirty_share).min(1.0),
            footprint_bytes: self.footprint_bytes.max(other.footprint_bytes),
            curve: merged_curve([(&self.curve, mine), (&other.curve, others)]),
            core: merged_core([(self.core.as_ref(), mine), (other.core.as_ref(), others)]),
        };
        *self = merged;
    }
}

/// The mean by weight; where there is none, the plain one. Equal values stay as they are.
fn mean([(one, weight), (other, others)]: [(f64, f64); 2]) -> f64 {
    let all = weight + others;
    let share = if all > 0.0 { others / all } else { 0.5 };
    one + share * (other - one)
}

/// Of both, where both have it; micro-traces keep what they stand for.
fn merged_core(parts: [(Option<&CoreDetail>, f64); 2]) -> Option<CoreDetail> {
    let [(one, mine), (other, others)] = parts;
    let (one, other) = (one?, other?);
    let curves = [(&one.instruction_curve, mine), (&other.instruction_curve, others)];
    let all = (mine + others).max(1.0);
    let mean_of =
        |figure: fn(&CoreDetail) -> f64| mean([(figure(one), mine), (figure(other), others)]);
    let traces =
        [(one, mine / all), (other, others / all)].into_iter().flat_map(|(core, share)| {
            core.micro_traces.iter().map(move |&(at, weight)| (at, weight * share))
        });
    Some(CoreDetail {
        mispredicted_large_pki: mean_of(|core| core.mispredicted_large_pki),
        instruction_curve: merged_curve(curves),
        cleared_curve: one
            .cleared_curve
            .as_ref()
            .zip(other.cleared_curve.as_ref())
            .map(|(one, other)| merged_curve([(one, mine), (other, others)])),
        zeroed_mpki: mean_of(|core| core.zeroed_mpki),
        page_faults_pki: mean_of(|core| core.page_faults_pki),
        file_faults_pki: mean_of(|core| core.file_faults_pki),
        system_calls_pki: mean_of(|core| core.system_calls_pki),
        light_calls_pki: mean_of(|core| core.light_calls_pki),
        mapping_calls_pki: mean_of(|core| core.mapping_calls_pki),
        sleeping_calls_pki: mean_of(|core| core.sleeping_calls_pki),
        transferred_bytes_pki: mean_of(|core| core.transferred_bytes_pki),
        file_written_bytes_pki: mean_of(|core| core.file_written_bytes_pki),
        micro_traces: traces.collect(),
    })
}

/// The mean at each size of either, which lies between them, so it is a curve too.
fn merged_curve(curves: [(&MissRateCurve, f64); 2]) -> MissRateCurve {
    let sizes = |at: usize| curves[at].0.points().iter().map(|point| point.bytes);
    let mut sizes: Vec<u64> = sizes(0).chain(sizes(1)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let points = sizes.into_iter().map(|bytes| {
        let at = curves.map(|(curve, weight)| (curve.mpki(bytes as f64).value, weight));
        CurvePoint { bytes, mpki: mean(at) }
    });
    MissRateCurve::new(points.collect()).unwrap_or_else(|_| curves[0].0.clone())
}
