//! Given masks.

use corun_policy::Partition;

use super::scenario::PartitionScenario;
use crate::{Error, Result, counted};

/// The partition of given masks, one a program. Equal masks are one cluster.
///
/// # Errors
/// Bad input: masks that are empty, not contiguous, beyond the LLC's ways, fewer ways than the
/// hardware takes, or that overlap where that is not allowed.
pub(super) fn partition(
    masks: &[u64],
    ground: &PartitionScenario,
    allow_overlap: bool,
) -> Result<Partition> {
    let names = &ground.scenario.names;
    if masks.len() != names.len() {
        return Err(Error::input(format!(
            "{} for {}: expected one each",
            counted(masks.len(), "mask"),
            counted(names.len(), "program")
        )));
    }
    for (mask, name) in masks.iter().zip(names) {
        check(*mask, name, ground)?;
    }
    let mut partition = Partition::default();
    for (place, &mask) in masks.iter().enumerate() {
        let known = partition.masks.iter().position(|&one| one == mask);
        let other = masks[..place].iter().position(|&one| one != mask && one & mask != 0);
        if let Some(other) = other.filter(|_| !allow_overlap) {
            return Err(Error::input(format!(
                "the masks of `{}` ({:#x}) and `{}` ({mask:#x}) overlap: expected equal or disjoint \
                 ones",
                names[other], masks[other], names[place]
            ))
            .hint("--allow-overlap"));
        }
        partition.cluster.push(known.unwrap_or(partition.masks.len()));
        if known.is_none() {
            partition.masks.push(mask);
        }
    }
    Ok(partition)
}

fn check(mask: u64, name: &str, ground: &PartitionScenario) -> Result {
    let wrong = |why: String| Err(Error::input(format!("the mask of `{name}`, {mask:#x}, {why}")));
    if mask == 0 {
        return wrong("has no way: expected at least one".to_owned());
    }
    let ways = ground.ways;
    if ways < 64 && mask >> ways != 0 {
        return wrong(format!("has ways beyond the LLC's {ways}"));
    }
    let run = mask >> mask.trailing_zeros();
    if run & run.wrapping_add(1) != 0 {
        return wrong("is not contiguous: expected ways side by side".to_owned());
    }
    let (count, least) = (mask.count_ones(), ground.least_ways);
    if count < least {
        return wrong(format!(
            "has {}: expected at least {least}, the hardware's minimum",
            counted(count as usize, "way")
        ));
    }
    Ok(())
}
