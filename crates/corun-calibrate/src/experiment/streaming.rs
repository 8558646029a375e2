//! How far the last cache keeps lines that are used again from a stream that passes through it.
//!
//! In an LRU cache a stream as long as what is left of the cache pushes out whatever rests meanwhile.
//! Caches that insert new lines near to their end (re-reference interval prediction: Jaleel, Theobald,
//! Steely and Emer, ISCA 2010) keep lines that were used again for longer. A line of the stream, used once,
//! stays for a share q of the time that others do: then the stream holds q of what it brings in, and
//! pushes the others out when that is all of the cache that they leave.
//!
//! The stream is another core's where there is one under the same cache, since it is neighbours from which
//! lines are to be kept: a core that reads on may push out more of its own than of others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use corun_machine::CpuId;

use super::idle::{PAUSE_ADDS, PROBED_LINES, hits, load_times, miss_ns, rest};
use crate::CalibrateError;
use crate::bench::{Sample, pin, timed};
use crate::chains::{AT_ONCE, RandomChains};
use crate::estimate::{Estimator, Values};
use crate::figure::{CacheFigure, Figure};
use crate::kernel::{Access, Chain, LINE_BYTES, dependent_adds};
use crate::region::Region;
use crate::rounds::Experiment;
use corun_metrics::median;

/// Lengths of the streams, as multiples of the last cache.
const TIMES_LLC: [f64; 7] = [0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0];
/// A pause without a stream is so many times as long as the stream.
const IDLE_TIMES: f64 = 2.0;
/// The lines that are used again are so many times as large as the private caches, and at most this
/// share of the last one.
const TIMES_PRIVATE: f64 = 4.0;
const LLC_SHARE: f64 = 0.125;
/// The stream goes on from one part to the next.
const STREAM_BYTES: usize = 1 << 20;
/// So much of a stream, as multiples of the last cache, has passed before the lines are used: a cache may take its
/// time to see that it has to resist.
const TIMES_BEFORE: f64 = 4.0;
/// How often they are used before they rest.
const USES: usize = 4;
/// Where less than this is left after the shortest pause, nothing can be said of the stream.
const LEAST_IDLE: f64 = 0.5;
/// Where pauses never take more than this, no others use the cache.
const MOST_LOST: f64 = 0.02;
/// The stream that leaves this share is as long as the lines' life.
const HALF: f64 = 0.5;
/// The share by which the life beside the stream and the one without have to differ to be told apart.
const RESOLUTION: f64 = 0.2;

/// Bytes of the lines that are used again, of the size of the largest private cache and that of the last.
fn reused_bytes(private_bytes: f64, llc_bytes: f64) -> f64 {
    (TIMES_PRIVATE * private_bytes).min(LLC_SHARE * llc_bytes)
}

/// The least figure that can be told: that of a cache that loses hardly more by the longest stream than without.
pub(crate) fn least_life(private_bytes: f64, llc_bytes: f64) -> f64 {
    let spare = (llc_bytes - reused_bytes(private_bytes, llc_bytes)) / llc_bytes;
    least_of(spare)
}

fn least_of(spare: f64) -> f64 {
    RESOLUTION * spare / TIMES_LLC[TIMES_LLC.len() - 1]
}

/// Lines of a core type's last cache that are used again, and a stream.
pub(crate) struct StreamResistance {
    core_type: usize,
    cpu: CpuId,
    /// The CPU that streams: of another core, or the same where there is none.
    streams_on: CpuId,
    level: u32,
    private_bytes: f64,
    llc_bytes: f64,
    /// Places at equal distances on the chain of the lines that are used again.
    reused: Vec<Chain>,
    /// What the streams go over: the longest comes by nothing twice where there is enough memory.
    region: Arc<Region>,
    /// A place on a chain over memory.
    far: Chain,
}

impl StreamResistance {
    /// The CPUs are the one whose lines are looked at and the one that streams, another core's or the same. The
    /// sizes are those of the largest private cache and of the last cache, which is of this level;
    /// `most` is how many bytes of memory the streams may take.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub(crate) fn new(
        (core_type, [cpu, streams_on], level): (usize, [CpuId; 2], u32),
        [private_bytes, llc_bytes]: [f64; 2],
        most: f64,
        far: Chain,
    ) -> Result<Self, CalibrateError> {
        let lines = reused_bytes(private_bytes, llc_bytes) as usize / LINE_BYTES;
        let reused = RandomChains::side_by_side(vec![lines.max(AT_ONCE)])?.places(0, AT_ONCE);
        let longest = llc_bytes * TIMES_LLC[TIMES_LLC.len() - 1];
        let region = Arc::new(Region::new(longest.min(most) as usize)?);
        Ok(Self {
            core_type,
            cpu,
            streams_on,
            level,
            private_bytes,
            llc_bytes,
            reused,
            region,
            far,
        })
    }

    /// The share of the lines that hit after something else.
    fn left_after(&mut self, other: impl FnOnce()) -> f64 {
        let part = self.reused[0].lines() / self.reused.len();
        for _ in 0..USES {
            Chain::follow_together(&mut self.reused.clone(), part as u64);
        }
        other();
        let loads = PROBED_LINES.min(self.reused[0].lines());
        let times = load_times(&mut self.reused[0].clone(), loads);
        // The same lines again: now in the private caches.
        let near = median(&load_times(&mut self.reused[0].clone(), loads)).unwrap_or(f64::NAN);
        hits(&times, near, miss_ns(&mut self.far))
    }

    /// The share that hits when a stream has passed, and for how long it did.
    fn left_by_stream(&mut self, bytes: f64) -> Result<(f64, Duration), CalibrateError> {
        let region = Arc::clone(&self.region);
        let before = self.llc_bytes * TIMES_BEFORE;
        let mut pause = Duration::ZERO;
        let mut timed_pause = |other: &dyn Fn()| {
            let start = Instant::now();
            other();
            pause = start.elapsed();
        };
        let left = if self.streams_on == self.cpu {
            stream(&region, before);
            self.left_after(|| timed_pause(&|| stream(&region, bytes)))
        } else {
            beside_stream(self.streams_on, &region, |beside| {
                beside.wait_for(before);
                self.left_after(|| timed_pause(&|| beside.wait_for(bytes)))
            })?
        };
        Ok((left, pause))
    }
}

/// Reads so many bytes that were not read for the longest time.
fn stream(region: &Region, bytes: f64) {
    let mut zeros = region.lock();
    let lines = zeros.lines();
    let mut left = bytes as usize;
    while left > 0 {
        let part = left.min(STREAM_BYTES).min(lines * LINE_BYTES);
        let first = region.next_bytes(part, lines);
        zeros.stream(Access::Read, first, part);
        left -= part;
    }
}

/// A stream on a CPU of another core.
struct StreamBeside<'a> {
    /// How many bytes it has read.
    bytes: &'a AtomicUsize,
}

impl StreamBeside<'_> {
    /// Keeps the caller's CPU busy, and nothing else of it, until the stream has read so many more bytes, or
    /// has ended.
    fn wait_for(&self, bytes: f64) {
        let end = self.bytes.load(Ordering::Acquire).saturating_add(bytes as usize);
        while self.bytes.load(Ordering::Acquire) < end {
            dependent_adds(PAUSE_ADDS);
        }
    }
}

/// Does something while a CPU of another core streams.
fn beside_stream<T>(
    cpu: CpuId,
    region: &Region,
    work: impl FnOnce(&StreamBeside<'_>) -> T,
) -> Result<T, CalibrateError> {
    let (bytes, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let pinned = pin(cpu);
            while pinned.is_ok() && !stop.load(Ordering::Relaxed) {
                stream(region, STREAM_BYTES as f64);
                bytes.fetch_add(STREAM_BYTES, Ordering::Release);
            }
            // Nobody waits for a stream that there is not.
            bytes.store(usize::MAX, Ordering::Release);
            pinned
        });
        let done = work(&StreamBeside { bytes: &bytes });
        stop.store(true, Ordering::Relaxed);
        let pinned = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        pinned.map(|()| done)
    })
}

/// The share of a line's life that a line of a stream has, given what streams of these lengths leave and what pauses
/// leave that are [`IDLE_TIMES`] as long; lengths in the cache's size. None where too little stays without a stream.
///
/// Others outside the machine push lines out as well. With the stream's bytes v that leave half and the pause u that
/// does, both as lengths of the stream, q v is what it holds then, and v / u of the cache is theirs:
/// q v = spare - v / u x spare.
fn single_use_life(lengths: &[f64], left: &[(f64, f64)], spare: f64) -> Option<f64> {
    let (streamed, idle): (Vec<f64>, Vec<f64>) = left.iter().copied().unzip();
    let is_known = streamed.iter().all(|share| share.is_finite());
    if !is_known || idle.first().is_none_or(|first| first.is_nan() || *first < LEAST_IDLE) {
        return None;
    }
    let (longest, last) = (*lengths.last()?, *streamed.last()?);
    let pauses: Vec<f64> = lengths.iter().map(|length| IDLE_TIMES * length).collect();
    let beside = reached(lengths, &streamed, HALF).unwrap_or(longest);
    let alone = life_alone(&pauses, &idle, last.max(HALF));
    let life = spare / beside * (1.0 - beside / alone);
    Some(life.clamp(least_of(spare), 1.0))
}

/// The length at which so much is left, between those measured.
fn reached(lengths: &[f64], left: &[f64], level: f64) -> Option<f64> {
    let mut before = (0.0, 1.0);
    for (&length, &share) in lengths.iter().zip(left) {
        if share <= level {
            let part = (before.1 - level) / (before.1 - share).max(f64::MIN_POSITIVE);
            return Some(before.0 + part.min(1.0) * (length - before.0));
        }
        before = (length, share);
    }
    None
}

/// The pause that leaves so much. Beyond the longest, the chance of being lost is as it was up to there; endless where
/// no others use the cache.
fn life_alone(pauses: &[f64], left: &[f64], level: f64) -> f64 {
    let (Some(&longest), Some(&share)) = (pauses.last(), left.last()) else { return f64::INFINITY };
    if share.is_nan() || share >= 1.0 - MOST_LOST {
        return f64::INFINITY;
    }
    reached(pauses, left, level).unwrap_or_else(|| longest * level.ln() / share.ln())
}

impl Experiment for StreamResistance {
    fn name(&self) -> &'static str {
        "a stream through the last cache"
    }

    fn points(&self) -> usize {
        TIMES_LLC.len()
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        pin(self.cpu)?;
        let bytes = self.llc_bytes * TIMES_LLC[point];
        let mut streamed = Ok((f64::NAN, Duration::ZERO));
        let mut idle = f64::NAN;
        let reading = timed(|| {
            streamed = self.left_by_stream(bytes);
            let pause = streamed.as_ref().map_or(Duration::ZERO, |streamed| streamed.1);
            idle = self.left_after(|| rest(pause.mul_f64(IDLE_TIMES)));
        });
        let disturbed = reading.disturbed && point == 0;
        Ok(Sample { value: streamed?.0, beside: idle, disturbed })
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let left = |point| {
            let (streamed, idle) = (Estimator::Typical, Estimator::Typical);
            (values.at(point, streamed), values.beside(point, idle))
        };
        let left: Vec<(f64, f64)> = (0..TIMES_LLC.len()).map(left).collect();
        let spare = 1.0 - reused_bytes(self.private_bytes, self.llc_bytes) / self.llc_bytes;
        let life = single_use_life(&TIMES_LLC, &left, spare);
        let figure = Figure::Cache(self.core_type, self.level, CacheFigure::SingleUseLife);
        life.map(|life| (figure, life)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a cache leaves of lines that are a share `reused` of it and that neighbours leave there for `outside`, as a
    /// length of the stream: all until the lines of the stream and of neighbours have pushed them out, then less and less.
    fn modelled(life: f64, reused: f64, outside: f64) -> Vec<(f64, f64)> {
        let spare = 1.0 - reused;
        let left = |rate: f64, length: f64| {
            let half = spare / (rate + spare / outside);
            (1.0 - 0.5 * (length / half).powi(4)).clamp(0.0, 1.0)
        };
        TIMES_LLC
            .iter()
            .map(|&length| (left(life, length), left(0.0, IDLE_TIMES * length)))
            .collect()
    }

    #[test]
    fn half_is_lost_where_the_streams_lines_fill_the_rest() {
        // 0.8 is left after 2 cache sizes, and 0.2 after 3: half after 2.5. Nobody else uses the cache.
        let left = [1.0, 1.0, 0.8, 0.2, 0.0, 0.0, 0.0].map(|streamed| (streamed, 1.0));
        let life = single_use_life(&TIMES_LLC, &left, 0.75).unwrap();
        assert!((life - 0.75 / 2.5).abs() < 1e-12, "{life}");
    }

    #[test]
    fn what_neighbours_push_out_is_not_the_streams() {
        // Half after 2.5; without the stream half after 10, between 8 and 12: a quarter is the neighbours'.
        let streamed = [1.0, 1.0, 0.8, 0.2, 0.0, 0.0, 0.0];
        let idle = [1.0, 1.0, 1.0, 0.9, 0.7, 0.3, 0.1];
        let left: Vec<(f64, f64)> = streamed.into_iter().zip(idle).collect();
        let life = single_use_life(&TIMES_LLC, &left, 0.75).unwrap();
        assert!((life - 0.75 / 2.5 * 0.75).abs() < 1e-12, "{life}");
        // As much is lost without the stream.
        let idle = [1.0, 1.0, 0.7, 0.4, 0.2, 0.1, 0.0];
        let slow = [1.0, 1.0, 1.0, 0.9, 0.6, 0.4, 0.2];
        let same: Vec<(f64, f64)> = slow.into_iter().zip(idle).collect();
        assert_eq!(single_use_life(&TIMES_LLC, &same, 0.75), Some(least_of(0.75)));
    }

    #[test]
    fn an_lru_cache_has_one_life_for_all() {
        let life = single_use_life(&TIMES_LLC, &modelled(1.0, 0.125, f64::INFINITY), 0.875);
        assert!(life.unwrap() > 0.9, "{life:?}");
    }

    #[test]
    fn a_stream_that_pushes_nothing_out_gives_a_bound() {
        let life = single_use_life(&TIMES_LLC, &[(1.0, 1.0); 7], 0.875);
        assert_eq!(life, Some(0.875 / 8.0), "it may push out half right after");
        // As much is left as by a pause twice as long.
        let life = single_use_life(&TIMES_LLC, &[(0.9, 0.95); 7], 0.875).unwrap();
        let alone = 16.0 * 0.9f64.ln() / 0.95f64.ln();
        assert!((life - 0.875 / 8.0 * (1.0 - 8.0 / alone)).abs() < 1e-12, "{life}");
        assert_eq!(least_life(1.0, 32.0), 0.2 * 0.875 / 8.0);
    }

    #[test]
    fn what_a_pause_loses_says_nothing_of_streams() {
        assert_eq!(single_use_life(&TIMES_LLC, &[(0.9, 0.4); 7], 0.875), None);
        assert_eq!(single_use_life(&TIMES_LLC, &[(f64::NAN, 0.9); 7], 0.875), None);
        assert_eq!(single_use_life(&TIMES_LLC, &[(0.9, f64::NAN); 7], 0.875), None);
    }

    proptest! {
        /// Told to within the steps between the streams' lengths, with neighbours and without.
        #[test]
        fn the_life_of_a_modelled_cache_is_told(life in 0.11..1.0f64, outside in 6.0..1000.0f64) {
            for outside in [outside, f64::INFINITY] {
                let left = modelled(life, 0.125, outside);
                let told = single_use_life(&TIMES_LLC, &left, 0.875).unwrap();
                prop_assert!(told > life / 1.5 && told < life * 1.5, "{life}, {outside}: {told}");
            }
        }
    }
}
