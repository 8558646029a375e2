//! Which of a machine's events mean what is asked.
//!
//! The kernel's generic names do not mean the same everywhere: its cache references and misses are
//! those of the LLC on Intel, of the L2 on AMD since Zen, of the L1 on Arm. Where the machine has
//! no event that means what is asked, it has none.

use super::{Encoding, PerfEvent, Pmu, Pmus};
use crate::{CpuInfo, Roots};

/// What an event means, on whichever processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Meaning {
    /// Retired instructions.
    Instructions,
    /// Cycles in which the core was not halted.
    Cycles,
    /// Requests to the last-level cache.
    LlcReferences,
    /// Those that it did not hold.
    LlcMisses,
    /// Cycles in which a core waits for memory.
    StallCycles,
    /// Loads from the L1's data; on Arm stores, too.
    L1Loads,
    /// Stores to it.
    L1Stores,
    /// Retired branches.
    Branches,
}

/// The processor, as far as its events depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Maker {
    /// With its model number in family 6.
    Intel(u32),
    /// With its family.
    Amd(u32),
    Arm,
    Other,
}

/// An event that was found by its meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformEvent {
    /// The event.
    pub event: PerfEvent,
    /// Does it count prefetches with demanded accesses?
    pub with_prefetches: bool,
}

/// Finds events by their meaning.
#[derive(Debug)]
pub struct PlatformEvents<'a> {
    pmus: &'a Pmus,
    maker: Maker,
}

/// Intel's cores from Skylake to Ice Lake, by model: those whose
/// CYCLE_ACTIVITY.STALLS_MEM_ANY is event 0xa3, umask 0x14, cmask 20 in Intel's lists of events.
const STALLS_MEM_ANY: [u32; 16] = [
    0x4e, 0x5e, 0x55, 0x8e, 0x9e, 0xa5, 0xa6, 0x66, 0x7d, 0x7e, 0x6a, 0x6c, 0x8c, 0x8d, 0xa7, 0x9d,
];

impl<'a> PlatformEvents<'a> {
    /// Of a machine with these counters.
    pub fn new(roots: &Roots, pmus: &'a Pmus) -> Self {
        Self { pmus, maker: maker(&CpuInfo::read(roots).unwrap_or_default()) }
    }

    /// The event with a meaning; none where a kind of core lacks it.
    pub fn event(&self, meaning: Meaning) -> Option<PlatformEvent> {
        let mut with_prefetches = false;
        let mut encodings = Vec::new();
        for (core, pmu) in self.pmus.cores().enumerate() {
            let text;
            (text, with_prefetches) = self.text(pmu, meaning)?;
            encodings.push(self.encoding(pmu, core, &text)?);
        }
        let name = format!("{meaning:?}");
        let event = PerfEvent { name, encodings, is_time: false, is_software: false };
        (!event.encodings.is_empty()).then_some(PlatformEvent { event, with_prefetches })
    }

    fn encoding(&self, pmu: &Pmu, core: usize, text: &str) -> Option<Encoding> {
        let text =
            if text.contains('=') { format!("{}/{text}/", pmu.name) } else { text.to_owned() };
        let event = self.pmus.event(&text).ok()?;
        event.encodings.into_iter().find(|encoding| encoding.core == Some(core))
    }

    /// The event on one kind of core: a name, or its parts, and whether it counts prefetches.
    fn text(&self, pmu: &Pmu, meaning: Meaning) -> Option<(String, bool)> {
        let demand = |text: &str| Some((text.to_owned(), false));
        let named = |name: &str| pmu.events.contains_key(name).then(|| (name.to_owned(), false));
        match (meaning, self.maker) {
            // Arm's own names (Arm Architecture Reference Manual, common events), where the core
            // says that it has them.
            (Meaning::Instructions, Maker::Arm) => named("inst_retired"),
            (Meaning::Cycles, Maker::Arm) => named("cpu_cycles"),
            (Meaning::LlcReferences, Maker::Arm) => named("ll_cache_rd"),
            (Meaning::LlcMisses, Maker::Arm) => named("ll_cache_miss_rd"),
            (Meaning::L1Loads, Maker::Arm) => named("l1d_cache"),
            (Meaning::L1Stores, Maker::Arm) => None,
            (Meaning::Branches, Maker::Arm) => named("br_retired"),
            (Meaning::StallCycles, Maker::Arm) => named("stall_backend_mem"),
            // AMD's fills of the L1 by where the line came from (AMD, processor programming
            // references): behind the L2, and from memory. Since Zen 3 with prefetches into the L1.
            (Meaning::LlcReferences, Maker::Amd(0x17)) => demand("event=0x43,umask=0x5a"),
            (Meaning::LlcMisses, Maker::Amd(0x17)) => demand("event=0x43,umask=0x48"),
            (Meaning::LlcReferences, Maker::Amd(0x19 | 0x1a)) => with_prefetch("0x5e"),
            (Meaning::LlcMisses, Maker::Amd(0x19 | 0x1a)) => with_prefetch("0x48"),
            (Meaning::LlcReferences | Meaning::LlcMisses, Maker::Amd(_)) => None,
            (Meaning::L1Stores, Maker::Amd(_)) => None,
            (Meaning::StallCycles, Maker::Intel(model)) if STALLS_MEM_ANY.contains(&model) => {
                demand("event=0xa3,umask=0x14,cmask=20")
            }
            (Meaning::StallCycles, _) => None,
            (Meaning::Instructions, _) => demand("instructions"),
            (Meaning::Cycles, _) => demand("cycles"),
            // Intel's own reckoning leaves out what the L2's prefetcher brings (Intel SDM, table of
            // architectural events).
            (Meaning::LlcReferences, _) => demand("cache-references"),
            (Meaning::LlcMisses, _) => demand("cache-misses"),
            (Meaning::L1Loads, _) => demand("L1-dcache-loads"),
            (Meaning::L1Stores, _) => demand("L1-dcache-stores"),
            (Meaning::Branches, _) => demand("branches"),
        }
    }
}

fn with_prefetch(umask: &str) -> Option<(String, bool)> {
    Some((format!("event=0x44,umask={umask}"), true))
}

fn maker(cpuinfo: &CpuInfo) -> Maker {
    let field = |name: &str| cpuinfo.field(name);
    let number = |name: &str| field(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    match field("vendor_id") {
        Some("GenuineIntel") if number("cpu family") == 6 => Maker::Intel(number("model")),
        Some("AuthenticAMD" | "HygonGenuine") => Maker::Amd(number("cpu family")),
        _ if field("CPU implementer").is_some() => Maker::Arm,
        _ => Maker::Other,
    }
}
