//! A thread's history table: how fast it was, phase by phase, on a big core without contention
//! (thesis, sections 4.3.2 and 4.3.6).

/// What a phase is known by: figures that neither contention nor the core type changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Control {
    /// L1 accesses in % of instructions.
    pub(super) l1_percent: f64,
    /// Branches in % of instructions.
    pub(super) branch_percent: f64,
}

impl Control {
    /// Manhattan distance in percentage points.
    pub(super) fn distance(self, other: Self) -> f64 {
        (self.l1_percent - other.l1_percent).abs()
            + (self.branch_percent - other.branch_percent).abs()
    }
}

#[derive(Debug, Clone, Copy)]
struct Phase {
    at: Control,
    /// Running average of instructions a second in low contention on a big core.
    alone: f64,
    samples: u32,
    /// The most instructions a second on a small core.
    most_small: Option<f64>,
    /// When it was last met, in samples of the table.
    met: u64,
}

/// The table.
#[derive(Debug, Clone)]
pub(super) struct History {
    entries: Vec<Phase>,
    capacity: usize,
    distance: f64,
    clock: u64,
}

impl History {
    /// A table for at most so many phases; samples nearer than `distance` are of one phase.
    pub(super) fn new(capacity: usize, distance: f64) -> Self {
        Self { entries: Vec::new(), capacity, distance, clock: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The nearest phase that is near enough.
    fn find(&mut self, at: Control) -> Option<usize> {
        self.clock += 1;
        let mut best: Option<(usize, f64)> = None;
        for (place, phase) in self.entries.iter().enumerate() {
            let distance = phase.at.distance(at);
            if distance <= self.distance && best.is_none_or(|(_, least)| distance < least) {
                best = Some((place, distance));
            }
        }
        let (place, _) = best?;
        self.entries[place].met = self.clock;
        Some(place)
    }

    /// A sample in low contention on a big core. Was its phase known?
    pub(super) fn record(&mut self, at: Control, speed: f64) -> bool {
        if let Some(place) = self.find(at) {
            let phase = &mut self.entries[place];
            phase.samples += 1;
            phase.alone += (speed - phase.alone) / f64::from(phase.samples);
            return true;
        }
        self.insert(Phase { at, alone: speed, samples: 1, most_small: None, met: self.clock });
        false
    }

    /// When the table is full, the phase that was met longest ago makes room.
    fn insert(&mut self, phase: Phase) {
        if self.entries.len() >= self.capacity {
            let oldest = (0..self.entries.len()).min_by_key(|&place| self.entries[place].met);
            oldest.map(|place| self.entries.swap_remove(place));
        }
        self.entries.push(phase);
    }

    /// Instructions a second alone in this phase; none for a phase that is not in the table.
    pub(super) fn alone(&mut self, at: Control) -> Option<f64> {
        self.find(at).map(|place| self.entries[place].alone)
    }

    /// Takes over the phase from another thread of the program, if that has it.
    pub(super) fn copy_from(&mut self, other: &mut Self, at: Control) -> Option<f64> {
        let place = other.find(at)?;
        let mut phase = other.entries[place];
        phase.met = self.clock;
        self.insert(phase);
        Some(phase.alone)
    }

    /// The mean over the phases' samples.
    pub(super) fn mean_alone(&self) -> Option<f64> {
        let samples: f64 = self.entries.iter().map(|phase| f64::from(phase.samples)).sum();
        let sum: f64 =
            self.entries.iter().map(|phase| phase.alone * f64::from(phase.samples)).sum();
        (samples > 0.0).then(|| sum / samples)
    }

    /// A sample on a small core: the phase's best there is its speed there alone, or a lower bound.
    pub(super) fn note_small(&mut self, at: Control, speed: f64) {
        if let Some(place) = self.find(at) {
            let most = &mut self.entries[place].most_small;
            *most = Some(most.map_or(speed, |most| most.max(speed)));
        }
    }

    /// The phase's speed on big cores over that on small ones.
    pub(super) fn speedup(&mut self, at: Control) -> Option<f64> {
        let place = self.find(at)?;
        let phase = &self.entries[place];
        Some(phase.alone / phase.most_small?)
    }
}

/// Of how many test samples a table of this size knows the phase, when the samples for which `train`
/// says so fill it: section 4.4.1's phase hit rate, 0 to 1. None without test samples.
///
/// `samples`: L1 accesses and branches per 1000 instructions, in order. `distance`: in percentage
/// points of instructions.
pub fn phase_hit_rate(
    samples: &[(f64, f64)],
    entries: usize,
    distance: f64,
    train: impl Fn(usize) -> bool,
) -> Option<f64> {
    let mut table = History::new(entries, distance);
    let (mut hits, mut tests) = (0u32, 0u32);
    for (place, &(l1_pki, branches_pki)) in samples.iter().enumerate() {
        let at = Control { l1_percent: l1_pki * 0.1, branch_percent: branches_pki * 0.1 };
        if train(place) {
            table.record(at, 1.0);
        } else {
            tests += 1;
            hits += u32::from(table.alone(at).is_some());
        }
    }
    (tests > 0).then(|| f64::from(hits) / f64::from(tests))
}
