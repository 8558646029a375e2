//! How a program grows in a cache: a time for each size, and sizes that do not last.

/// A time that rises with the bytes held: how a law of space sees a program. Linear between the
/// knots of the table; it ends where the program grows no more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Growth {
    pub(crate) seconds: Vec<f64>,
    pub(crate) bytes: Vec<f64>,
}

impl Growth {
    pub(crate) fn push(&mut self, seconds: f64, bytes: f64) {
        // The time is kept rising, and its slope finite, so that a search ends.
        let rising = self.seconds.last().map_or(seconds, |&last| {
            let step = bytes - self.bytes.last().copied().unwrap_or(0.0);
            seconds.max(last * (1.0 + 1e-9) + step * 1e-18)
        });
        self.seconds.push(rising);
        self.bytes.push(bytes);
    }

    /// The bytes it grows to at most.
    pub(crate) fn limit(&self) -> f64 {
        self.bytes.last().copied().unwrap_or(0.0)
    }

    /// The time at which it holds so many bytes; infinite beyond its limit.
    pub(crate) fn seconds_at(&self, bytes: f64) -> f64 {
        let above = self.bytes.partition_point(|&one| one < bytes);
        match above {
            _ if above >= self.bytes.len() => f64::INFINITY,
            0 => self.seconds[0],
            _ => {
                let (b0, b1) = (self.bytes[above - 1], self.bytes[above]);
                let (s0, s1) = (self.seconds[above - 1], self.seconds[above]);
                s0 + (bytes - b0) / (b1 - b0) * (s1 - s0)
            }
        }
    }

    /// The segment in which a time lies: `seconds[segment] <= time < seconds[segment + 1]`, or
    /// the last knot.
    pub(crate) fn segment(&self, seconds: f64) -> usize {
        self.seconds.partition_point(|&one| one <= seconds).saturating_sub(1)
    }

    /// Bytes held at a time in (or after) a segment, and bytes gained a second there. `segment`
    /// is moved to the time's.
    #[inline]
    pub(crate) fn at(&self, seconds: f64, segment: &mut usize) -> (f64, f64) {
        let last = self.seconds.len() - 1;
        let mut k = (*segment).min(last);
        while k < last && self.seconds[k + 1] <= seconds {
            k += 1;
        }
        while k > 0 && self.seconds[k] > seconds {
            k -= 1;
        }
        *segment = k;
        if k == last {
            return (self.bytes[last], 0.0);
        }
        let slope = (self.bytes[k + 1] - self.bytes[k]) / (self.seconds[k + 1] - self.seconds[k]);
        (self.bytes[k] + (seconds - self.seconds[k]) * slope, slope)
    }
}

/// The fill time of a program that has two sizes at one time, both of which last: it runs faster
/// with more space, and one that misses much is so slow that its lines grow old. [`crate::table::PhaseTable::fill`]
/// then has the smaller size at each time, and this the larger.
#[derive(Debug, Clone)]
pub(crate) struct LargerFill {
    pub(crate) growth: Growth,
    /// Sizes that do not last, each from one that does to the next that does.
    passing: Vec<(f64, f64)>,
}

impl LargerFill {
    /// From all times by size; none where they rise throughout.
    pub(crate) fn of(seconds: &[f64], bytes: &[f64]) -> Option<Self> {
        let mut least = f64::INFINITY;
        let mut points: Vec<(f64, f64, bool)> = Vec::with_capacity(seconds.len() + 1);
        for (k, (&time, &size)) in seconds.iter().zip(bytes).enumerate().rev() {
            if time > least * (1.0 + 1e-6) {
                continue;
            }
            if points.last().is_some_and(|&(_, above, _)| above > bytes[k + 1]) {
                // From here on up, until the time of the last one kept.
                let part = (least - time) / (seconds[k + 1] - time);
                let lasts = size + part * (bytes[k + 1] - size);
                least *= 1.0 - 1e-9;
                points.push((least, lasts, true));
            }
            least = time.min(least * (1.0 - 1e-9));
            points.push((least, size, false));
        }
        points.reverse();
        let growth = Growth {
            seconds: points.iter().map(|point| point.0).collect(),
            bytes: points.iter().map(|point| point.1).collect(),
        };
        let segments = points.windows(2).filter(|segment| segment[0].2);
        let passing: Vec<(f64, f64)> =
            segments.map(|segment| (segment[0].1, segment[1].1)).collect();
        (!passing.is_empty()).then_some(Self { growth, passing })
    }

    /// Do sizes that do not last lie below so many bytes, which last?
    pub(crate) fn is_beyond_passing(&self, held: f64) -> bool {
        self.passing.iter().any(|&(_, to)| to <= held)
    }

    /// Is there no way to hold so many bytes for one that held `reached` at first? Either they are
    /// a size between two that last, or such sizes lie on the way.
    pub(crate) fn cannot_last(&self, reached: f64, held: f64) -> bool {
        let beyond = |&(from, to): &(f64, f64)| from < held && (held < to || reached < to);
        self.passing.iter().any(beyond)
    }
}
