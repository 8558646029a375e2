//! `ucp`: lookahead on miss curves (Qureshi and Patt, MICRO 2006; García García, thesis, UCM 2021,
//! section 5.3.4, algorithm 5.2).

use crate::partitioning::lookahead::{Grant, lookahead};
use crate::partitioning::{Input, Partition, PartitionError, Partitioner};
use crate::{BuildOptions, Parameter, ParameterKind, PolicyEntry, WaysCurve, WaysPoint};

const PER_CYCLE: Parameter = Parameter {
    name: "per-cycle",
    kind: ParameterKind::SWITCH,
    default: 0.0,
    min: 0.0,
    max: 1.0,
    summary: "1: misses per cycle drive it; 0: misses per instruction, as published",
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry::partitioning(
    "ucp",
    "gives each program ways of its own where they save most misses per 1000 instructions",
    "Qureshi and Patt, MICRO 2006; García García, thesis, UCM 2021, algorithm 5.2",
    &[PER_CYCLE],
    |options: &BuildOptions| {
        let per_cycle = options.is_on(&PER_CYCLE);
        Box::new(Ucp::new(if per_cycle { Measure::Mpkc } else { Measure::Mpki }))
    },
);

/// What is to fall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Measure {
    Mpki,
    Mpkc,
    Slowdown,
}

impl Measure {
    fn of(self, point: &WaysPoint) -> f64 {
        match self {
            Self::Mpki => point.llc_mpki,
            Self::Mpkc => point.llc_mpkc,
            Self::Slowdown => point.slowdown,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Mpki => "MPKI",
            Self::Mpkc => "MPKC",
            Self::Slowdown => "x slowdown",
        }
    }
}

/// Lookahead on a measure.
pub(super) struct Ucp {
    measure: Measure,
    ways: Vec<u32>,
    grants: Vec<Grant>,
}

impl Ucp {
    pub(super) fn new(measure: Measure) -> Self {
        Self { measure, ways: Vec::new(), grants: Vec::new() }
    }
}

impl Partitioner for Ucp {
    fn partition(&mut self, input: &Input<'_>, out: &mut Partition) -> Result<(), PartitionError> {
        input.check_strict()?;
        let measure = self.measure;
        self.ways.clear();
        self.ways.resize(input.curves.len(), 0);
        let best = |program: usize, from: u32, most: u32| {
            let points = input.curves[program].points();
            Grant::best(|ways| measure.of(&points[ways as usize - 1]), from, most)
        };
        lookahead(input.ways, input.least_ways, &mut self.ways, &mut self.grants, best);
        out.set_strict(&self.ways);
        Ok(())
    }

    fn reason(&self, curve: &WaysCurve, ways: u32) -> String {
        let of = |ways| self.measure.of(curve.at(ways));
        format!("{:.2} {}, with 1 way {:.2}", of(ways), self.measure.words(), of(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> WaysCurve {
        let point = |&(llc_mpki, slowdown)| WaysPoint {
            llc_mpki,
            slowdown,
            llc_mpkc: llc_mpki / slowdown,
            ..WaysPoint::default()
        };
        WaysCurve::new(points.iter().map(point).collect()).unwrap()
    }

    fn ways(mut ucp: Ucp, curves: &[WaysCurve], ways: u32) -> Vec<u32> {
        let curves: Vec<&WaysCurve> = curves.iter().collect();
        let input = Input { curves: &curves, ways, least_ways: 1, peak_bytes_per_s: None };
        let mut out = Partition::default();
        ucp.partition(&input, &mut out).unwrap();
        (0..curves.len()).map(|program| out.ways(program)).collect()
    }

    /// Misses fall for the first, slowdown for the second.
    #[test]
    fn each_measure_has_its_own_favourite() {
        let misses = curve(&[(50.0, 1.03), (30.0, 1.02), (20.0, 1.01), (10.0, 1.0)]);
        let slows = curve(&[(4.0, 2.0), (3.0, 1.5), (2.0, 1.2), (1.0, 1.0)]);
        let curves = [misses, slows];
        assert_eq!(ways(Ucp::new(Measure::Mpki), &curves, 4), [3, 1]);
        assert_eq!(ways(Ucp::new(Measure::Slowdown), &curves, 4), [1, 3]);
        assert_eq!(ways(Ucp::new(Measure::Mpkc), &curves, 4), [3, 1]);
    }
}
