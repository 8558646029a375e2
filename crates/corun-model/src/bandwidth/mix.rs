//! What a byte of traffic costs a memory by how much of the traffic is written back.

use corun_machine::AccessRates;

/// Of traffic by which a mixed rate was measured, three lines are read for each that is written back
/// ([`AccessRates::mixed_mb_per_s`]).
const MIXED_SHARE: f64 = 0.25;
/// Each line that is written was read before.
const WRITTEN_SHARE: f64 = 0.5;

/// Rates by the share of the traffic that is written back: as measured, and in between the time that a byte
/// takes is in a straight line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RatesByMix {
    /// Share written back, and what a byte costs, read or written back; from a share of 0 on.
    points: Vec<(f64, f64)>,
}

impl RatesByMix {
    /// In seconds. None where the rate of reads was not measured.
    pub(crate) fn of(rates: &AccessRates) -> Option<Self> {
        // Each byte that is written is read, too.
        let written = rates.write_mb_per_s.map(|rate| 2.0 * rate);
        let measured = [
            (0.0, Some(rates.read_mb_per_s?)),
            (MIXED_SHARE, rates.mixed_mb_per_s),
            (WRITTEN_SHARE, written),
        ];
        let point = |(share, mb_per_s): (f64, Option<f64>)| Some((share, 1e-6 / mb_per_s?));
        Some(Self { points: measured.into_iter().filter_map(point).collect() })
    }

    /// The same in bytes of a memory's peak: the time in which it moves one is the unit.
    pub(crate) fn in_bytes_of_peak(mut self, peak_bytes_per_s: f64) -> Self {
        self.points.iter_mut().for_each(|point| point.1 *= peak_bytes_per_s);
        self
    }

    /// What a byte costs, read or written back. Beyond what was measured as at the last point.
    pub(crate) fn byte_cost(&self, written_share: f64) -> f64 {
        let above = self.points.partition_point(|point| point.0 <= written_share);
        let (share, cost) = self.points[above.max(1) - 1];
        let Some(&(next, then)) = self.points.get(above) else { return cost };
        cost + (then - cost) * (written_share - share) / (next - share)
    }
}

/// Traffic between the last-level cache and memory, in bytes an instruction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Traffic {
    /// Read and written back.
    pub(crate) bytes: f64,
    /// The share of these that is written back; none where that is not known.
    pub(crate) written_share: Option<f64>,
}

impl Traffic {
    /// What it costs a memory of these rates, an instruction; none where one of the two is not known.
    pub(crate) fn cost(&self, rates: Option<&RatesByMix>) -> Option<f64> {
        Some(self.bytes * rates?.byte_cost(self.written_share?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(read: Option<f64>, write: Option<f64>, mixed: Option<f64>) -> AccessRates {
        AccessRates {
            read_mb_per_s: read,
            write_mb_per_s: write,
            mixed_mb_per_s: mixed,
            ..AccessRates::default()
        }
    }

    fn ns(rates: &RatesByMix, written_share: f64) -> f64 {
        rates.byte_cost(written_share) * 1e9
    }

    /// 20 GB/s of reads: 0.05 ns a byte. 5 GB/s written, so 10 in both directions: 0.1 ns.
    #[test]
    fn a_byte_takes_longer_the_more_of_them_are_written() {
        let found = RatesByMix::of(&rates(Some(20_000.0), Some(5_000.0), None)).unwrap();
        for (share, expected) in [(0.0, 0.05), (0.25, 0.075), (0.5, 0.1), (0.9, 0.1)] {
            assert!((ns(&found, share) - expected).abs() < 1e-12, "at {share}");
        }
        // 16 GB/s of three lines read and one written: 0.0625 ns, below the straight line.
        let found = RatesByMix::of(&rates(Some(20_000.0), Some(5_000.0), Some(16_000.0))).unwrap();
        for (share, expected) in [(0.0, 0.05), (0.125, 0.05625), (0.25, 0.0625), (0.375, 0.08125)] {
            assert!((ns(&found, share) - expected).abs() < 1e-12, "at {share}");
        }
    }

    #[test]
    fn where_reads_alone_were_measured_written_lines_count_as_these() {
        let found = RatesByMix::of(&rates(Some(20_000.0), None, None)).unwrap();
        assert!((ns(&found, 0.5) - 0.05).abs() < 1e-12);
        assert_eq!(RatesByMix::of(&rates(None, Some(5_000.0), None)), None);
    }

    #[test]
    fn traffic_of_an_unknown_mix_has_no_cost() {
        let found = RatesByMix::of(&rates(Some(20_000.0), Some(5_000.0), None));
        let traffic = Traffic { bytes: 64.0, written_share: Some(0.25) };
        let seconds = traffic.cost(found.as_ref()).unwrap();
        assert!((seconds * 1e9 - 64.0 * 0.075).abs() < 1e-9);
        assert_eq!(Traffic { written_share: None, ..traffic }.cost(found.as_ref()), None);
        assert_eq!(traffic.cost(None), None);
    }
}
