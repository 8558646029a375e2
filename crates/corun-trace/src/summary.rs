//! The engine's sums as a recording.

use corun_profile::{
    CoreDetail, CurvePoint, InstructionMix, MOST_MICRO_TRACES, MicroTrace, MicroTraces,
    MissRateCurve, Origin, Phase, Recording, ThreadRecord,
};

use crate::engine::{Engine, Figures, Histogram, OwnFigures, parallelism};
use crate::event::LINE_BYTES;

/// Curve points kept at most.
const MOST_POINTS: usize = 120;
/// What linear interpolation between kept points may be off at a dropped one, as a share of it.
const TOLERANCE: f64 = 0.001;
/// The same in misses per 1000 instructions, for values near 0.
const FLOOR_MPKI: f64 = 0.0005;

/// What the engine has seen so far; `None` when no instruction ran.
pub fn recording(engine: &Engine) -> Option<Recording> {
    let (phases, sequence) = engine.phases();
    let mut traces: Vec<MicroTrace> = Vec::new();
    let most = MOST_MICRO_TRACES / phases.len().max(1);
    let phases: Vec<Phase> =
        phases.iter().filter_map(|figures| phase(figures, &mut traces, most)).collect();
    let threads = engine.threads().zip(0..).filter_map(|(own, number)| thread(own, number));
    let origin = Origin { sampling_rate: engine.sampling_rate(), ..Origin::default() };
    (!phases.is_empty()).then(|| Recording {
        sequence,
        threads: threads.collect(),
        stack_distances: engine.set_profiles(),
        // They are packed well where the profile is put together.
        micro_traces: MicroTraces::pack_quickly(&traces),
        ..Recording::new(origin, phases)
    })
}

/// These sums as a phase, of whose micro-traces at most so many are added to `traces`; `None` when no instruction ran.
pub fn phase(figures: &Figures, traces: &mut Vec<MicroTrace>, most: usize) -> Option<Phase> {
    let Figures { counters, histogram, observed, .. } = figures;
    let traffic = observed.traffic;
    if counters.instructions == 0 {
        return None;
    }
    let thousands = counters.instructions as f64 / 1000.0;
    let pki = |count: u64| count as f64 / thousands;
    let [mispredicted, mispredicted_large] = figures.mispredicted().map(pki);
    let first = traces.len();
    let mut weights: Vec<f64> = Vec::new();
    for (trace, weight) in figures.strata.traces(most) {
        traces.push(trace);
        weights.push(weight);
    }
    let all: f64 = weights.iter().sum();
    let own = traces[first..].iter().map(Vec::as_slice).zip(weights.iter().copied());
    let memory_level_parallelism = parallelism(own);
    // Code that is not decoded has none of this.
    let decoded = counters.branches > 0;
    let core = || -> Option<CoreDetail> {
        Some(CoreDetail {
            mispredicted_large_pki: mispredicted_large,
            instruction_curve: curve(points(&figures.code, thousands))?,
            cleared_curve: Some(curve(points(&figures.cleared, thousands))?),
            zeroed_mpki: 0.0,
            page_faults_pki: pki(counters.page_faults),
            file_faults_pki: pki(counters.file_faults),
            system_calls_pki: pki(counters.system_calls),
            light_calls_pki: pki(counters.light_calls),
            mapping_calls_pki: pki(counters.mapping_calls),
            sleeping_calls_pki: pki(counters.sleeping_calls),
            transferred_bytes_pki: pki(counters.transferred_bytes),
            file_written_bytes_pki: pki(counters.file_written_bytes),
            micro_traces: (first as u32..).zip(weights.iter().map(|weight| weight / all)).collect(),
        })
    };
    Some(Phase {
        instructions: counters.instructions,
        threads: figures.threads.count().max(1),
        data_accesses_pki: pki(counters.loads + counters.stores),
        mix: InstructionMix {
            loads_pki: pki(counters.loads),
            stores_pki: pki(counters.stores),
            branches_pki: pki(counters.branches),
            float_pki: pki(counters.floats),
            mispredicted_pki: mispredicted,
        },
        prefetchable: share(observed.foreseen_misses, observed.private_misses),
        memory_level_parallelism,
        dirty_share: share(traffic.dirty.min(traffic.lines), traffic.lines),
        footprint_bytes: figures.touched.distinct_lines() * LINE_BYTES,
        curve: curve(points(histogram, thousands))?,
        core: if decoded { core() } else { None },
    })
}

fn thread(own: &OwnFigures, thread: u32) -> Option<ThreadRecord> {
    let thousands = own.instructions as f64 / 1000.0;
    (own.instructions > 0).then_some(())?;
    Some(ThreadRecord {
        process: 0,
        thread,
        instructions: own.instructions,
        data_accesses_pki: own.data_accesses as f64 / thousands,
        curve: curve(points(&own.histogram, thousands))?,
    })
}

fn points(histogram: &Histogram, thousands: f64) -> Vec<CurvePoint> {
    let point = |(lines, misses): (u64, u64)| CurvePoint {
        bytes: lines * LINE_BYTES,
        mpki: misses as f64 / thousands,
    };
    histogram.misses().into_iter().map(point).collect()
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Thins out a curve; `None` when there is no point.
pub(crate) fn curve(points: Vec<CurvePoint>) -> Option<MissRateCurve> {
    let mut tolerance = TOLERANCE;
    let mut kept = thinned(&points, tolerance);
    while kept.len() > MOST_POINTS {
        tolerance *= 1.5;
        kept = thinned(&points, tolerance);
    }
    MissRateCurve::new(kept).ok()
}

/// Drops the points that a line between kept ones reproduces: from each kept point as far ahead
/// as all in between stay within the tolerance.
fn thinned(points: &[CurvePoint], tolerance: f64) -> Vec<CurvePoint> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < points.len() {
        kept.push(points[at]);
        at += reproduced(&points[at..], tolerance) + 1;
    }
    kept
}

/// How many points behind the first a line from it to the one after them reproduces. Each point
/// bounds the slopes of lines that pass it within the tolerance.
fn reproduced(points: &[CurvePoint], tolerance: f64) -> usize {
    let first = points[0];
    let slope = |to: &CurvePoint, mpki: f64| (mpki - first.mpki) / (to.bytes - first.bytes) as f64;
    let (mut least, mut most) = (f64::NEG_INFINITY, f64::INFINITY);
    let mut holds = |pair: &[CurvePoint]| {
        let (dropped, end) = (&pair[0], &pair[1]);
        let allowed = (tolerance * dropped.mpki).max(FLOOR_MPKI);
        least = least.max(slope(dropped, dropped.mpki - allowed));
        most = most.min(slope(dropped, dropped.mpki + allowed));
        (least..=most).contains(&slope(end, end.mpki))
    };
    points[1..].windows(2).take_while(|pair| holds(pair)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straight_line_keeps_its_ends_and_a_cliff_its_edges() {
        let points: Vec<CurvePoint> = (1..=100)
            .map(|at| CurvePoint { bytes: at * 64, mpki: if at < 60 { 50.0 } else { 1.0 } })
            .collect();
        let kept: Vec<u64> = thinned(&points, TOLERANCE).iter().map(|one| one.bytes / 64).collect();
        assert_eq!(kept, [1, 59, 60, 100]);
    }

    #[test]
    fn a_smooth_curve_is_reproduced_within_the_tolerance() {
        let points: Vec<CurvePoint> = (1..300)
            .map(|at| CurvePoint { bytes: at * 1024, mpki: 100.0 / (at as f64).sqrt() })
            .collect();
        let thin = curve(points.clone()).unwrap();
        assert!(thin.points().len() < 80, "{}", thin.points().len());
        for point in points {
            let read = thin.mpki(point.bytes as f64).value;
            assert!((read / point.mpki - 1.0).abs() < 0.0011, "{}", point.bytes);
        }
    }
}
