//! `lfoc-caps`: ways as LFOC, and a cap on the memory traffic of the streaming programs (García García,
//! thesis, UCM 2021, section 7.1, names caps by hardware as the way forward and leaves them open).

use super::lfoc::{self, Lfoc};
use crate::partitioning::{CacheClass, Cap, Input, Partition, PartitionError, Partitioner};
use crate::{Build, BuildOptions, LiveForm, Parameter, ParameterKind, PolicyEntry, WaysCurve};

const TARGET: Parameter = Parameter {
    name: "target-share",
    kind: ParameterKind::Number,
    default: 0.8,
    min: 0.01,
    max: 1.0,
    summary: "share of the peak bandwidth that all programs together shall draw at most",
};

const LEAST: Parameter = Parameter {
    name: "least-share",
    kind: ParameterKind::Number,
    default: 0.7,
    min: 0.01,
    max: 1.0,
    summary: "share of what the streaming programs would draw that a cap leaves them at least",
};

const LISTS: &[&[Parameter]] = &[&[TARGET, LEAST], lfoc::PARAMETERS];

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "lfoc-caps",
    summary: "shares ways as lfoc and caps the streaming programs' traffic when memory is overloaded",
    source: "García García, thesis, UCM 2021, section 7.1",
    parameters: &Parameter::joined::<{ Parameter::count(LISTS) }>(LISTS),
    build: Build::Partitioner {
        build: |options: &BuildOptions| {
            Box::new(LfocCaps {
                lfoc: Lfoc::new(options),
                target_share: options.value(&TARGET),
                least_share: options.value(&LEAST),
            })
        },
        caps: true,
    },
    live: LiveForm::AS_LIVE,
};

struct LfocCaps {
    lfoc: Lfoc,
    target_share: f64,
    least_share: f64,
}

impl Partitioner for LfocCaps {
    /// What each program would draw with the ways of its cluster stands for what it draws: an
    /// underestimate where clusters share.
    fn partition(&mut self, input: &Input<'_>, out: &mut Partition) -> Result<(), PartitionError> {
        self.lfoc.partition(input, out)?;
        let Some(peak) = input.peak_bytes_per_s else { return Ok(()) };
        let classes = self.lfoc.classes();
        let (mut streaming, mut others) = (0.0, 0.0);
        for (program, curve) in input.curves.iter().enumerate() {
            let bytes_per_s = curve.at(out.ways(program)).bytes_per_s;
            match classes[program] {
                CacheClass::Streaming => streaming += bytes_per_s,
                _ => others += bytes_per_s,
            }
        }
        let room = self.target_share * peak - others;
        if streaming <= room || others <= 0.0 || streaming <= 0.0 {
            return Ok(());
        }
        let is_streaming = |program: &usize| classes[*program] == CacheClass::Streaming;
        out.caps.push(Cap {
            programs: (0..classes.len()).filter(is_streaming).collect(),
            bytes_per_s: room.max(self.least_share * streaming),
        });
        Ok(())
    }

    fn reason(&self, curve: &WaysCurve, ways: u32) -> String {
        let mb_per_s = curve.at(ways).bytes_per_s * 1e-6;
        format!("{}, {mb_per_s:.0} MB/s", self.lfoc.reason(curve, ways))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{WaysPoint, build_partitioner};

    fn curve(points: [(f64, f64, f64); 4]) -> WaysCurve {
        let point = |(slowdown, llc_mpkc, bytes_per_s)| WaysPoint {
            slowdown,
            llc_mpkc,
            bytes_per_s,
            ..WaysPoint::default()
        };
        WaysCurve::new(points.map(point).to_vec()).unwrap()
    }

    fn caps(name: &str, peak_bytes_per_s: Option<f64>) -> Vec<Cap> {
        let stream = curve([(1.0, 30.0, 6e9); 4]);
        let needy = curve([(2.0, 9.0, 4e9), (1.5, 6.0, 3e9), (1.2, 3.0, 2e9), (1.0, 1.0, 1e9)]);
        let curves = [&stream, &needy, &stream];
        let input = Input { curves: &curves, ways: 4, least_ways: 1, peak_bytes_per_s };
        let mut out = Partition::default();
        let mut partitioner = build_partitioner(name, &BuildOptions::default()).unwrap();
        partitioner.partition(&input, &mut out).unwrap();
        assert_eq!((out.cluster, out.masks), (vec![0, 1, 0], vec![0x1, 0xe]));
        out.caps
    }

    /// The streaming ones draw 12 GB/s, the sensitive one with three ways 2.
    #[test]
    fn streaming_programs_get_what_the_others_leave_but_not_too_little() {
        assert_eq!(caps("lfoc-caps", None), []);
        assert_eq!(caps("lfoc-caps", Some(20e9)), []);
        let cap = |bytes_per_s| vec![Cap { programs: vec![0, 2], bytes_per_s }];
        assert_eq!(caps("lfoc-caps", Some(15e9)), cap(10e9));
        // 0.8 x 10 - 2 = 6 GB/s would be less than 0.7 x 12.
        assert_eq!(caps("lfoc-caps", Some(10e9)), cap(0.7 * 12e9));
        assert_eq!(caps("lfoc", Some(10e9)), []);
    }
}
