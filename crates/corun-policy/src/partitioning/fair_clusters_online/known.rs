//! What is known of a program: its phases.

use super::phase_curve::{End, PhaseCurve, Signature, Sizes, distance, signature};
use crate::WaysCurve;
use crate::partitioning::online::Seen;
use crate::partitioning::online::window::Sample;

/// Phases that are kept at most.
const MOST_PHASES: usize = 16;

/// A program's phases, the latest last.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    phases: Vec<PhaseCurve>,
    /// What the last window was like, where that was no phase that is known.
    other: Option<Signature>,
}

impl Known {
    /// The curve of the present phase.
    pub(super) fn curve(&self, end: End, sizes: &Sizes) -> Option<WaysCurve> {
        self.phases.last()?.curve(end, sizes)
    }

    /// The present phase with samples taken in; none where nothing is known of it, or they are of another one.
    pub(super) fn with_samples(
        &self,
        samples: &[(u32, Sample)],
        other_phase: f64,
        sizes: &Sizes,
    ) -> Option<PhaseCurve> {
        let mut phase = self.phases.last()?.clone();
        for (ways, sample) in samples {
            if distance(phase.signature(), signature(sample)) > other_phase {
                return None;
            }
            phase.take(f64::from(*ways), sample, sizes);
        }
        Some(phase)
    }

    /// Takes in the samples that are of the present phase.
    pub(super) fn take_samples(
        &mut self,
        samples: &[(u32, Sample)],
        other_phase: f64,
        sizes: &Sizes,
    ) {
        let Some(phase) = self.phases.last_mut() else { return };
        for (ways, sample) in samples {
            if distance(phase.signature(), signature(sample)) <= other_phase {
                phase.take(f64::from(*ways), sample, sizes);
            }
        }
    }

    /// The program has come: its first window that counts.
    pub(super) fn arrive(&mut self, seen: &Seen, other_phase: f64, sizes: &Sizes) {
        self.other = None;
        self.enter(signature(&seen.sample), other_phase);
        self.take_point(seen, sizes);
    }

    /// Takes in a window of normal operation. Is it another phase? It takes two windows alike to tell.
    pub(super) fn take(&mut self, seen: &Seen, other_phase: f64, sizes: &Sizes) -> bool {
        let now = signature(&seen.sample);
        let is = |one: Signature| distance(one, now) <= other_phase;
        if self.phases.last().is_some_and(|phase| is(phase.signature())) {
            self.other = None;
            if let Some(phase) = self.phases.last_mut() {
                phase.blend(now);
            }
            self.take_point(seen, sizes);
            return false;
        }
        if !self.other.is_some_and(is) {
            self.other = Some(now);
            return false;
        }
        self.other = None;
        self.enter(now, other_phase);
        self.take_point(seen, sizes);
        true
    }

    /// The phase of a signature becomes the present one.
    fn enter(&mut self, now: Signature, other_phase: f64) {
        let far = |phase: &PhaseCurve| distance(phase.signature(), now);
        let nearest = (0..self.phases.len())
            .min_by(|&one, &other| far(&self.phases[one]).total_cmp(&far(&self.phases[other])));
        let phase = match nearest {
            Some(place) if far(&self.phases[place]) <= other_phase => self.phases.remove(place),
            _ => PhaseCurve::new(now),
        };
        self.phases.push(phase);
        if self.phases.len() > MOST_PHASES {
            self.phases.remove(0);
        }
    }

    fn take_point(&mut self, seen: &Seen, sizes: &Sizes) {
        let Some(phase) = self.phases.last_mut() else { return };
        if seen.is_held_counted {
            phase.take(seen.held_bytes / sizes.way_bytes, &seen.sample, sizes);
        }
    }
}
