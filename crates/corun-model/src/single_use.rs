//! Caches in which lines that were used once leave before those that were used again.
//!
//! Such a cache ages its lines by stages, as re-reference interval prediction does (Jaleel, Theobald, Steely and Emer,
//! ISCA 2010): a line that comes in is one step from leaving, one that is used again n steps, and whoever needs space
//! takes a step of a line chosen at random. So where the second kind stays for a time t on average, in n stages of t / n
//! that vary each (Erlang's distribution), the first stays for r t (`random_use_life` of a machine file, r = 1 / n
//! in a cache that is so and nothing else), and that time varies as a single stage does. What a program misses and holds at a
//! time t follows from its LRU curve and from how its lines come back, which the curve does not tell:
//!
//! - A line comes back after a miss with the chance a that it stays until its next use, and is lost after a hit with the
//!   chance b that it does not. So it hits with h = a / (a + b).
//! - A line that is used at random, once in θ on average: a = r t / (r t + θ) and b = (1 + t / (n θ))^-n. For a share h of the
//!   time it is there (it is used at random: whoever looks finds it as often as its uses do).
//! - A line that is used at the same distance d all the time: a = exp(-d / (r t)), b is what Erlang's distribution has
//!   below d, and between two uses it is there for as long as it stays or until the second.
//! - A line that a prefetcher brings, as those of a stream are, stays for q t (`single_use_life`), again a single stage, until it is
//!   used again: a = exp(-d / (q t)), and b as above. (A walk through 12 MiB, again and again, hits a measured cache of 32 MiB each
//!   time; if lines were as new each time, a quarter of them would miss at q = 0.09, and more at less.)
//! - A line that never comes back lies there for q t or r t.
//! - A core may fetch the line behind one that is used (`prefetching.next_line` of a machine file, p), and that is as
//!   good as a use of it. Lines of either of the first two kinds that lie side by side are used at random times of each
//!   other, as those of a hash table or of a heap are: θ / (1 + p) in place of θ, and with the chance p a distance d is split
//!   anywhere.
//!
//! The curve is taken apart accordingly. Misses at the end of the curve are of lines that never come
//! back. The rest, as a function of the time t of an LRU cache that misses so, is a sum of exponentials
//! exp(-t / θ) where lines are used at random (Fagin, 1977; Che, Tung and Wang, IEEE JSAC 20(7), 2002),
//! and a sum of steps where they are used at fixed distances. From the slowest exponential on, as much of
//! each is taken as leaves no more to miss at any time than before it. What is left at the end counts as used at fixed
//! distances (below 0 far out, where an exponential is nearly over).

/// From one distance of uses, and from one time for which lines stay, to the next.
const STEP: f64 = 1.068;
/// As many steps from one exponential to the next.
const STEPS_BETWEEN_CLASSES: usize = 4;
/// And from one time to about twice that.
const STEPS_OF_TWICE: usize = 10;
/// What an exponential falls by less than this in such a time tells nothing of it.
const FLOOR: f64 = 0.03;
/// Misses less than this share of all tell nothing about how lines come back.
const LEAST_SHARE: f64 = 1e-4;
/// Of the times at which a program is looked at, the first is this part of the least distance of its uses, and the last so
/// many times the greatest.
const FIRST_TIME: f64 = 0.02;
const LAST_TIME: f64 = 100.0;

/// More stages hardly differ from a fixed age.
const MOST_STAGES: u32 = 64;

/// A point of a program's LRU curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CurvePoint {
    /// Size of the LRU cache.
    pub(crate) bytes: f64,
    /// Bytes that it misses an instruction.
    pub(crate) missed: f64,
    /// Instructions in which it fills a cache of that size: how long its lines stay there.
    pub(crate) instructions: f64,
}

/// What a program holds and misses where lines that are used again stay for a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeldPoint {
    pub(crate) bytes: f64,
    /// Bytes missed an instruction.
    pub(crate) missed: f64,
    /// That time.
    pub(crate) instructions: f64,
}

/// How long lines stay, those that are used again for the time 1 on average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LineLives {
    /// Of a line of a stream (q).
    pub(crate) stream: f64,
    /// Of a line that was used once (r).
    pub(crate) once: f64,
    /// Stages in which a line leaves that was used again (n).
    pub(crate) stages: u32,
    /// The share of uses with which the next line comes along (p).
    pub(crate) next_line: f64,
}

/// The chance of a hit, and the share of the time for which a line is there.
#[derive(Debug, Clone, Copy)]
struct Found {
    hit: f64,
    there: f64,
}

/// What becomes of a line from one use to the next.
#[derive(Debug, Clone, Copy)]
struct BetweenUses {
    /// The chances that it is still there after a miss, and after a hit.
    back: f64,
    left: f64,
    /// For how long it is there, by t, after a miss and after a hit.
    once: f64,
    again: f64,
}

impl LineLives {
    /// From the measured figures. That of lines used once is the ratio of the times that leave half of each kind, and
    /// that of a stream is by such a time, too; here they are ratios of means. `next_line` is that of the machine file.
    pub fn of(single_use_life: f64, random_use_life: f64, next_line: f64) -> Self {
        let median_of_one = std::f64::consts::LN_2;
        // The ratio falls as the stages become more.
        let off = |stages: u32| {
            let ratio = median_of_one / (f64::from(stages) * median(stages));
            (ratio - random_use_life).abs()
        };
        let mut stages = 1;
        while stages < MOST_STAGES && off(stages + 1) < off(stages) {
            stages += 1;
        }
        let once = (random_use_life * median(stages) / median_of_one).min(1.0);
        Self { stream: single_use_life * median(stages), once, stages, next_line }
    }

    /// The time after which half of the lines are left that were used again.
    pub fn median(self) -> f64 {
        median(self.stages)
    }

    /// The share of uses that hit, of lines that are used at random, by t / θ.
    pub fn hits_at_random(self, time: f64) -> f64 {
        self.at_random(time).hit
    }

    /// Of lines that are used at random, by t / θ.
    fn at_random(self, time: f64) -> Found {
        let time = time * (1.0 + self.next_line);
        let stages = f64::from(self.stages);
        let back = self.once * time / (self.once * time + 1.0);
        let gone = (1.0 + time / stages).powf(-stages);
        let hit = back / (back + gone);
        Found { hit, there: hit }
    }

    /// Of lines that are used at a fixed distance, by d / t.
    fn at_distance(self, distance: f64) -> Found {
        let stages = f64::from(self.stages);
        let [left, left_of_one_more, left_of_two_more] =
            [0, 1, 2].map(|more| left_of(self.stages + more, stages * distance));
        let whole = BetweenUses {
            back: (-distance / self.once).exp(),
            left,
            once: self.once * (1.0 - (-distance / self.once).exp()),
            again: (1.0 - left_of_one_more) + distance * left,
        };
        // Means over all places at which the line before can be used in between: integrals of the same over the
        // distance, by the distance.
        let back = whole.once / distance;
        let squares = (1.0 + stages.recip()) * (1.0 - left_of_two_more) / distance;
        let part = BetweenUses {
            back,
            left: whole.again / distance,
            once: self.once * (1.0 - back),
            again: (1.0 - left_of_one_more) - 0.5 * squares + 0.5 * distance * left,
        };
        let mean = |whole: f64, part: f64| whole + self.next_line * (part - whole);
        let back = mean(whole.back, part.back);
        let hit = back / (back + 1.0 - mean(whole.left, part.left));
        let there = |interval: BetweenUses| hit * interval.again + (1.0 - hit) * interval.once;
        Found { hit, there: mean(there(whole), 2.0 * there(part)) / distance }
    }

    /// Of lines that are used at random, and of those at a fixed distance, this share of which a prefetcher brings; by the
    /// time t as a multiple of the distance.
    fn found(self, time: f64, foreseen: f64) -> [Found; 2] {
        let (one, other) = (self.foreseen(time.recip()), self.at_distance(time.recip()));
        let mean = |one: f64, other: f64| foreseen * one + (1.0 - foreseen) * other;
        let fixed = Found { hit: mean(one.hit, other.hit), there: mean(one.there, other.there) };
        [self.at_random(time), fixed]
    }

    /// Of lines that a prefetcher brings, at a fixed distance, by d / t.
    fn foreseen(self, distance: f64) -> Found {
        Self { once: self.stream, next_line: 0.0, ..self }.at_distance(distance)
    }
}

/// The share that is left of Erlang's distribution of so many stages after so many times the mean of one.
fn left_of(stages: u32, time: f64) -> f64 {
    let mut term = (-time).exp();
    let mut sum = term;
    for stage in 1..stages {
        term *= time / f64::from(stage);
        sum += term;
    }
    sum
}

/// Where half of that distribution lies, by its mean.
pub(crate) fn median(stages: u32) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if left_of(stages, f64::from(stages) * middle) > 0.5 { low = middle } else { high = middle }
    }
    high
}

/// Bytes that are used an instruction, by distances from `least` on, each [`STEP`] times the one before.
struct ByDistance {
    least: f64,
    at_random: Vec<f64>,
    fixed: Vec<f64>,
}

impl ByDistance {
    fn new(least: f64, most: f64) -> Self {
        let count = (most / least).ln() / STEP.ln();
        let none = vec![0.0; count.max(0.0).ceil() as usize + 2];
        Self { least, at_random: none.clone(), fixed: none }
    }

    fn distance(&self, index: usize) -> f64 {
        self.least * STEP.powi(index as i32)
    }

    /// Shares bytes used at a fixed distance between its two neighbours, so that what lies there in between is the same.
    fn add_fixed(&mut self, distance: f64, used: f64) {
        let place = ((distance / self.least).ln() / STEP.ln()).floor().max(0.0) as usize;
        let below = place.min(self.fixed.len() - 2);
        let (low, high) = (self.distance(below), self.distance(below + 1));
        let part = ((distance - low) / (high - low)).clamp(0.0, 1.0);
        self.fixed[below] += used * (1.0 - part);
        self.fixed[below + 1] += used * part;
    }
}

/// What the program of an LRU curve holds and misses in a cache with such lives, from nothing on; the bytes rise and the
/// misses never do. It ends where all is held or more than `most_bytes`. A prefetcher brings this share of all lines:
/// of those that are not used at random, as far as they reach.
pub(crate) fn held_and_missed(
    curve: &[CurvePoint],
    foreseen: f64,
    lives: LineLives,
    most_bytes: f64,
) -> Vec<HeldPoint> {
    let first = curve.first().map_or(0.0, |point| point.missed);
    let mut points = vec![HeldPoint { bytes: 0.0, missed: first, instructions: 0.0 }];
    let never = curve.last().map_or(0.0, |point| point.missed);
    let uses = uses(curve, never);
    let at_random: f64 = uses.iter().flat_map(|uses| &uses.at_random).sum();
    let others = first - at_random;
    let foreseen = if others > 0.0 { (foreseen * first / others).min(1.0) } else { 0.0 };
    let stream = never * (foreseen * lives.stream + (1.0 - foreseen) * lives.once);
    let Some(uses) = uses else {
        // A stream, or nothing.
        if never > 0.0 {
            let instructions = most_bytes / stream;
            points.push(HeldPoint { bytes: most_bytes, missed: never, instructions });
        }
        return points;
    };
    let steps = |ratio: f64| (ratio.ln() / STEP.ln()).round() as i32;
    let times = steps(FIRST_TIME)..=steps(LAST_TIME) + uses.fixed.len() as i32;
    // By the steps from a distance to a time.
    let least = times.start() - uses.fixed.len() as i32;
    let found: Vec<[Found; 2]> =
        (least..=*times.end()).map(|steps| lives.found(STEP.powi(steps), foreseen)).collect();
    for time in times {
        let instructions = uses.least * STEP.powi(time);
        let mut held = stream * instructions;
        let mut missed = never;
        for index in 0..uses.fixed.len() {
            let distance = uses.distance(index);
            let kinds = [uses.at_random[index], uses.fixed[index]];
            let found = &found[(time - index as i32 - least) as usize];
            for (used, found) in kinds.into_iter().zip(found) {
                missed += used * (1.0 - found.hit);
                held += used * distance * found.there;
            }
        }
        let last = points[points.len() - 1];
        let missed = missed.max(never).min(last.missed);
        points.push(HeldPoint { bytes: held.max(last.bytes), missed, instructions });
        if held > most_bytes {
            break;
        }
    }
    points
}

/// How often bytes are used at random and at fixed distances; none where nothing comes back.
fn uses(curve: &[CurvePoint], never: f64) -> Option<ByDistance> {
    let mut rest: Vec<f64> = curve.iter().map(|point| point.missed - never).collect();
    let least = rest.first().map_or(0.0, |most| most * LEAST_SHARE);
    let slowest = curve.iter().zip(&rest).rev().find(|(_, left)| **left > least)?.0.instructions;
    let fastest = curve.iter().map(|point| point.instructions).find(|time| *time > 0.0)?;
    let farthest = curve.last().map_or(slowest, |point| point.instructions);
    let mut uses = ByDistance::new(0.5 * fastest, slowest.max(farthest));
    take_random(curve, &mut rest, slowest, least, &mut uses);
    for (pair, left) in curve.windows(2).zip(rest.windows(2)) {
        let distance = 0.5 * (pair[0].instructions + pair[1].instructions);
        uses.add_fixed(distance, left[0] - left[1]);
    }
    Some(uses)
}

/// Takes the exponentials out of the misses that are left, the slowest first: as much of each that of no two times, one
/// twice the other, more would be left at the later. (A loop is left whole: it lies above many an exponential, and misses
/// as much at one time as at the other until it ends.)
fn take_random(
    curve: &[CurvePoint],
    rest: &mut [f64],
    slowest: f64,
    least: f64,
    uses: &mut ByDistance,
) {
    let last = ((slowest / uses.least).ln() / STEP.ln()).round().max(0.0) as usize;
    let mut left: Vec<f64> = (0..=last + STEPS_OF_TWICE)
        .map(|index| left_at(curve, rest, uses.distance(index)))
        .collect();
    for index in (0..=last.min(uses.at_random.len() - 1)).rev().step_by(STEPS_BETWEEN_CLASSES) {
        let distance = uses.distance(index);
        let heights: Vec<f64> =
            (0..left.len()).map(|time| (-uses.distance(time) / distance).exp()).collect();
        let begins = (rest[0] - left[0], 1.0 - heights[0]);
        let falls = (0..=last).map(|time| {
            let later = time + STEPS_OF_TWICE;
            (left[time] - left[later], heights[time] - heights[later])
        });
        let used = std::iter::once(begins)
            .chain(falls)
            .filter(|(_, falls)| *falls > FLOOR)
            .fold(f64::INFINITY, |used, (left, falls)| used.min(left / falls));
        if used.is_finite() && used > least {
            uses.at_random[index] += used;
            for (left, height) in left.iter_mut().zip(&heights) {
                *left -= used * height;
            }
            for (left, point) in rest.iter_mut().zip(curve) {
                *left -= used * (-point.instructions / distance).exp();
            }
        }
    }
}

/// What is left at a time, straight between the points of the curve.
fn left_at(curve: &[CurvePoint], rest: &[f64], time: f64) -> f64 {
    let above = curve.partition_point(|point| point.instructions < time);
    let (Some(high), Some(low)) = (curve.get(above), above.checked_sub(1)) else {
        return rest[above.min(rest.len() - 1)];
    };
    let part = (time - curve[low].instructions) / (high.instructions - curve[low].instructions);
    rest[low] + part * (rest[above] - rest[low])
}

/// Instructions that a program takes to hold `to` bytes, after those for `from`, where the misses are
/// not of an LRU cache: they are known by the bytes that are held (`from` and `to` are of bytes held and
/// bytes missed an instruction). Of lines of fixed distances, as if all of a kind stayed equally
/// long; never faster than an LRU cache fills at so many misses, `lru` instructions.
///
/// With I instructions, o bytes and m bytes missed an instruction, do = q m dI - (1 - q) I dm, of which
/// this is the solution for m linear in o.
pub(crate) fn instructions_for(
    (from, to): ((f64, f64), (f64, f64)),
    instructions: f64,
    lru: f64,
    life: f64,
) -> f64 {
    let slope = (from.1 - to.1).max(0.0) / (to.0 - from.0);
    let per_instruction = (1.0 - life) * slope;
    let fixed = if per_instruction * instructions.max(lru) < 1e-9 || to.1 <= 0.0 {
        instructions + if to.1 > 0.0 { lru / life } else { lru }
    } else {
        let left = 1.0 - per_instruction * instructions;
        (1.0 - left * (to.1 / from.1).powf((1.0 - life) / life)) / per_instruction
    };
    fixed.max(instructions + lru)
}
