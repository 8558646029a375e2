//! `yu-petrov`: greedy on memory traffic (Yu and Petrov, DAC 2010; García García, thesis, UCM 2021,
//! section 5.3.4).

use crate::partitioning::lookahead::round_robin;
use crate::partitioning::{Input, Partition, PartitionError, Partitioner};
use crate::{BuildOptions, Parameter, ParameterKind, PolicyEntry, WaysCurve};

const ONE_WAY_SHORT: Parameter = Parameter {
    name: "one-way-short",
    kind: ParameterKind::SWITCH,
    default: 0.0,
    min: 0.0,
    max: 1.0,
    summary: "1: a program gets the ways before the step that saves most, as PBBCache grants them; \
              0: that step's too",
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry::partitioning(
    "yu-petrov",
    "gives each program ways of its own up to the steps that save most memory traffic",
    "Yu and Petrov, DAC 2010; García García, thesis, UCM 2021, section 5.3.4",
    &[ONE_WAY_SHORT],
    |options: &BuildOptions| {
        let one_way_short = options.is_on(&ONE_WAY_SHORT);
        Box::new(YuPetrov { one_way_short, ..YuPetrov::default() })
    },
);

#[derive(Default)]
struct YuPetrov {
    one_way_short: bool,
    ways: Vec<u32>,
    /// By program and way count w from 1: what way w + 1 saves, until it is taken.
    savings: Vec<f64>,
}

impl Partitioner for YuPetrov {
    fn partition(&mut self, input: &Input<'_>, out: &mut Partition) -> Result<(), PartitionError> {
        input.check_strict()?;
        let steps = input.ways as usize - 1;
        self.savings.clear();
        for curve in input.curves {
            let pairs = curve.points()[..input.ways as usize].windows(2);
            self.savings.extend(pairs.map(|pair| pair[0].bytes_per_s - pair[1].bytes_per_s));
        }
        self.ways.clear();
        self.ways.resize(input.curves.len(), input.least_ways);
        let mut left = input.ways - input.least_ways * input.curves.len() as u32;
        while left > 0 {
            let Some((program, step)) = self.best(left, steps) else { break };
            let granted = step as u32 + 1 + u32::from(!self.one_way_short);
            self.savings[program * steps..][..=step].fill(0.0);
            left -= granted.saturating_sub(self.ways[program]);
            self.ways[program] = self.ways[program].max(granted);
        }
        round_robin(left, &mut self.ways);
        out.set_strict(&self.ways);
        Ok(())
    }

    fn reason(&self, curve: &WaysCurve, ways: u32) -> String {
        let mb_per_s = |ways| curve.at(ways).bytes_per_s * 1e-6;
        format!("{:.0} MB/s, with 1 way {:.0}", mb_per_s(ways), mb_per_s(1))
    }
}

impl YuPetrov {
    /// The program and step that save most among those within reach; the first of equals.
    fn best(&self, left: u32, steps: usize) -> Option<(usize, usize)> {
        let (mut best, mut most) = (None, 0.0);
        for (program, &ways) in self.ways.iter().enumerate() {
            // PBBCache looks at as many first steps as there are ways left.
            let (from, reach) =
                if self.one_way_short { (0, left) } else { (ways as usize - 1, ways - 1 + left) };
            for step in from..(reach as usize).min(steps) {
                let saving = self.savings[program * steps + step];
                if saving > most {
                    (best, most) = (Some((program, step)), saving);
                }
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WaysPoint;

    fn ways(one_way_short: bool, least_ways: u32, curves: &[&[f64]]) -> Vec<u32> {
        let point = |&bytes_per_s: &f64| WaysPoint { bytes_per_s, ..WaysPoint::default() };
        let curve = |points: &&[f64]| WaysCurve::new(points.iter().map(point).collect()).unwrap();
        let curves: Vec<WaysCurve> = curves.iter().map(curve).collect();
        let curves: Vec<&WaysCurve> = curves.iter().collect();
        let ways = curves[0].ways();
        let input = Input { curves: &curves, ways, least_ways, peak_bytes_per_s: None };
        let mut out = Partition::default();
        let mut policy = YuPetrov { one_way_short, ..YuPetrov::default() };
        policy.partition(&input, &mut out).unwrap();
        (0..curves.len()).map(|program| out.ways(program)).collect()
    }

    #[test]
    fn the_greatest_step_within_reach_comes_first() {
        // The first program's third way saves 30; then 3 of 5 ways are its; the second's second
        // saves 5.
        let curves: [&[f64]; 2] = [&[60.0, 50.0, 20.0, 20.0, 20.0], &[9.0, 4.0, 3.0, 3.0, 3.0]];
        assert_eq!(ways(false, 1, &curves), [3, 2]);
        // One way short, it has two ways after the step of 30. Two are left: the second's step of 5
        // costs nothing and gives nothing, its step of 1 a second way. What is left goes to the first.
        assert_eq!(ways(true, 1, &curves), [3, 2]);
    }

    #[test]
    fn one_way_short_stops_before_the_step() {
        let curves: [&[f64]; 2] = [&[60.0, 60.0, 20.0, 20.0], &[10.0, 10.0, 10.0, 10.0]];
        assert_eq!(ways(false, 1, &curves), [3, 1]);
        // Two ways, then one each in turn: here the first gets it all the same.
        assert_eq!(ways(true, 1, &curves), [3, 1]);
        let second: [&[f64]; 2] = [&[10.0, 10.0, 10.0, 10.0], &[60.0, 60.0, 20.0, 20.0]];
        assert_eq!(ways(false, 1, &second), [1, 3]);
        assert_eq!(ways(true, 1, &second), [2, 2]);
    }

    #[test]
    fn what_saves_nothing_is_left_to_all() {
        let flat: [&[f64]; 2] = [&[7.0; 5], &[7.0; 5]];
        assert_eq!(ways(false, 2, &flat), [3, 2]);
        let rising: [&[f64]; 2] = [&[1.0, 2.0, 3.0, 4.0, 5.0], &[7.0; 5]];
        assert_eq!(ways(false, 1, &rising), [3, 2]);
    }
}
