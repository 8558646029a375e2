//! The caches that the kernel shows, and whether they make sense together.

use std::collections::BTreeMap;

use super::files::{Root, parse_kib};
use super::tree::Layer;
use super::{CPU, Facts};
use crate::{CacheType, CpuId, CpuSet};

const MAX_INDEX: usize = 32;

/// One cache.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) level: u32,
    pub(super) holds: CacheType,
    pub(super) cpus: CpuSet,
    pub(super) size_kib: u64,
    pub(super) ways: Option<u32>,
    pub(super) line_bytes: Option<u32>,
}

/// All caches, highest level first, each once; `broken` gets the CPUs whose caches contradict each
/// other. What a CPU says of a cache is passed over where it would cut something of `firm`, as long
/// as another CPU that shares the cache tells better.
pub(super) fn all(
    root: &Root,
    facts: &mut Facts,
    online: &CpuSet,
    cores: &BTreeMap<CpuId, CpuSet>,
    firm: &[Layer],
    broken: &mut CpuSet,
) -> Vec<Found> {
    // By level from the highest, and by what they hold; of each the caches seen, and by CPU which.
    type Layer = (Vec<Found>, BTreeMap<CpuId, usize>);
    let mut layers: BTreeMap<(std::cmp::Reverse<u32>, CacheType), Layer> = BTreeMap::new();
    let mut doubtful = Vec::new();
    for cpu in online.iter() {
        let folder = format!("{CPU}/cpu{cpu}/cache");
        for index in root.numbered(&folder, "index").into_iter().take(MAX_INDEX) {
            let Some(found) =
                one(root, facts, &format!("{folder}/index{index}"), cpu, online, cores)
            else {
                continue;
            };
            let key = (std::cmp::Reverse(found.level), found.holds);
            let (caches, of_cpu) = layers.entry(key).or_default();
            if !firm.iter().all(|layer| layer.fits(&found.cpus)) {
                doubtful.push((key, cpu, found.cpus));
                continue;
            }
            match of_cpu.get(&cpu).map(|&place| &caches[place]) {
                Some(same) if same.cpus == found.cpus => continue,
                Some(other) => {
                    broken.extend(other.cpus.iter().chain(found.cpus.iter()));
                    continue;
                }
                None => {}
            }
            // A cache that a lower CPU did not claim, yet which names that CPU.
            if let Some(&other) = found.cpus.iter().find_map(|other| of_cpu.get(&other)) {
                broken.extend(caches[other].cpus.iter().chain(found.cpus.iter()));
                continue;
            }
            of_cpu.extend(found.cpus.iter().map(|cpu| (cpu, caches.len())));
            caches.push(found);
        }
    }
    for (key, cpu, cpus) in doubtful {
        if layers.get(&key).is_some_and(|(_, of_cpu)| of_cpu.contains_key(&cpu)) {
            facts.warn(
                "a CPU's word on who shares its caches crosses other parts: the other sharers' counts",
            );
        } else {
            broken.extend(cpus.iter());
        }
    }
    layers.into_values().flat_map(|(caches, _)| caches).collect()
}

fn one(
    root: &Root,
    facts: &mut Facts,
    folder: &str,
    cpu: CpuId,
    online: &CpuSet,
    cores: &BTreeMap<CpuId, CpuSet>,
) -> Option<Found> {
    let level = root.number(&format!("{folder}/level")).filter(|level| (1..=16).contains(level))?;
    let holds = match root.text(&format!("{folder}/type"))?.as_str() {
        "Data" => CacheType::Data,
        "Instruction" => CacheType::Instruction,
        "Unified" => CacheType::Unified,
        _ => return None,
    };
    let size = root.text(&format!("{folder}/size")).and_then(|text| parse_kib(&text));
    let Some(size_kib) = size.filter(|&kib| kib > 0 && kib < 1 << 40) else {
        facts.warn("caches of which the kernel does not tell the size are left out");
        return None;
    };
    let count = |name: &str| root.number(&format!("{folder}/{name}")).filter(|&n: &u32| n > 0);
    let line_bytes = count("coherency_line_size");
    let ways = ways(facts, size_kib, line_bytes, &count);
    let line_bytes = line_bytes.filter(|&line| u64::from(line) <= size_kib * 1024);
    let shared = root.cpus(folder, &["shared_cpu_list"], &["shared_cpu_map"]);
    let own = cores.get(&cpu).cloned().unwrap_or_default();
    let mut cpus = match shared.filter(|set| set.contains(cpu)) {
        Some(set) => set.intersection(online),
        None => {
            facts.warn(
                "the kernel does not tell who shares some caches: they count as a core's own",
            );
            own.clone()
        }
    };
    // A core is never cut through.
    let whole: Vec<&CpuSet> = cpus.iter().filter_map(|cpu| cores.get(&cpu)).collect();
    let widened: CpuSet = whole.into_iter().flat_map(CpuSet::iter).collect();
    if widened.len() > cpus.len() {
        facts.warn("caches shared by some threads of a core alone count as the whole core's");
        cpus = widened;
    }
    Some(Found { level, holds, cpus, size_kib, ways, line_bytes })
}

/// What size, line and sets make; the kernel's own number only where they do not tell. On some
/// machines it is another: a Kunpeng 920 reports 15 ways for 2048 sets of 128 lines.
fn ways(
    facts: &mut Facts,
    size_kib: u64,
    line_bytes: Option<u32>,
    count: &dyn Fn(&str) -> Option<u32>,
) -> Option<u32> {
    let sets = count("number_of_sets");
    if sets == Some(1) {
        // Some architectures write 1 for what they do not know.
        return None;
    }
    let told = count("ways_of_associativity");
    let lines_a_tag = u64::from(count("physical_line_partition").unwrap_or(1));
    let size_bytes = size_kib * 1024;
    let made = line_bytes.zip(sets).and_then(|(line, sets)| {
        let way = (u64::from(line) * lines_a_tag).saturating_mul(u64::from(sets));
        u32::try_from(size_bytes / way).ok().filter(|&ways| ways > 0)
    });
    if let (Some(made), Some(told)) = (made, told)
        && made != told
    {
        facts.warn("the ways of some caches contradict their sets: size, line and sets count");
    }
    let ways = made.or(told)?;
    let fits = u64::from(ways) * u64::from(line_bytes.unwrap_or(1)) <= size_bytes;
    if !fits {
        facts.warn("the ways of some caches do not fit their size and are left out");
    }
    Some(ways).filter(|_| fits)
}
