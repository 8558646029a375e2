//! The search behind two laws: bytes that rise with a time, the same time for all.

use crate::space::SpaceScratch;
use crate::table::{Growth, PhaseTable};

/// Finds the time at which the sharers together hold the capacity, by Newton's method inside a
/// bracket. Bytes held are piecewise linear in the time, so the last step is exact.
pub(crate) fn divide<'a>(
    capacity: f64,
    sharers: &[&'a PhaseTable],
    growth: impl Fn(usize, &'a PhaseTable) -> &'a Growth + Copy,
    scratch: &mut SpaceScratch,
    out: &mut Vec<f64>,
) {
    out.clear();
    let each = || sharers.iter().enumerate().map(|(i, &table)| growth(i, table));
    let limits: f64 = each().map(Growth::limit).sum();
    if limits <= capacity || sharers.len() == 1 {
        out.extend(each().map(|growth| growth.limit().min(capacity)));
        return;
    }
    let equal_share = capacity / sharers.len() as f64;
    // No sharer has more than an equal share before the first has it; and the first that alone
    // would hold all comes after the time that is sought.
    let earliest = |bytes: f64| {
        let mut last: Option<&Growth> = None;
        each().fold(f64::INFINITY, |least, growth| {
            if last.replace(growth).is_some_and(|before| std::ptr::eq(before, growth)) {
                return least;
            }
            least.min(growth.seconds_at(bytes))
        })
    };
    let mut low = earliest(equal_share);
    let mut high = earliest(capacity);
    if high.is_infinite() {
        high = each()
            .fold(low, |most, growth| most.max(growth.seconds.last().copied().unwrap_or(0.0)));
    }
    scratch.segments.clear();
    scratch.segments.extend(each().map(|growth| growth.segment(low)));
    scratch.slopes.resize(sharers.len(), 0.0);
    out.resize(sharers.len(), 0.0);
    let mut time = low;
    // The bracket halves at the latest every second step, in ratio, so the bound is never met.
    for step in 0..200 {
        let (held, slope) = hold(sharers, growth, time, scratch, out);
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
    even_out(capacity, sharers, growth, scratch, out);
}

fn between(low: f64, high: f64) -> f64 {
    if low > 0.0 { (low * high).sqrt() } else { 0.5 * high }
}

fn hold<'a>(
    sharers: &[&'a PhaseTable],
    growth: impl Fn(usize, &'a PhaseTable) -> &'a Growth,
    time: f64,
    scratch: &mut SpaceScratch,
    out: &mut [f64],
) -> (f64, f64) {
    let (mut held, mut slope) = (0.0, 0.0);
    let mut last: Option<(&Growth, (f64, f64))> = None;
    for (i, &table) in sharers.iter().enumerate() {
        let own = growth(i, table);
        // A program's threads stand side by side, and grow alike.
        let (bytes, gain) = match last {
            Some((before, same)) if std::ptr::eq(before, own) => same,
            _ => own.at(time, &mut scratch.segments[i]),
        };
        last = Some((own, (bytes, gain)));
        out[i] = bytes;
        scratch.slopes[i] = gain;
        held += bytes;
        slope += gain;
    }
    (held, slope)
}

/// Spreads what rounding left over those that are growing, so that the sum is the capacity.
fn even_out<'a>(
    capacity: f64,
    sharers: &[&'a PhaseTable],
    growth: impl Fn(usize, &'a PhaseTable) -> &'a Growth,
    scratch: &SpaceScratch,
    out: &mut [f64],
) {
    let rest = capacity - out.iter().sum::<f64>();
    let slope: f64 = scratch.slopes.iter().sum();
    if slope <= 0.0 {
        return;
    }
    for (i, bytes) in out.iter_mut().enumerate() {
        let more = rest * (scratch.slopes[i] / slope);
        *bytes = (*bytes + more).clamp(0.0, growth(i, sharers[i]).limit());
    }
}
