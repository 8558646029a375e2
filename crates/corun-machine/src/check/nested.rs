//! What a cache and the caches around it must satisfy together.

use super::{Checked, wrong};
use crate::spec::{CacheType, Inclusion, ObjectSpec};

/// What is farther from the core is of a higher level, and holds what the nearer one holds where it is called inclusive. The
/// error is at the nearer cache.
pub(super) fn within(nearer: &ObjectSpec, farther: &ObjectSpec, at: &str) -> Checked {
    let (Some(level), Some(around)) = (nearer.level, farther.level) else { return Ok(()) };
    if level == around && are_split(nearer.holds(), farther.holds()) {
        return Ok(());
    }
    if level >= around {
        let why = format!("found level {level} inside a cache of level {around}");
        return wrong(format!("{at}.level"), why);
    }
    let covers = matches!(farther.holds(), CacheType::Unified) || farther.holds() == nearer.holds();
    if let (Some(size), Some(room)) = (nearer.size_kib, farther.size_kib)
        && farther.inclusion == Some(Inclusion::Inclusive)
        && covers
        && size > room
    {
        let why = format!("found {size}, more than the {room} of the inclusive cache around it");
        return wrong(format!("{at}.size_kib"), why);
    }
    Ok(())
}

/// What is farther from the core is not faster. The error is at the nearer cache.
pub(super) fn slower_than_nearer(nearer: &ObjectSpec, farther: &ObjectSpec, at: &str) -> Checked {
    match (nearer.latency_ns, farther.latency_ns) {
        (Some(latency), Some(most)) if latency > most => {
            let why = format!("found {latency}, more than the {most} of the cache around it");
            wrong(format!("{at}.latency_ns"), why)
        }
        _ => Ok(()),
    }
}

/// Nobody gets more of a cache than there is.
pub(super) fn effective(cache: &ObjectSpec, at: &str) -> Checked {
    match (cache.effective_kib, cache.size_kib) {
        (Some(effective), Some(size)) if effective > size => {
            let why = format!("found {effective}, more than `size_kib`, {size}");
            wrong(format!("{at}.effective_kib"), why)
        }
        _ => Ok(()),
    }
}

/// No other node is nearer than a node's own memory. The error is at the nearer one.
pub(super) fn nearest_is_local<T: PartialOrd + std::fmt::Display>(
    field: &str,
    rows: &[Vec<T>],
) -> Checked {
    for (at, row) in rows.iter().enumerate() {
        let Some(local) = row.get(at) else { continue };
        if let Some(nearer) = row.iter().position(|other| other < local) {
            let why = format!("found {}, nearer than the node's own {local}", row[nearer]);
            return wrong(format!("{field}[{at}][{nearer}]"), why);
        }
    }
    Ok(())
}

/// The data and the instruction cache of one level stand inside one another in the file, and neither is the nearer one.
fn are_split(one: CacheType, other: CacheType) -> bool {
    one != other && one != CacheType::Unified && other != CacheType::Unified
}
