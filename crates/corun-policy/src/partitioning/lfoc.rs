//! `lfoc`: streaming programs confined to few ways, the others' shared by slowdown (García García,
//! thesis, UCM 2021, section 6.3.1, algorithm 6.1, Table 6.1).

use super::lfoc_plus;
use crate::partitioning::lookahead::{Grant, lookahead};
use crate::partitioning::{
    CacheClass, ClassLimits, Input, Partition, PartitionError, Partitioner, classify,
};
use crate::{BuildOptions, Parameter, ParameterKind, PolicyEntry, WaysCurve, WaysPoint};

const MAX_STREAMING: Parameter = Parameter {
    name: "max-streaming-way",
    kind: ParameterKind::WholeNumber,
    default: 5.0,
    min: 1.0,
    max: 1000.0,
    summary: "streaming programs to a partition of their own",
};

const GAPS: Parameter = Parameter {
    name: "gaps-per-streaming",
    kind: ParameterKind::WholeNumber,
    default: 3.0,
    min: 0.0,
    max: 1000.0,
    summary: "light-sharing programs that take the place of one streaming program",
};

const STREAMING_PARTITIONS: Parameter = Parameter {
    name: "streaming-partitions",
    kind: ParameterKind::WholeNumber,
    default: 2.0,
    min: 1.0,
    max: 64.0,
    summary: "partitions for streaming programs at most",
};

const STREAMING_MPKC: Parameter = Parameter {
    name: "streaming-mpkc",
    kind: ParameterKind::Number,
    default: 10.0,
    min: 0.0,
    max: 1e6,
    summary: "LLC misses per 1000 cycles from which a program can be streaming (Table 6.1)",
};

const SENSITIVE_WAYS: Parameter = Parameter {
    name: "sensitive-ways",
    kind: ParameterKind::WholeNumber,
    default: 2.0,
    min: 1.0,
    max: 64.0,
    summary: "ways from which on a slowdown makes a program sensitive (Table 6.1: 2); 1 keeps a program that needs its \
              first way from streaming ones",
};

/// What can be set.
pub(super) const PARAMETERS: &[Parameter] =
    &[MAX_STREAMING, GAPS, STREAMING_PARTITIONS, STREAMING_MPKC, SENSITIVE_WAYS];

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry::partitioning(
    "lfoc",
    "confines streaming programs to one or two ways and shares the rest by slowdown",
    "García García, thesis, UCM 2021, section 6.3, algorithm 6.1",
    PARAMETERS,
    |options: &BuildOptions| Box::new(Lfoc::new(options)),
);

/// The algorithm with its parameters.
pub(super) struct Lfoc {
    max_streaming: usize,
    gaps: usize,
    streaming_partitions: usize,
    /// May sensitive programs share partitions in pairs (LFOC+)?
    pairs: bool,
    limits: ClassLimits,
    /// By program.
    classes: Vec<CacheClass>,
    sensitive: Vec<usize>,
    cluster: Vec<usize>,
    /// By cluster: the streaming ones first.
    ways: Vec<u32>,
    sensitive_ways: Vec<u32>,
    grants: Vec<Grant>,
}

impl Lfoc {
    pub(super) fn new(options: &BuildOptions) -> Self {
        let count = |parameter| options.value(parameter) as usize;
        let streaming_mpkc = options.value(&STREAMING_MPKC);
        Self {
            max_streaming: count(&MAX_STREAMING),
            gaps: count(&GAPS),
            streaming_partitions: count(&STREAMING_PARTITIONS),
            pairs: false,
            limits: ClassLimits {
                streaming_mpkc,
                sensitive_ways: count(&SENSITIVE_WAYS) as u32,
                ..ClassLimits::default()
            },
            classes: Vec::new(),
            sensitive: Vec::new(),
            cluster: Vec::new(),
            ways: Vec::new(),
            sensitive_ways: Vec::new(),
            grants: Vec::new(),
        }
    }

    /// The same, with sensitive programs in pairs where [`lfoc_plus`] sees a gain.
    pub(super) fn with_pairs(options: &BuildOptions) -> Self {
        Self { pairs: true, ..Self::new(options) }
    }

    /// By program, after [`Partitioner::partition`].
    pub(super) fn classes(&self) -> &[CacheClass] {
        &self.classes
    }

    fn count(&self, class: CacheClass) -> usize {
        self.classes.iter().filter(|&&one| one == class).count()
    }

    /// Lines 8 to 14, and 20 to 28: clusters of streaming programs, filled up with light-sharing
    /// ones. The rest of the latter stay in cluster `usize::MAX`.
    fn confine(&mut self, clusters: usize) {
        let in_each = self.count(CacheClass::Streaming).div_ceil(clusters.max(1));
        let mut streaming = 0;
        self.cluster.clear();
        for class in &self.classes {
            self.cluster.push(match class {
                CacheClass::Streaming => {
                    streaming += 1;
                    (streaming - 1) / in_each
                }
                _ => usize::MAX,
            });
        }
        let is_light = |&(_, class): &(usize, &CacheClass)| *class == CacheClass::LightSharing;
        let mut light = self.classes.iter().enumerate().filter(is_light);
        for target in 0..clusters {
            let members = self.cluster.iter().filter(|&&cluster| cluster == target).count();
            let room = self.max_streaming.saturating_sub(members) * self.gaps;
            for (program, _) in light.by_ref().take(room) {
                self.cluster[program] = target;
            }
        }
    }

    /// Lines 15 to 19: ways for the sensitive programs, by slowdown. Where there are fewer partitions
    /// than programs, those that suffer least from few ways share.
    fn share(&mut self, input: &Input<'_>, ways: u32, clusters: usize) {
        let slowdown = |program: usize, ways: u32| {
            let points = input.curves[program].points();
            points[ways as usize - 1].slowdown
        };
        self.sensitive.clear();
        let classes = self.classes.iter().enumerate();
        self.sensitive.extend(
            classes.filter(|(_, class)| **class == CacheClass::Sensitive).map(|(one, _)| one),
        );
        let partitions = (ways / input.least_ways) as usize;
        if self.pairs && self.sensitive.len() <= partitions {
            let curves: Vec<&WaysCurve> =
                self.sensitive.iter().map(|&program| input.curves[program]).collect();
            let (cluster, shared) = lfoc_plus::pair_clusters(&curves, ways, input.least_ways);
            for (&program, cluster) in self.sensitive.iter().zip(cluster) {
                self.cluster[program] = clusters + cluster;
            }
            self.sensitive_ways = shared;
            return;
        }
        if self.sensitive.len() > partitions {
            let least = input.least_ways;
            self.sensitive.sort_by(|&one, &other| {
                slowdown(other, least).total_cmp(&slowdown(one, least)).then(one.cmp(&other))
            });
        }
        let partitions = partitions.min(self.sensitive.len());
        for (place, &program) in self.sensitive.iter().enumerate() {
            // Back and forth, so that the first does not always get the worse neighbour.
            let (turn, step) = (place / partitions, place % partitions);
            let step = if turn % 2 == 0 { step } else { partitions - 1 - step };
            self.cluster[program] = clusters + step;
        }
        let Self { sensitive, sensitive_ways, grants, .. } = self;
        sensitive_ways.clear();
        sensitive_ways.resize(partitions, 0);
        // A cluster is as slow as its first, most sensitive program.
        lookahead(ways, input.least_ways, sensitive_ways, grants, |place, from, most| {
            Grant::best(|ways| slowdown(sensitive[place], ways), from, most)
        });
    }

    /// The limits of its classes.
    pub(super) fn limits(&self) -> &ClassLimits {
        &self.limits
    }

    /// Algorithm 6.1 for programs of known classes; of curves, only the slowdowns of sensitive ones count.
    pub(super) fn cluster(
        &mut self,
        classes: impl Iterator<Item = CacheClass>,
        input: &Input<'_>,
        out: &mut Partition,
    ) -> Result<(), PartitionError> {
        input.check()?;
        self.classes.clear();
        self.classes.extend(classes);
        if self.count(CacheClass::Sensitive) == 0 {
            self.cluster.clear();
            self.cluster.resize(input.curves.len(), 0);
            out.set_clusters(&self.cluster, &[input.ways]);
            return Ok(());
        }
        let partitions = (input.ways / input.least_ways) as usize;
        let clusters = self
            .count(CacheClass::Streaming)
            .div_ceil(self.max_streaming)
            .min(self.streaming_partitions)
            // One is left for the sensitive programs.
            .min(partitions - 1);
        if clusters == 0 && partitions == 1 {
            self.cluster.clear();
            self.cluster.resize(input.curves.len(), 0);
            out.set_clusters(&self.cluster, &[input.ways]);
            return Ok(());
        }
        self.confine(clusters);
        self.share(input, input.ways - clusters as u32 * input.least_ways, clusters);
        self.ways.clear();
        self.ways.resize(clusters, input.least_ways);
        self.ways.extend_from_slice(&self.sensitive_ways);
        let others = self.sensitive_ways.len();
        let unplaced = self.cluster.iter_mut().filter(|cluster| **cluster == usize::MAX);
        for (turn, cluster) in unplaced.enumerate() {
            *cluster = clusters + turn % others;
        }
        out.set_clusters(&self.cluster, &self.ways);
        Ok(())
    }
}

impl Partitioner for Lfoc {
    fn partition(&mut self, input: &Input<'_>, out: &mut Partition) -> Result<(), PartitionError> {
        let limits = self.limits;
        self.cluster(input.curves.iter().map(|curve| classify(curve, &limits)), input, out)
    }

    fn reason(&self, curve: &WaysCurve, ways: u32) -> String {
        let class = classify(curve, &self.limits);
        let WaysPoint { slowdown, llc_mpkc, .. } = *curve.at(ways);
        match class {
            CacheClass::Streaming => format!("streaming, {llc_mpkc:.1} MPKC"),
            CacheClass::Sensitive => format!("sensitive, {slowdown:.2} x slowdown alone there"),
            CacheClass::LightSharing => "light sharing".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
