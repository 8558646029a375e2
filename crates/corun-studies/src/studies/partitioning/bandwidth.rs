//! A program beside more and more of one that streams, each in ways of its own: the thesis's
//! Fig. 5.3, under both of its models of limited bandwidth.

use corun_app::Result;
use corun_model::{BandwidthModel, CacheGroup, ModelOptions, Running, Scratch};
use corun_profile::Library;
use corun_report::round;
use serde::Serialize;

use super::llc::PartitionedLlc;

/// Those of the figure.
const SUBJECTS: [&str; 2] = ["omnetpp06", "libquantum06"];
/// The figure's aggressor is a bandwidth benchmark that no public table has.
const AGGRESSOR: &str = "lbm06";
const MOST_AGGRESSORS: usize = 10;
/// Ways that the aggressors share.
const AGGRESSORS_WAYS: u32 = 2;

/// A program and what becomes of it.
#[derive(Debug, Serialize)]
pub(super) struct Pressed {
    pub(super) program: &'static str,
    pub(super) aggressor: &'static str,
    pub(super) ways: u32,
    pub(super) points: Vec<Point>,
}

/// With so many aggressors.
#[derive(Debug, Serialize)]
pub(super) struct Point {
    pub(super) aggressors: usize,
    /// Traffic of all, as Morad's model limits it.
    pub(super) total_mb_per_s: f64,
    /// The program's own.
    pub(super) mb_per_s: f64,
    /// By Morad's rule, B / B'.
    pub(super) slowdown_morad: f64,
    /// Weighted by memory stalls (thesis, eq. 5.10).
    pub(super) slowdown_stalls: f64,
}

pub(super) fn pressed(library: &Library, options: ModelOptions) -> Result<Vec<Pressed>> {
    let under = |bandwidth| PartitionedLlc::new(library, 11, ModelOptions { bandwidth, ..options });
    let (morad, stalls) = (under(BandwidthModel::Morad)?, under(BandwidthModel::Stalls)?);
    SUBJECTS
        .iter()
        .map(|&program| {
            let points = (0..=MOST_AGGRESSORS).map(|aggressors| {
                let (slowdown_morad, mb_per_s, total) =
                    solve(&morad, library, program, aggressors)?;
                let (slowdown_stalls, ..) = solve(&stalls, library, program, aggressors)?;
                Ok(Point {
                    aggressors,
                    total_mb_per_s: round(total, 1),
                    mb_per_s: round(mb_per_s, 1),
                    slowdown_morad: round(slowdown_morad, 4),
                    slowdown_stalls: round(slowdown_stalls, 4),
                })
            });
            let ways = morad.ways - AGGRESSORS_WAYS;
            let points = points.collect::<Result<_>>()?;
            Ok(Pressed { program, aggressor: AGGRESSOR, ways, points })
        })
        .collect()
}

/// Slowdown against the same ways alone, own and total traffic in MB/s.
fn solve(
    llc: &PartitionedLlc,
    library: &Library,
    program: &str,
    aggressors: usize,
) -> Result<(f64, f64, f64)> {
    let index = |name: &str| -> Result<usize> {
        library.get(name)?;
        Ok(llc.names.iter().position(|one| one == name).unwrap_or_default())
    };
    let mut mix = vec![index(program)?];
    mix.extend(std::iter::repeat_n(index(AGGRESSOR)?, aggressors));
    let way_bytes = llc.way_bytes();
    let members = llc.members(&mix);
    let running: Vec<Running<'_>> = members
        .iter()
        .enumerate()
        .map(|(place, member)| {
            let ways = if place == 0 { llc.ways - AGGRESSORS_WAYS } else { AGGRESSORS_WAYS };
            let bytes = f64::from(ways) * way_bytes;
            Running {
                member: *member,
                home: &[],
                group: Some(CacheGroup { id: place.min(1) as u32, bytes }),
            }
        })
        .collect();
    let (mut scratch, mut alone, mut all) = (Scratch::new(), Vec::new(), Vec::new());
    llc.model.solve(&running[..1], &mut scratch, &mut alone);
    llc.model.solve(&running, &mut scratch, &mut all);
    let total: f64 = all.iter().map(|one| one.bytes_per_s).sum();
    let slowdown = alone[0].instructions_per_s / all[0].instructions_per_s;
    Ok((slowdown, all[0].bytes_per_s * 1e-6, total * 1e-6))
}
