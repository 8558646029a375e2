//! Programs that are nothing but curves, of the shapes that the paper's programs have.
//!
//! Chosen before any of it was run: a database misses in proportion to the inverse square root of the cache (Hartstein,
//! Srinivasan, Puzak and Emma, "On the nature of cache miss behavior: is it sqrt(2)?", Journal of Instruction-Level
//! Parallelism 10, 2008), and so does twolf here, up to its working set of 1 MiB; art goes round some MiB again and
//! again, so that no cache of the paper's holds any of it.

use corun_profile::{CurvePoint, Profile};

use crate::simulate::of_curve;

/// Their names: two of good locality, then one of poor.
pub(super) const NAMES: [&str; 3] = ["database", "twolf", "art"];

/// Lines missed per 1000 instructions in a cache of [`SMALL_BYTES`].
const DATABASE_MPKI: f64 = 30.0;
const TWOLF_MPKI: f64 = 40.0;
/// The same in every cache smaller than its loop.
const ART_MPKI: f64 = 100.0;
const SMALL_BYTES: u64 = 8 << 10;
const DATABASE_BYTES: u64 = 64 << 20;
const TWOLF_BYTES: u64 = 1 << 20;
const ART_BYTES: u64 = 3 << 20;
const ACCESSES_PKI: f64 = 350.0;

pub(super) fn profiles() -> [Profile; 3] {
    let by_root = |name, mpki: f64, whole: u64| {
        let sizes = (9..).map(|log2| 1u64 << log2).take_while(|&bytes| bytes < whole);
        let at = |bytes: u64| CurvePoint {
            bytes,
            mpki: (mpki * (SMALL_BYTES as f64 / bytes as f64).sqrt()).min(ACCESSES_PKI),
        };
        let mut points: Vec<CurvePoint> = sizes.map(at).collect();
        points.push(CurvePoint { bytes: whole, mpki: 0.0 });
        of_curve(name, &points, ACCESSES_PKI, 0.0)
    };
    let [database, twolf, art] = NAMES;
    let point = |bytes: u64, mpki: f64| CurvePoint { bytes, mpki };
    let round = [point(SMALL_BYTES, ART_MPKI), point(ART_BYTES - 1, ART_MPKI), point(ART_BYTES, 0.0)];
    [
        by_root(database, DATABASE_MPKI, DATABASE_BYTES),
        by_root(twolf, TWOLF_MPKI, TWOLF_BYTES),
        of_curve(art, &round, ACCESSES_PKI, 0.0),
    ]
}
