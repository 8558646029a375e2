//! Caches in which lines that were used once leave before those that were used again.
//!
//! A line that was not used again since it came in stays for a share q of the time t that a line stays
//! which was (`single_use_life` of a machine file; q = 1 is LRU). What a program misses and holds at a
//! time t follows from its LRU curve and from how its lines come back, which the curve does not tell:
//!
//! - A line that is used at random, once in θ on average, comes back after a miss with the chance
//!   a = 1 - exp(-r t / θ) (r is `random_use_life` where the machine file has it, else q), and is lost after a hit with b = exp(-t / θ). So it hits with
//!   h = a / (a + b), and for a share h of the time it is there (it is used at random: whoever looks
//!   finds it as often as its uses do).
//! - A line that is used at the same distance τ all the time is always there if τ <= t, once it was used
//!   again. If τ > t each use misses, and it lies there for q t. Of lines of one distance, a loop, all are
//!   there or none: where they do not fit together, they are given away each time before they are used.
//! - A line that never comes back lies there for q t.
//!
//! The curve is taken apart accordingly. Misses at the end of the curve are of lines that never come
//! back. The rest, as a function of the time t of an LRU cache that misses so, is a sum of exponentials
//! exp(-t / θ) where lines are used at random (Fagin, 1977; Che, Tung and Wang, IEEE JSAC 20(7), 2002),
//! and a sum of steps where they are used at fixed distances. From the slowest exponential on, as much of
//! each is taken as lies below what is left. What is left at the end counts as used at fixed distances
//! (below 0 far out, where an exponential is nearly over: so that nothing changes where q = 1).

/// From one mean distance of uses to the next.
const DISTANCE_RATIO: f64 = 1.3;
/// An exponential has to lie below the curve down to this part of its height.
const FLOOR: f64 = 0.03;
/// Misses less than this share of all tell nothing about how lines come back.
const LEAST_SHARE: f64 = 1e-4;

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

/// Lines that are used at random.
#[derive(Debug, Clone, Copy)]
struct Random {
    /// Instructions from one use of a line to the next, on average.
    distance: f64,
    /// Bytes of such lines that are used an instruction.
    used: f64,
}

/// The same program where lines of one use stay for a share of the time that others do, `random_life` those that are
/// used at random and `life` all others: by point, whose time is as before, the bytes that it holds and those that it misses an instruction. The first
/// never fall, the second never rise.
pub(crate) fn held_and_missed(
    curve: &[CurvePoint],
    life: f64,
    random_life: f64,
) -> Vec<(f64, f64)> {
    let never = curve.last().map_or(0.0, |point| point.missed);
    let mut rest: Vec<f64> = curve.iter().map(|point| (point.missed - never).max(0.0)).collect();
    let classes = take_random(curve, &mut rest);
    let mut before = (0.0, f64::INFINITY);
    curve
        .iter()
        .zip(&rest)
        .map(|(point, &fixed)| {
            let time = point.instructions;
            let mut missed = never + fixed;
            // What the lines of fixed distances would hold in an LRU cache is what the others do not.
            let mut held = point.bytes - never * time + never * life * time;
            held -= (1.0 - life) * time * fixed;
            for class in &classes {
                let gone = (-time / class.distance).exp();
                let back = -(-random_life * time / class.distance).exp_m1();
                let hit = back / (back + gone);
                missed += class.used * (1.0 - hit);
                held += class.used * class.distance * (hit - (1.0 - gone));
            }
            before = (held.max(before.0), missed.max(never).min(before.1));
            before
        })
        .collect()
}

/// Takes the exponentials out of the misses that are left, the slowest first.
fn take_random(curve: &[CurvePoint], rest: &mut [f64]) -> Vec<Random> {
    let mut classes = Vec::new();
    let least = rest.first().map_or(0.0, |most| most * LEAST_SHARE);
    let slowest = curve.iter().zip(&*rest).rev().find(|(_, left)| **left > least);
    let fastest = curve.iter().map(|point| point.instructions).find(|time| *time > 0.0);
    let (Some((slowest, _)), Some(fastest)) = (slowest, fastest) else { return classes };
    let mut distance = slowest.instructions;
    while distance > 0.5 * fastest {
        let height = |point: &CurvePoint| (-point.instructions / distance).exp();
        let below = curve.iter().zip(&*rest).map(|(point, left)| (height(point), left));
        let used = below
            .filter(|(height, _)| *height > FLOOR)
            .fold(f64::INFINITY, |used, (height, left)| used.min(left / height));
        if used.is_finite() && used > least {
            classes.push(Random { distance, used });
            for (point, left) in curve.iter().zip(rest.iter_mut()) {
                *left -= used * height(point);
            }
        }
        distance /= DISTANCE_RATIO;
    }
    classes
}

/// Instructions that a program takes to hold `to` bytes, after those for `from`, where the misses are
/// not of an LRU cache: they are known by the bytes that are held (`from` and `to` are of bytes held and
/// bytes missed an instruction). As [`held_and_missed`] has it for lines of fixed distances, turned
/// round; never faster than an LRU cache fills at so many misses, `lru` instructions.
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
