//! Programs outside the machine that share its last-level cache, as the neighbours of a virtual machine do.
//!
//! A machine file tells of them how long a line stays that was used again and then lies still while nobody here
//! uses the cache (`idle_survival`): the life, L on average. In a cache that resists
//! streams ([`crate::single_use`]) they are one more sharer of it: all sharers see the same time t, and since
//! theirs alone is L, they hold a share t / L of the cache at t.
//!
//! What is left of C bytes for the programs here that hold o(t) bytes each is sum of o = C (1 - t / L), or,
//! with b = o / (1 - t / L), sum of b = C. So a program's table is by b: the space that it and the lines of the
//! neighbours in between take. Alone its lines stay for L (1 - o / C), and those that were used once for the
//! share r of that, so that a program whose lines come back late finds few of them, alone as well as beside others.

use crate::core::CpiStack;
use crate::site::Site;
use crate::table::Knot;

/// From one tabulated size to the next; the least is this part of the LLC.
const SIZE_RATIO: f64 = 1.06;
const LEAST_SIZE: f64 = 1.0 / 4096.0;
/// Steps between two knots of the table without neighbours, as space is not linear there.
const STEPS: u32 = 8;

/// A program's figures without neighbours, where the bytes are those of its own lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnPoint {
    pub(crate) knot: Knot,
    pub(crate) stack: Option<CpiStack>,
    /// Instructions for which lines that are used again stay.
    pub(crate) instructions: f64,
}

impl OwnPoint {
    fn between(low: &Self, high: &Self, part: f64) -> Self {
        let bytes = low.knot.bytes + part * (high.knot.bytes - low.knot.bytes);
        let stack = low.stack.zip(high.stack).map(|(low, high)| {
            let mut stack = low.times(1.0 - part);
            stack.add_times(&high, part);
            stack
        });
        let instructions = low.instructions + part * (high.instructions - low.instructions);
        Self { knot: Knot::between(&low.knot, &high.knot, bytes), stack, instructions }
    }
}

/// The same by the space that the program takes together with the lines of neighbours, and by each the
/// seconds for which lines stay.
pub(crate) fn beside_outside(points: &[OwnPoint], site: &Site) -> Vec<(OwnPoint, f64)> {
    let path = Path::new(points, site);
    let mut sizes = vec![0.0];
    let mut size = site.llc_bytes * LEAST_SIZE;
    while size < site.llc_bytes {
        sizes.push(size);
        size *= SIZE_RATIO;
    }
    sizes.push(site.llc_bytes);
    sizes.into_iter().map(|bytes| path.at(bytes)).collect()
}

/// What a program goes through as it takes more space.
struct Path {
    life: f64,
    /// By rising instructions, each with the seconds for which lines stay there.
    points: Vec<(OwnPoint, f64)>,
}

impl Path {
    fn new(own: &[OwnPoint], site: &Site) -> Self {
        let timed =
            |point: OwnPoint| (point, point.instructions * point.knot.cpi / site.clock_hz());
        let between = own.windows(2).flat_map(|pair| {
            let part = |step: u32| f64::from(step) / f64::from(STEPS);
            (1..=STEPS).map(move |step| OwnPoint::between(&pair[0], &pair[1], part(step)))
        });
        let points = own.first().copied().into_iter().chain(between).map(timed).collect();
        Self { life: site.life(), points }
    }

    /// Bytes that the program holds at a point beyond those that the neighbours leave it in so much space.
    fn beyond(&self, (point, seconds): &(OwnPoint, f64), bytes: f64) -> f64 {
        point.knot.bytes - bytes * (1.0 - seconds / self.life)
    }

    /// The first point at which it takes so much space, as it fills the cache, and for how long lines stay there.
    fn at(&self, bytes: f64) -> (OwnPoint, f64) {
        let takes_all = |point: &(OwnPoint, f64)| self.beyond(point, bytes) >= 0.0;
        let (point, seconds) = match self.points.iter().position(takes_all) {
            // It holds all that it uses, and takes the more space the more lines of neighbours lie between.
            None => {
                let last = self.points[self.points.len() - 1].0;
                (last, self.life * (1.0 - last.knot.bytes / bytes))
            }
            Some(0) => self.points[0],
            Some(after) => {
                let (low, high) = (&self.points[after - 1], &self.points[after]);
                let (short, beyond) = (self.beyond(low, bytes), self.beyond(high, bytes));
                let part = short / (short - beyond);
                (OwnPoint::between(&low.0, &high.0, part), low.1 + part * (high.1 - low.1))
            }
        };
        (OwnPoint { knot: Knot { bytes, ..point.knot }, ..point }, seconds)
    }
}
