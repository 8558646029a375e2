//! How far the last cache keeps lines that are used again from a stream that passes through it.
//!
//! In an LRU cache a stream as long as what is left of the cache pushes out whatever rests meanwhile.
//! Caches that insert new lines near to their end (re-reference interval prediction: Jaleel, Theobald,
//! Steely and Emer, ISCA 2010) keep lines that were used again for longer. A line of the stream, used once,
//! stays for a share q of the time that others do: then the stream holds q of what it brings in during that time.
//!
//! How a cache treats a stream hangs on who profits: caches choose between policies by what hits (Qureshi, Jaleel, Patt, Steely
//! and Emer, ISCA 2007). So what is measured is what matters, lines that are used on and on while a stream passes, and q is what
//! the model needs for the misses that they have then.
//!
//! The stream is another core's where there is one under the same cache, since it is neighbours from which
//! lines are to be kept: a core that reads on may push out more of its own than of others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use corun_machine::CpuId;
use corun_model::LineLives;

use super::idle::miss_ns;
use super::random_uses::{RandomUses, Uses};
use crate::CalibrateError;
use crate::bench::{Sample, pin, timed};
use crate::estimate::{Estimator, Values};
use crate::figure::{CacheFigure, Figure};
use crate::kernel::{Access, Chain, LINE_BYTES};
use crate::region::Region;
use crate::rounds::Experiment;
use corun_metrics::median;

/// The memory that is streamed through, as a multiple of the last cache.
const TIMES_LLC: f64 = 8.0;
/// The lines that are used again are so many times as large as the private caches, and at most this
/// share of the last one.
const TIMES_PRIVATE: f64 = 4.0;
const LLC_SHARE: f64 = 0.125;
/// The stream goes on from one part to the next.
const STREAM_BYTES: usize = 1 << 20;
/// Where a core streams by turns with its uses, it streams so much at a time.
const STREAMED_BETWEEN: usize = 32 << 10;
/// Samples a round: neighbours come and go.
const SAMPLES: usize = 2;
/// Of the uses, those that miss beside a stream are at least this share, and those that hit: fewer could not be told.
const LEAST_SHARE: f64 = 0.01;
/// The least figure that is told.
pub(crate) const LEAST_LIFE: f64 = 0.01;
/// Between two looks whether a stream has begun.
const STARTING: Duration = Duration::from_micros(50);
/// Steps by which lives are looked for between two figures of which one is too small and one too large.
const STEPS: u32 = 60;

/// Lines of a core type's last cache that are used again, and a stream.
pub(crate) struct StreamResistance {
    core_type: usize,
    cpu: CpuId,
    /// The CPU that streams: of another core, or the same where there is none.
    streams_on: CpuId,
    level: u32,
    llc_bytes: f64,
    uses: RandomUses,
    /// What the streams go over.
    region: Arc<Region>,
    /// A place on a chain over memory.
    far: Chain,
    /// For which share of the time of other lines those stayed that were used once, without a stream.
    once_by_again: Vec<f64>,
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
        let bytes = (TIMES_PRIVATE * private_bytes).min(LLC_SHARE * llc_bytes);
        let uses = RandomUses::new(bytes as usize / LINE_BYTES)?;
        let region = Arc::new(Region::new((TIMES_LLC * llc_bytes).min(most) as usize)?);
        Ok(Self {
            core_type,
            cpu,
            streams_on,
            level,
            llc_bytes,
            uses,
            region,
            far,
            once_by_again: Vec::new(),
        })
    }

    /// What the lines' uses find beside a stream, and what that reads in bytes a ms.
    fn beside_stream(&mut self, limit_ns: f64) -> Result<(Uses, f64), CalibrateError> {
        let region = Arc::clone(&self.region);
        if self.streams_on != self.cpu {
            return beside_stream(self.streams_on, &region, || {
                self.uses.watch(limit_ns, &mut || ())
            });
        }
        let (start, mut bytes) = (Instant::now(), 0);
        let uses = self.uses.watch(limit_ns, &mut || {
            stream(&region, STREAMED_BETWEEN);
            bytes += STREAMED_BETWEEN;
        });
        Ok((uses, per_ms(bytes, start)))
    }

    /// The life of a stream's lines, by one look without and one with a stream.
    fn looked(&mut self) -> Result<Option<f64>, CalibrateError> {
        let limit_ns = self.uses.limit_ns(miss_ns(&mut self.far));
        let alone = self.uses.watch(limit_ns, &mut || ());
        let (beside, bytes_per_ms) = self.beside_stream(limit_ns)?;
        self.once_by_again.extend(alone.once_by_again);
        let used = self.uses.bytes() / self.llc_bytes;
        let shares = CacheShares { used, streamed: bytes_per_ms / self.llc_bytes, alone, beside };
        Ok(shares.single_use_life(median(&self.once_by_again)))
    }
}

/// Bytes a ms since then.
fn per_ms(bytes: usize, start: Instant) -> f64 {
    bytes as f64 / (start.elapsed().as_secs_f64() * 1e3)
}

/// Reads so many bytes that were not read for the longest time.
fn stream(region: &Region, bytes: usize) {
    let mut zeros = region.lock();
    let lines = zeros.lines();
    let bytes = bytes.min(lines * LINE_BYTES);
    let first = region.next_bytes(bytes, lines);
    zeros.stream(Access::Read, first, bytes);
}

/// Does something while a CPU of another core streams, which reads so many bytes a ms meanwhile.
fn beside_stream<T>(
    cpu: CpuId,
    region: &Region,
    work: impl FnOnce() -> T,
) -> Result<(T, f64), CalibrateError> {
    let (bytes, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let pinned = pin(cpu);
            while pinned.is_ok() && !stop.load(Ordering::Relaxed) {
                stream(region, STREAM_BYTES);
                bytes.fetch_add(STREAM_BYTES, Ordering::Relaxed);
            }
            pinned
        });
        // It begins on this CPU.
        while bytes.load(Ordering::Relaxed) == 0 && !other.is_finished() {
            std::thread::sleep(STARTING);
        }
        let (start, before) = (Instant::now(), bytes.load(Ordering::Relaxed));
        let done = work();
        let rate = per_ms(bytes.load(Ordering::Relaxed) - before, start);
        stop.store(true, Ordering::Relaxed);
        let pinned = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        pinned.map(|()| (done, rate))
    })
}

/// A cache that lines used at random, a stream and neighbours outside the machine share.
#[derive(Debug, Clone, Copy)]
struct CacheShares {
    /// The lines that are used, as a share of the cache.
    used: f64,
    /// The stream, as a multiple of the cache a ms.
    streamed: f64,
    alone: Uses,
    beside: Uses,
}

impl CacheShares {
    /// The life of a stream's lines as a machine file has it (`single_use_life`); none where hardly a line stays without the
    /// stream.
    ///
    /// By the misses of lines that are used at random the model tells for how long lines stay that are used again, t; alone t is as
    /// long as the neighbours leave it: they hold 1 - o of the cache where the lines that are used hold o. Beside the stream they
    /// hold as much of it as t is shorter, and the stream q t v of the rest.
    /// `once` is for which share of that time lines stay that were used once, if that is known.
    fn single_use_life(&self, once: Option<f64>) -> Option<f64> {
        let is_known = [self.alone, self.beside].iter().all(|uses| uses.missed.is_finite());
        if !is_known || self.alone.missed > 1.0 - LEAST_SHARE || self.streamed <= 0.0 {
            return None;
        }
        if let Some(once) = once {
            return Some(self.life_where(once));
        }
        // Where nobody outside tells how long lines of one use stay, the model takes those of a stream for such: the
        // figure with which it finds what was measured.
        let (mut least, mut most) = (LEAST_LIFE, 1.0);
        for _ in 0..STEPS {
            let life = f64::sqrt(least * most);
            if self.life_where(life) > life { least = life } else { most = life }
        }
        Some(f64::sqrt(least * most))
    }

    /// The same where lines used once stay for such a share of the time (`random_use_life`).
    fn life_where(&self, once: f64) -> f64 {
        let lives = LineLives::of(once, once, 0.0);
        let time = |uses: Uses| time_by(lives, 1.0 - uses.missed) * uses.round_ms;
        let held = |uses: Uses| self.used * (1.0 - uses.missed);
        let outside = if self.alone.missed < LEAST_SHARE {
            0.0
        } else {
            (1.0 - held(self.alone)) / time(self.alone)
        };
        let time = time(self.beside);
        let rest = 1.0 - held(self.beside) - time * outside;
        (rest / (time * self.streamed) / lives.median()).clamp(LEAST_LIFE, 1.0)
    }
}

/// For how long lines stay that are used again, as a multiple of the time between two uses of a line, where such a share of uses
/// at random hits.
fn time_by(lives: LineLives, hits: f64) -> f64 {
    let hits = hits.clamp(LEAST_SHARE, 1.0 - LEAST_SHARE);
    let (mut short, mut long) = (1e-4, 1e4);
    for _ in 0..STEPS {
        let time = f64::sqrt(short * long);
        if lives.hits_at_random(time) < hits { short = time } else { long = time }
    }
    f64::sqrt(short * long)
}

impl Experiment for StreamResistance {
    fn name(&self) -> &'static str {
        "a stream through the last cache"
    }

    fn points(&self) -> usize {
        SAMPLES
    }

    fn measure(&mut self, _: usize) -> Result<Sample, CalibrateError> {
        pin(self.cpu)?;
        let mut life = Ok(None);
        let reading = timed(|| life = self.looked());
        Ok(reading.sample(life?.unwrap_or(f64::NAN)))
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let lives = values.of(0..SAMPLES, Estimator::Typical);
        let known: Vec<f64> = lives.into_iter().filter(|life| life.is_finite()).collect();
        let figure = Figure::Cache(self.core_type, self.level, CacheFigure::SingleUseLife);
        median(&known).map(|life| (figure, life)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What uses of an eighth of such a cache find where neighbours alone would leave lines for `outside` ms and a stream brings
    /// in `streamed` of it a ms, lines of which stay for the share `stream` of the time of others.
    fn found(lives: LineLives, stream: f64, (outside, streamed): (f64, f64)) -> Uses {
        let round_ms = 10.0;
        let hits = |time: f64| lives.hits_at_random(time / round_ms);
        let (mut short, mut long) = (1e-4, 1e6);
        for _ in 0..200 {
            let time = f64::sqrt(short * long);
            let taken = 0.125 * hits(time) + time / outside + stream * time * streamed;
            if taken < 1.0 { short = time } else { long = time }
        }
        Uses { missed: 1.0 - hits(short), round_ms, once_by_again: None }
    }

    #[test]
    fn the_stream_holds_what_nobody_else_does() {
        // Lines of one use stay as long as others, t: of uses at random t / (t + θ) hit. Alone 0.8: t = 40 ms of 10 a round, and
        // neighbours take 1 - 0.1 in these. Beside the stream 0.5: t = 10, the neighbours hold 0.225 and the lines 0.0625, and the stream,
        // which brings in 1/8 of the cache a ms, 0.7125: 0.57 of what comes in during t. By times that leave half, ln 2.
        let uses = |missed| Uses { missed, round_ms: 10.0, once_by_again: None };
        let shares =
            CacheShares { used: 0.125, streamed: 0.125, alone: uses(0.2), beside: uses(0.5) };
        let life = shares.single_use_life(Some(1.0)).unwrap();
        assert!((life - 0.57 / std::f64::consts::LN_2).abs() < 1e-6, "{life}");
    }

    #[test]
    fn a_stream_that_takes_nothing_has_the_least_figure() {
        let uses = Uses { missed: 0.3, round_ms: 10.0, once_by_again: None };
        let shares = CacheShares { used: 0.125, streamed: 1.0, alone: uses, beside: uses };
        assert_eq!(shares.single_use_life(Some(0.4)), Some(LEAST_LIFE));
    }

    #[test]
    fn nothing_is_said_where_no_line_stays() {
        let uses = |missed| Uses { missed, round_ms: 10.0, once_by_again: None };
        let sharing = |alone, beside| CacheShares {
            used: 0.125,
            streamed: 1.0,
            alone: uses(alone),
            beside: uses(beside),
        };
        for one in [sharing(0.995, 1.0), sharing(f64::NAN, 0.5), sharing(0.5, f64::NAN)] {
            assert_eq!(one.single_use_life(Some(0.4)), None);
        }
        let unstreamed = CacheShares { streamed: 0.0, ..sharing(0.3, 0.6) };
        assert_eq!(unstreamed.single_use_life(None), None);
    }

    proptest! {
        /// What the model makes of a life is told to be that life, with neighbours and without.
        #[test]
        fn the_life_of_the_models_cache_is_told(
            life in 0.02..0.7f64, once in 0.3..0.8f64, outside in 8.0..100.0f64, streamed in 0.2..1.0f64,
        ) {
            let lives = LineLives::of(life, once, 0.0);
            let stream = life * lives.median();
            let alone = found(lives, stream, (outside, 0.0));
            let beside = found(lives, stream, (outside, streamed));
            let can_be_told = |uses: Uses| (LEAST_SHARE..1.0 - LEAST_SHARE).contains(&uses.missed);
            prop_assume!(can_be_told(alone) && can_be_told(beside));
            let shares = CacheShares { used: 0.125, streamed, alone, beside };
            let told = shares.single_use_life(Some(once)).unwrap();
            prop_assert!((told / life - 1.0).abs() < 1e-3, "{told} {life}");
        }

        /// Where nobody outside tells how long lines of one use stay, the model finds with the figure what was measured.
        #[test]
        fn without_neighbours_the_model_finds_what_was_measured(missed in 0.05..0.9f64, streamed in 0.2..1.0f64) {
            let uses = |missed| Uses { missed, round_ms: 10.0, once_by_again: None };
            let shares = CacheShares { used: 0.125, streamed, alone: uses(0.0), beside: uses(missed) };
            let told = shares.single_use_life(None).unwrap();
            prop_assume!(told > LEAST_LIFE * 1.01 && told < 0.99);
            let lives = LineLives::of(told, told, 0.0);
            let again = found(lives, told * lives.median(), (f64::INFINITY, streamed));
            // Stages are whole numbers: it can lie where one more or less makes a step.
            prop_assert!((again.missed - missed).abs() < 0.05, "{told}: {again:?} {missed}");
        }
    }
}
