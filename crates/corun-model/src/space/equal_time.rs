//! The search behind two laws: bytes that rise with a time, the same time for all.

use crate::growth::Growth;
use crate::scratch::recycle;
use crate::space::SpaceScratch;
use crate::table::PhaseTable;

/// Finds the time at which the sharers together hold the capacity, by Newton's method inside a
/// bracket. Bytes held are piecewise linear in the time, so the last step is exact.
pub(crate) fn divide<'a>(
    capacity: f64,
    sharers: &[&'a PhaseTable],
    growth: impl Fn(usize, &'a PhaseTable) -> &'a Growth + Copy,
    scratch: &mut SpaceScratch,
    out: &mut Vec<f64>,
) {
    let mut growths: Vec<&Growth> = recycle(std::mem::take(&mut scratch.growths));
    growths.extend(sharers.iter().enumerate().map(|(i, &table)| growth(i, table)));
    divide_among(capacity, &growths, scratch, out);
    scratch.growths = recycle(growths);
}

fn divide_among(
    capacity: f64,
    growths: &[&Growth],
    scratch: &mut SpaceScratch,
    out: &mut Vec<f64>,
) {
    out.clear();
    let from = scratch.from.take();
    let limits: f64 = growths.iter().map(|growth| growth.limit()).sum();
    if limits <= capacity || growths.len() == 1 {
        out.extend(growths.iter().map(|growth| growth.limit().min(capacity)));
        return;
    }
    let equal_share = capacity / growths.len() as f64;
    // No sharer has more than an equal share before the first has it; and the first that alone
    // would hold all comes after the time that is sought.
    let earliest = |bytes: f64| {
        let mut last: Option<&Growth> = None;
        growths.iter().fold(f64::INFINITY, |least, growth| {
            if last.replace(growth).is_some_and(|before| std::ptr::eq(before, *growth)) {
                return least;
            }
            least.min(growth.seconds_at(bytes))
        })
    };
    let mut low = from.unwrap_or_else(|| earliest(equal_share));
    let mut high = earliest(capacity);
    if high.is_infinite() {
        let last = |growth: &&Growth| growth.seconds.last().copied().unwrap_or(0.0);
        high = growths.iter().map(last).fold(low, f64::max);
    }
    if from.is_none() {
        scratch.segments.clear();
        scratch.segments.extend(growths.iter().map(|growth| growth.segment(low)));
    }
    scratch.slopes.resize(growths.len(), 0.0);
    out.resize(growths.len(), 0.0);
    let mut time = low;
    // The bracket halves at the latest every second step, in ratio, so the bound is never met.
    for step in 0..200 {
        let (held, slope) = hold(growths, time, scratch, out);
        let short = capacity - held;
        if short.abs() <= capacity * 1e-12 {
            break;
        }
        if short > 0.0 {
            low = time;
        } else {
            high = time;
        }
        let newton = time + short / slope;
        if high - low <= high * 1e-14 || (newton - time).abs() <= time * 1e-14 {
            break;
        }
        let inside = newton > low && newton < high;
        time = if inside && step % 8 != 7 { newton } else { between(low, high) };
    }
    scratch.found = time;
    even_out(capacity, growths, scratch, out);
}

fn between(low: f64, high: f64) -> f64 {
    if low > 0.0 { (low * high).sqrt() } else { 0.5 * high }
}

fn hold(growths: &[&Growth], time: f64, scratch: &mut SpaceScratch, out: &mut [f64]) -> (f64, f64) {
    let (mut held, mut slope) = (0.0, 0.0);
    let mut last: Option<(&Growth, (f64, f64))> = None;
    let each = growths.iter().zip(&mut scratch.segments).zip(&mut scratch.slopes).zip(out);
    for (((&own, segment), own_slope), out) in each {
        // A program's threads stand side by side, and grow alike.
        let (bytes, gain) = match last {
            Some((before, same)) if std::ptr::eq(before, own) => same,
            _ => own.at(time, segment),
        };
        last = Some((own, (bytes, gain)));
        *out = bytes;
        *own_slope = gain;
        held += bytes;
        slope += gain;
    }
    (held, slope)
}

/// Spreads what rounding left over those that are growing, so that the sum is the capacity.
fn even_out(capacity: f64, growths: &[&Growth], scratch: &SpaceScratch, out: &mut [f64]) {
    let rest = capacity - out.iter().sum::<f64>();
    let slope: f64 = scratch.slopes.iter().sum();
    if slope <= 0.0 {
        return;
    }
    for ((bytes, growth), own) in out.iter_mut().zip(growths).zip(&scratch.slopes) {
        let more = rest * (own / slope);
        *bytes = (*bytes + more).clamp(0.0, growth.limit());
    }
}
