//! The caches of a Power machine whose kernel shows them in the device tree alone.
//!
//! A CPU's folder names its hardware threads (`ibm,ppc-interrupt-server#s`) and its first-level
//! caches; `l2-cache` points from it to the cache next outwards, and from that one on. Numbers are
//! big-endian words of 32 bits.

use std::collections::BTreeMap;

use super::caches::Found;
use super::files::Root;
use crate::{CacheType, CpuId, CpuSet};

const CPUS: [&str; 2] = ["proc/device-tree/cpus", "sys/firmware/devicetree/base/cpus"];
const MAX_LEVELS: u32 = 8;

/// All caches, highest level first, each once.
pub(super) fn caches(root: &Root, online: &CpuSet) -> Vec<Found> {
    let Some(folder) = CPUS.iter().find(|folder| root.is_dir(folder)) else { return Vec::new() };
    let entries: Vec<String> =
        root.names(folder).iter().map(|name| format!("{folder}/{name}")).collect();
    let mut by_handle: BTreeMap<u32, &String> = BTreeMap::new();
    for entry in &entries {
        let handles = ["phandle", "ibm,phandle", "linux,phandle"];
        let told = handles.iter().filter_map(|name| root.words(&format!("{entry}/{name}")).pop());
        by_handle.extend(told.map(|handle| (handle, entry)));
    }
    // By level from the highest, what it holds, and the entry it is described in.
    let mut found: BTreeMap<(std::cmp::Reverse<u32>, CacheType, &String), Found> = BTreeMap::new();
    for entry in &entries {
        let threads = root.words(&format!("{entry}/ibm,ppc-interrupt-server#s"));
        let cpus: CpuSet =
            threads.into_iter().map(CpuId).filter(|&cpu| online.contains(cpu)).collect();
        if cpus.is_empty() {
            continue;
        }
        let mut at = Some(entry);
        let mut passed = Vec::new();
        for level in 1..=MAX_LEVELS {
            let Some(entry) = at.filter(|entry| !passed.contains(entry)) else { break };
            passed.push(entry);
            for cache in of_entry(root, entry, level) {
                let key = (std::cmp::Reverse(level), cache.holds, entry);
                found.entry(key).or_insert(cache).cpus.extend(cpus.iter());
            }
            let next = root.words(&format!("{entry}/l2-cache")).pop();
            at = next.and_then(|handle| by_handle.get(&handle).copied());
        }
    }
    found.into_values().collect()
}

/// The caches that an entry describes: a pair at the first level, one of both further out.
fn of_entry(root: &Root, entry: &str, level: u32) -> Vec<Found> {
    let one = |prefix: &str, holds| {
        let word = |name: &str| root.words(&format!("{entry}/{prefix}-cache-{name}")).pop();
        let size_bytes = word("size").filter(|&size| size >= 1024)?;
        let line_bytes = word("line-size").or_else(|| word("block-size")).filter(|&line| line > 0);
        // One set is what firmware writes for the fully associative and for the unknown.
        let sets = word("sets").filter(|&sets| sets > 1);
        let way = line_bytes.zip(sets).and_then(|(line, sets)| line.checked_mul(sets));
        let ways = way.map(|way| size_bytes / way).filter(|&ways| ways > 0);
        let cpus = CpuSet::new();
        let size_kib = u64::from(size_bytes / 1024);
        Some(Found { level, holds, cpus, size_kib, ways, line_bytes })
    };
    if level == 1 {
        let pair = [one("d", CacheType::Data), one("i", CacheType::Instruction)];
        return pair.into_iter().flatten().collect();
    }
    one("d", CacheType::Unified).into_iter().collect()
}
