//! Which phase ran for how long, in order, in bounded memory.

use corun_profile::Stretch;

use super::MOST_STRETCHES;

/// A sequence of stretches, neighbours of the same phase joined.
#[derive(Debug, Clone, Default)]
pub(super) struct Sequence {
    stretches: Vec<Stretch>,
}

impl Sequence {
    pub(super) fn into_stretches(self) -> Vec<Stretch> {
        self.stretches
    }

    pub(super) fn push(&mut self, stretch: Stretch) {
        self.join(stretch);
        if self.stretches.len() > MOST_STRETCHES {
            self.coarsen();
        }
    }

    fn join(&mut self, stretch: Stretch) {
        match self.stretches.last_mut() {
            _ if stretch.instructions == 0 => {}
            Some(last) if last.phase == stretch.phase => last.instructions += stretch.instructions,
            _ => self.stretches.push(stretch),
        }
    }

    /// The first phase that never lasts `least` instructions at a time and is less than a quarter
    /// of all: as a rule windows in which one phase ends and another begins.
    pub(super) fn passing(&self, least: u64) -> Option<usize> {
        let mut sums: Vec<(u64, u64)> = Vec::new();
        let mut all = 0;
        for stretch in &self.stretches {
            let known = sums.len().max(stretch.phase + 1);
            sums.resize(known, (0, 0));
            let (sum, longest) = &mut sums[stretch.phase];
            *sum += stretch.instructions;
            *longest = stretch.instructions.max(*longest);
            all += stretch.instructions;
        }
        sums.iter().position(|&(sum, longest)| sum > 0 && longest < least && sum < all.div_ceil(4))
    }

    /// Gives phases other numbers.
    pub(super) fn renumber(&mut self, number: impl Fn(usize) -> usize) {
        for stretch in std::mem::take(&mut self.stretches) {
            self.join(Stretch { phase: number(stretch.phase), ..stretch });
        }
    }

    /// Numbers the phases by their first appearance, and puts them in that order.
    pub(super) fn order<'a, B: Clone + 'a>(
        &mut self,
        phases: impl Iterator<Item = &'a B>,
    ) -> Vec<B> {
        let phases: Vec<&B> = phases.collect();
        let mut order: Vec<usize> = Vec::new();
        for stretch in &self.stretches {
            if !order.contains(&stretch.phase) {
                order.push(stretch.phase);
            }
        }
        self.renumber(|phase| order.iter().position(|&one| one == phase).unwrap_or(0));
        order.iter().map(|&phase| phases[phase].clone()).collect()
    }

    /// Shortens it to three quarters of the most at least. In every group of four stretches (eight, 16 .. until that is enough) the
    /// same phase's are put together, at the place of the first: so all phases keep their
    /// lengths, and only when within a group they ran is lost.
    fn coarsen(&mut self) {
        let mut group = 4;
        while self.stretches.len() > MOST_STRETCHES / 4 * 3 {
            let mut gathered: Vec<Stretch> = Vec::new();
            let mut coarse = Self::default();
            for stretches in self.stretches.chunks(group) {
                gathered.clear();
                for stretch in stretches {
                    match gathered.iter_mut().find(|one| one.phase == stretch.phase) {
                        Some(same) => same.instructions += stretch.instructions,
                        None => gathered.push(*stretch),
                    }
                }
                gathered.iter().for_each(|&stretch| coarse.join(stretch));
            }
            *self = coarse;
            group *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(phase: usize, instructions: u64) -> Stretch {
        Stretch { phase, instructions }
    }

    #[test]
    fn neighbours_join() {
        let mut sequence = Sequence::default();
        for (phase, instructions) in [(0, 5), (0, 6), (1, 0), (0, 1), (1, 2), (2, 3)] {
            sequence.push(stretch(phase, instructions));
        }
        assert_eq!(sequence.stretches, [stretch(0, 12), stretch(1, 2), stretch(2, 3)]);
        sequence.renumber(|phase| phase.min(1));
        assert_eq!(sequence.stretches, [stretch(0, 12), stretch(1, 5)]);
    }

    #[test]
    fn too_many_are_gathered_in_groups() {
        let mut sequence = Sequence::default();
        for at in 0..=MOST_STRETCHES as u64 {
            sequence.push(stretch(at as usize % 2, 1 + at % 2));
        }
        // 1001 stretches: 250 groups A B A B, and one A alone.
        assert_eq!(sequence.stretches.len(), 501);
        assert_eq!(sequence.stretches[..3], [stretch(0, 2), stretch(1, 4), stretch(0, 2)]);
    }

    #[test]
    fn every_phase_keeps_its_length() {
        let mut sequence = Sequence::default();
        let mut lengths = [0; 32];
        let mut state = 1u64;
        for _ in 0..100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let one = stretch((state >> 59) as usize, 1 + (state >> 40) % 7);
            lengths[one.phase] += one.instructions;
            sequence.push(one);
            assert!(sequence.stretches.len() <= MOST_STRETCHES);
        }
        let mut found = [0; 32];
        for one in sequence.stretches {
            found[one.phase] += one.instructions;
        }
        assert_eq!(found, lengths);
    }
}
