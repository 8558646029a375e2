//! `equal-part`: every program the same number of ways (García García, thesis, UCM 2021, section
//! 5.3.4).

use crate::partitioning::lookahead::round_robin;
use crate::partitioning::{Input, Partition, PartitionError, Partitioner};
use crate::{PolicyEntry, WaysCurve};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry::partitioning(
    "equal-part",
    "gives every program the same number of ways of its own",
    "García García, thesis, UCM 2021, section 5.3.4",
    &[],
    |_| Box::new(EqualPart::default()),
);

#[derive(Default)]
struct EqualPart {
    ways: Vec<u32>,
}

impl Partitioner for EqualPart {
    fn partition(&mut self, input: &Input<'_>, out: &mut Partition) -> Result<(), PartitionError> {
        input.check_strict()?;
        self.ways.clear();
        self.ways.resize(input.curves.len(), 0);
        round_robin(input.ways, &mut self.ways);
        out.set_strict(&self.ways);
        Ok(())
    }

    fn reason(&self, _curve: &WaysCurve, _ways: u32) -> String {
        "an equal part".to_owned()
    }
}
