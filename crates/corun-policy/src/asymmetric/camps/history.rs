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
    /// Running average of instructions a second in low contention on a big core.
    alone: f64,
    samples: u32,
    /// The most instructions a second on a small core.
    most_small: Option<f64>,
}

/// The table. What is looked through at every sample stands in columns of its own, so that the look is a
/// few vector instructions.
#[derive(Debug, Clone)]
pub(super) struct History {
    l1_percent: Vec<f64>,
    branch_percent: Vec<f64>,
    /// When each phase was last met, in samples of the table.
    met: Vec<u64>,
    phases: Vec<Phase>,
    /// The mean over the phases' samples, once somebody asked.
    mean_alone: Option<f64>,
    capacity: usize,
    distance: f64,
    clock: u64,
}

/// A phase's place in its table, until a phase comes into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(usize);

/// So many distances are computed side by side.
const LANES: usize = 4;

impl History {
    /// A table for at most so many phases; samples nearer than `distance` are of one phase.
    pub(super) fn new(capacity: usize, distance: f64) -> Self {
        Self {
            l1_percent: Vec::new(),
            branch_percent: Vec::new(),
            met: Vec::new(),
            phases: Vec::new(),
            mean_alone: None,
            capacity,
            distance,
            clock: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.phases.is_empty()
    }

    /// The nearest phase that is near enough, the first of equals; it counts as met.
    pub(super) fn find(&mut self, at: Control) -> Option<Place> {
        self.clock += 1;
        let least = self.least_distance(at);
        if least > self.distance {
            return None;
        }
        let place = (0..self.phases.len()).find(|&place| self.at(place).distance(at) == least)?;
        self.met[place] = self.clock;
        Some(Place(place))
    }

    fn at(&self, place: usize) -> Control {
        Control { l1_percent: self.l1_percent[place], branch_percent: self.branch_percent[place] }
    }

    fn least_distance(&self, at: Control) -> f64 {
        let mut least = [f64::INFINITY; LANES];
        let (l1_of_four, l1_rest) = self.l1_percent.as_chunks::<LANES>();
        let (branch_of_four, branch_rest) = self.branch_percent.as_chunks::<LANES>();
        for (l1, branch) in l1_of_four.iter().zip(branch_of_four) {
            for lane in 0..LANES {
                let phase = Control { l1_percent: l1[lane], branch_percent: branch[lane] };
                let distance = phase.distance(at);
                least[lane] = if distance < least[lane] { distance } else { least[lane] };
            }
        }
        let rest = l1_rest.iter().zip(branch_rest).map(|(&l1_percent, &branch_percent)| {
            Control { l1_percent, branch_percent }.distance(at)
        });
        rest.chain(least).fold(f64::INFINITY, f64::min)
    }

    /// A sample in low contention on a big core, of the phase found for it. Where it is now.
    pub(super) fn record(&mut self, found: Option<Place>, at: Control, speed: f64) -> Place {
        let Some(place) = found else {
            return self.insert(at, Phase { alone: speed, samples: 1, most_small: None });
        };
        let phase = &mut self.phases[place.0];
        phase.samples += 1;
        phase.alone += (speed - phase.alone) / f64::from(phase.samples);
        self.mean_alone = None;
        place
    }

    /// When the table is full, the phase that was met longest ago makes room.
    fn insert(&mut self, at: Control, phase: Phase) -> Place {
        if self.phases.len() >= self.capacity
            && let Some(oldest) = (0..self.met.len()).min_by_key(|&place| self.met[place])
        {
            self.l1_percent.swap_remove(oldest);
            self.branch_percent.swap_remove(oldest);
            self.met.swap_remove(oldest);
            self.phases.swap_remove(oldest);
        }
        self.l1_percent.push(at.l1_percent);
        self.branch_percent.push(at.branch_percent);
        self.met.push(self.clock);
        self.phases.push(phase);
        self.mean_alone = None;
        Place(self.phases.len() - 1)
    }

    /// Instructions a second alone in a phase.
    pub(super) fn alone(&self, place: Place) -> f64 {
        self.phases[place.0].alone
    }

    /// Takes over the phase from another thread of the program, if that has it.
    pub(super) fn copy_from(&mut self, other: &mut Self, at: Control) -> Option<Place> {
        let place = other.find(at)?;
        Some(self.insert(other.at(place.0), other.phases[place.0]))
    }

    /// The mean over the phases' samples.
    pub(super) fn mean_alone(&mut self) -> Option<f64> {
        if self.mean_alone.is_none() {
            let samples: f64 = self.phases.iter().map(|phase| f64::from(phase.samples)).sum();
            let sum: f64 =
                self.phases.iter().map(|phase| phase.alone * f64::from(phase.samples)).sum();
            self.mean_alone = (samples > 0.0).then(|| sum / samples);
        }
        self.mean_alone
    }

    /// A sample on a small core: the phase's best there is its speed there alone, or a lower bound.
    pub(super) fn note_small(&mut self, place: Place, speed: f64) {
        let most = &mut self.phases[place.0].most_small;
        *most = Some(most.map_or(speed, |most| most.max(speed)));
    }

    /// The phase's speed on big cores over that on small ones.
    pub(super) fn speedup(&self, place: Place) -> Option<f64> {
        let phase = &self.phases[place.0];
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
        let found = table.find(at);
        if train(place) {
            table.record(found, at, 1.0);
        } else {
            tests += 1;
            hits += u32::from(found.is_some());
        }
    }
    (tests > 0).then(|| f64::from(hits) / f64::from(tests))
}
