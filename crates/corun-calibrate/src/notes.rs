//! What a measurement says in words: what could not be told apart, and what was out of the ordinary.
//! Every note follows from figures.

use std::collections::BTreeMap;

use corun_linux::Noise;
use corun_machine::{CpuId, Machine};

use crate::cpus::{Cpus, data_caches};
use crate::estimate::FigureRange;
use crate::experiment::idle::LEAST_LEFT;
use crate::experiment::streaming::LEAST_LIFE;
use crate::figure::{CacheFigure, CoreFigure, CurvePart, Figure};
use crate::replacement::BUSY_SHARE;
use crate::throughput::FreeCore;
use crate::turns::{Crowding, Sharing};

/// A cache of which a program gets less than this share has other users.
const WHOLE_SHARE: f64 = 0.85;
/// Two CPUs that are slower together than this share a core.
const SHARED_CORE_SPEED: f64 = 0.8;
/// Memory whose latency rises less than this, relative, is not saturated.
const SATURATED_RISE: f64 = 0.25;
/// An interval that is wider than this, relative to its value, is worth a note.
const WIDE_SPREAD: f64 = 0.25;

/// What notes are made from.
pub(crate) struct Findings<'a> {
    pub(crate) found: &'a Machine,
    pub(crate) cpus: &'a Cpus,
    pub(crate) figures: &'a BTreeMap<Figure, FigureRange>,
    pub(crate) huge_pages: bool,
    /// Bytes of the smallest set over which memory latency was measured.
    pub(crate) far_bytes: f64,
    pub(crate) nodes_without_memory: &'a [u32],
    pub(crate) noise: Noise,
    pub(crate) disturbed_share: f64,
    pub(crate) sharing: &'a Sharing,
    pub(crate) crowding: &'a Crowding,
}

/// How much larger than the LLC a set is of which hardly anything hits there.
const BEYOND_LLC: f64 = 2.0;

impl Findings<'_> {
    /// All notes.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        self.busy(&mut notes);
        self.apart(&mut notes);
        self.crowded(&mut notes);
        self.restricted(&mut notes);
        for &(core_type, cpu) in &self.cpus.of_types {
            let caches = data_caches(self.found, cpu);
            self.caches(core_type, &caches, &mut notes);
            self.streaming(core_type, &caches, &mut notes);
            self.core(core_type, &mut notes);
        }
        self.shared_cores(&mut notes);
        self.memory(&mut notes);
        self.absent(&mut notes);
        self.wide(&mut notes);
        notes
    }

    fn busy(&self, notes: &mut Vec<String>) {
        let Noise { others_share, stolen_share } = self.noise;
        let worst = others_share.max(stolen_share).max(self.disturbed_share);
        if worst > BUSY_SHARE {
            notes.push(format!(
                "This machine was busy: other processes used {} of the CPU time, the host gave {} to \
                 others, and {} of the samples were disturbed. Measure again when less goes on.",
                percent(others_share),
                percent(stolen_share),
                percent(self.disturbed_share)
            ));
        }
    }

    /// CPUs that did not share the caches that Linux shows above them.
    fn apart(&self, notes: &mut Vec<String>) {
        let Sharing { turns, put_off, apart, transfers_ns, only_apart, left_out } = self.sharing;
        if put_off + apart == 0 {
            return;
        }
        let took = transfers_ns.map_or_else(String::new, |(fastest, slowest)| {
            format!(": a cache line took {fastest:.0} to {slowest:.0} ns from one to another")
        });
        notes.push(format!(
            "CPUs that Linux shows under one cache did not share it all the time{took}. The host of a virtual machine moves them. Of {turns} turns of \
             such CPUs {put_off} were put off for it; {apart} samples were taken apart in the end and count only where there are no \
             others."
        ));
        if !only_apart.is_empty() {
            let names: Vec<&str> = only_apart.iter().copied().collect();
            notes.push(format!(
                "Measured only while CPUs did not share their cache, so that figures are of CPUs under several: {}. Measure \
                 again later.",
                names.join(", ")
            ));
        }
        if !left_out.is_empty() {
            let paths: Vec<String> = left_out.iter().map(|one| one.path(self.found)).collect();
            notes.push(format!(
                "Left out, since CPUs never shared their cache while it was measured: {}. Measure again later.",
                paths.join(", ")
            ));
        }
    }

    /// Cores of which another thread was busy.
    fn crowded(&self, notes: &mut Vec<String>) {
        let Crowding { turns, put_off, crowded, points, crowded_points, only_crowded, .. } =
            self.crowding;
        if put_off + crowded == 0 {
            return;
        }
        notes.push(format!(
            "Another hardware thread of the core was busy, of another virtual machine or of a process here. Of {turns} turns \
             {put_off} were put off for it; {crowded} samples were taken beside it in the end and count only where there are no others."
        ));
        for (&core_type, most) in &self.crowding.additions_per_cycle {
            if !FreeCore::new(Some(most.known)).is_free(most.seen) {
                notes.push(format!(
                    "The core{} did {:.2} additions a cycle at best, and {:.2} in an earlier calibration.",
                    self.of_type(core_type),
                    most.seen,
                    most.known
                ));
            }
        }
        if *crowded_points > 0 {
            let names: Vec<&str> = only_crowded.iter().copied().collect();
            notes.push(format!(
                "Measured only beside a busy hardware thread, so that the core is faster than its figures: {crowded_points} of {points} \
                 points, of {}. Measure again later.",
                names.join(", ")
            ));
        }
    }

    fn restricted(&self, notes: &mut Vec<String>) {
        let all = self.found.cpu_set();
        if self.cpus.allowed != all {
            notes.push(format!(
                "This process may use CPUs {} of {all}: the others were not measured.",
                self.cpus.allowed
            ));
        }
        if self.cpus.has_quota() {
            notes.push(format!(
                "A quota gives time for {} CPUs at a time: rates of all CPUs are those of so many.",
                self.cpus.together.len()
            ));
        }
        let types = self.found.core_types();
        for (core_type, one) in types.iter().enumerate() {
            if self.cpus.of_types.iter().all(|(measured, _)| *measured != core_type) {
                notes.push(format!(
                    "No core of type {} may be used: it was not measured.",
                    one.name
                ));
            }
        }
        for node in self.nodes_without_memory {
            notes.push(format!(
                "This process gets no memory on NUMA node {node}: latencies to it follow from the \
                 kernel's distances."
            ));
        }
        let caches = |&(_, cpu): &(usize, CpuId)| data_caches(self.found, cpu);
        let largest = self.cpus.of_types.iter().filter_map(|one| Some(caches(one).last()?.1));
        if largest.fold(0.0, f64::max) * BEYOND_LLC > self.far_bytes {
            notes.push(format!(
                "The sets that stand for memory have {:.0} MiB, less than {BEYOND_LLC} times the LLC: \
                 what is said of memory may be a mix of both.",
                self.far_bytes / 1048576.0
            ));
        }
        if !self.huge_pages {
            notes.push(
                "The kernel gave no huge pages: latencies of large sets hold TLB misses."
                    .to_owned(),
            );
        }
    }

    fn caches(&self, core_type: usize, caches: &[(u32, f64)], notes: &mut Vec<String>) {
        let of = self.of_type(core_type);
        let cache = |level, what| self.figures.get(&Figure::Cache(core_type, level, what));
        if caches.is_empty() {
            notes.push(format!("Linux shows no caches{of}: their latencies have no place."));
        }
        for &(level, _) in caches {
            if cache(level, CacheFigure::LatencyNs).is_none() {
                notes.push(format!("The latency of L{level}{of} could not be told."));
            }
        }
        for pair in caches.windows(2) {
            let ((near, _), (far, _)) = (pair[0], pair[1]);
            let latency = |level| cache(level, CacheFigure::LatencyCycles);
            if let (Some(one), Some(other)) = (latency(near), latency(far))
                && one.high >= other.low
            {
                notes.push(format!(
                    "The latencies of L{near} and L{far}{of} differ by less than the noise: {} and \
                     {} cycles.",
                    interval(one),
                    interval(other)
                ));
            }
        }
        for &(level, bytes) in caches {
            let Some(held) = cache(level, CacheFigure::EffectiveKib) else { continue };
            let size_kib = bytes / 1024.0;
            if held.value < WHOLE_SHARE * size_kib {
                notes.push(format!(
                    "Of the {size_kib:.0} KiB of L{level}{of}, a program alone gets {} KiB: others \
                     outside this machine use the rest, or lines crowd in a part of the sets.",
                    interval(held)
                ));
            }
        }
        for &(level, _) in caches {
            if let Some(left) = cache(level, CacheFigure::LeftAtOnce)
                && left.value < LEAST_LEFT
            {
                notes.push(format!(
                    "Of lines that came into L{level}{of}, {} were left at once: others outside this \
                     machine fill it. How long lines stay there could not be told.",
                    percent(left.value)
                ));
            }
        }
    }

    /// What is not known of how the last cache treats streams. There is nothing to say of a cache that
    /// is the only one.
    fn streaming(&self, core_type: usize, caches: &[(u32, f64)], notes: &mut Vec<String>) {
        let of = self.of_type(core_type);
        let [.., _, (level, _)] = *caches else { return };
        let life = Figure::Cache(core_type, level, CacheFigure::SingleUseLife);
        match self.figures.get(&life) {
            None if self.sharing.left_out.contains(&life) => {
                notes.push(format!("Without a share of a stream's life, L{level}{of} counts as LRU."));
            }
            None => notes.push(format!(
                "How long lines of a stream stay in L{level}{of} could not be told: hardly any other lines \
                 stay there even without a stream. It counts as LRU."
            )),
            Some(life) if life.value <= LEAST_LIFE => notes.push(format!(
                "Beside a stream hardly more of the lines of L{level}{of} were gone when they were used again than \
                 without: lines of a stream may stay for less than the share of {LEAST_LIFE} of their life that the file has."
            )),
            Some(_) => {}
        }
    }

    fn core(&self, core_type: usize, notes: &mut Vec<String>) {
        let of = self.of_type(core_type);
        let core = |what| self.figures.get(&Figure::Core(core_type, what));
        if core(CoreFigure::ReorderBuffer).is_none() {
            notes.push(format!(
                "The reorder buffer{of} could not be told: two misses take as long whatever stands \
                 between them, as they do in order."
            ));
        }
        match (core(CoreFigure::TlbEntries(1)), core(CoreFigure::TlbEntries(2))) {
            (None, _) => notes.push(format!("The reach of the TLB{of} could not be told.")),
            (Some(_), None) => {
                notes.push(format!("Only one level of the TLB{of} could be told."));
            }
            _ => {}
        }
        if core(CoreFigure::Streams).is_none() {
            notes.push(format!("Hardly anything is prefetched{of} from an ascending stream."));
        }
    }

    fn shared_cores(&self, notes: &mut Vec<String>) {
        for (figure, speed) in self.figures {
            let Figure::SpeedBeside(one, other) = figure else { continue };
            if speed.value < SHARED_CORE_SPEED {
                notes.push(format!(
                    "CPUs {one} and {other} count as two cores, and run at {} of their speed beside \
                     each other: they are hardware threads of one core of the host, or it has too \
                     little time for both.",
                    percent(speed.value)
                ));
            }
        }
    }

    fn memory(&self, notes: &mut Vec<String>) {
        let latency = |point: usize| self.figures.get(&Figure::Loaded(point, CurvePart::LatencyNs));
        let traffic = |point: usize| self.figures.get(&Figure::Loaded(point, CurvePart::MbPerS));
        let points: Vec<(f64, f64)> =
            (0..).map_while(|point| Some((traffic(point)?.value, latency(point)?.value))).collect();
        let highest = points.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0));
        if let (Some(&(_, idle)), Some((mb_per_s, loaded))) = (points.first(), highest) {
            let rise = loaded / idle - 1.0;
            if rise < SATURATED_RISE {
                notes.push(format!(
                    "The other CPUs do not saturate the memory: beside their {mb_per_s:.0} MB/s its \
                     latency is {} higher than alone. What happens beyond was not seen.",
                    percent(rise.max(0.0))
                ));
            }
        }
    }

    /// What this machine has not got, so that it has no figure.
    fn absent(&self, notes: &mut Vec<String>) {
        let has = |wanted: fn(&Figure) -> bool| self.figures.keys().any(wanted);
        if self.cpus.together.len() < 2 {
            notes.push("One CPU: no latency beside others, and no transfers of lines.".to_owned());
        }
        if self.found.llcs().len() < 2 {
            notes.push("One LLC: no transfers between LLCs.".to_owned());
        }
        if self.found.nodes().len() < 2 {
            notes.push("One NUMA node: no latency and no rate between nodes.".to_owned());
        }
        let is_yield = |figure: &Figure| matches!(figure, Figure::Core(_, CoreFigure::SmtYield));
        if !has(is_yield) && !self.sharing.left_out.iter().any(is_yield) {
            notes.push(
                "No two CPUs that may be used are hardware threads of one core: what they would cost \
                 each other was not measured."
                    .to_owned(),
            );
        }
    }

    fn wide(&self, notes: &mut Vec<String>) {
        let wide: Vec<String> = self
            .figures
            .iter()
            .filter(|(figure, estimate)| {
                !figure.is_of_curve() && estimate.relative_spread() > WIDE_SPREAD
            })
            .map(|(figure, _)| figure.path(self.found))
            .collect();
        if !wide.is_empty() {
            notes.push(format!(
                "These figures changed by more than {} while they were measured: {}.",
                percent(2.0 * WIDE_SPREAD),
                wide.join(", ")
            ));
        }
    }

    /// Words that name a core type, where there are several.
    fn of_type(&self, core_type: usize) -> String {
        match self.found.core_types() {
            [_] => String::new(),
            types => format!(" of core type {}", types[core_type].name),
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `12 (11 to 14)`.
fn interval(estimate: &FigureRange) -> String {
    let digits = |value: f64| {
        if value.abs() < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
    };
    format!("{} ({} to {})", digits(estimate.value), digits(estimate.low), digits(estimate.high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::MostAdditions;

    fn estimate(low: f64, value: f64, high: f64) -> FigureRange {
        FigureRange { value, low, high }
    }

    fn notes(figures: &BTreeMap<Figure, FigureRange>, noise: Noise) -> Vec<String> {
        notes_of(figures, noise, &Sharing::default(), &Crowding::default())
    }

    fn notes_of(
        figures: &BTreeMap<Figure, FigureRange>,
        noise: Noise,
        sharing: &Sharing,
        crowding: &Crowding,
    ) -> Vec<String> {
        let found = corun_machine::preset("i7-2600").unwrap();
        let cpus = Cpus {
            allowed: "0-3".parse().unwrap(),
            together: vec![CpuId(0), CpuId(2)],
            of_types: vec![(0, CpuId(2))],
        };
        let findings = Findings {
            found: &found,
            cpus: &cpus,
            figures,
            huge_pages: false,
            far_bytes: 1048576.0,
            nodes_without_memory: &[3],
            noise,
            disturbed_share: 0.02,
            sharing,
            crowding,
        };
        findings.notes()
    }

    fn has(notes: &[String], part: &str) -> bool {
        notes.iter().any(|note| note.contains(part))
    }

    #[test]
    fn nothing_measured_is_said_to_be_missing() {
        let notes = notes(&BTreeMap::new(), Noise::default());
        for part in [
            "may use CPUs 0-3 of 0-7",
            "time for 2 CPUs at a time",
            "no huge pages",
            "no memory on NUMA node 3",
            "have 1 MiB, less than 2 times the LLC",
            "latency of L1 could not",
            "lines of a stream stay in L3 could not be told",
            "reorder buffer could not",
            "TLB could not",
            "Hardly anything is prefetched",
            "One LLC",
            "One NUMA node",
            "hardware threads of one core",
        ] {
            assert!(has(&notes, part), "{part}: {notes:#?}");
        }
        assert!(!has(&notes, "was busy") && !has(&notes, "under one cache"));
    }

    #[test]
    fn what_was_measured_apart_is_named() {
        let life = Figure::Cache(0, 3, CacheFigure::SingleUseLife);
        let smt = Figure::Core(0, CoreFigure::SmtYield);
        let mut sharing = Sharing {
            turns: 96,
            put_off: 13,
            apart: 4,
            transfers_ns: Some((29.2, 204.8)),
            only_apart: ["bandwidth of all cores", "loaded latency"].into(),
            left_out: vec![life, smt],
        };
        let some = notes_of(&BTreeMap::new(), Noise::default(), &sharing, &Crowding::default());
        for part in [
            "a cache line took 29 to 205 ns from one to another",
            "Of 96 turns of such CPUs 13 were put off for it; 4 samples were taken apart",
            "several: bandwidth of all cores, loaded latency.",
            "cache.L3.single_use_life, core_type.sandy-bridge.smt_yield. Measure again",
            "L3 counts as LRU",
        ] {
            assert!(has(&some, part), "{part}: {some:#?}");
        }
        for part in ["hardly any other lines", "No two CPUs"] {
            assert!(!has(&some, part), "{part}: {some:#?}");
        }
        sharing = Sharing { apart: 0, only_apart: [].into(), left_out: vec![], ..sharing };
        let some = notes_of(&BTreeMap::new(), Noise::default(), &sharing, &Crowding::default());
        assert!(has(&some, "13 were put off") && !has(&some, "Measure again later"), "{some:#?}");
    }

    #[test]
    fn what_was_measured_beside_a_busy_thread_is_named() {
        let mut crowding = Crowding {
            turns: 90,
            put_off: 30,
            crowded: 12,
            points: 40,
            crowded_points: 3,
            only_crowded: ["core", "page walks"].into(),
            additions_per_cycle: [(0, MostAdditions { known: 4.75, seen: 3.9 })].into(),
        };
        let of = |crowding: &Crowding| {
            notes_of(&BTreeMap::new(), Noise::default(), &Sharing::default(), crowding)
        };
        let some = of(&crowding);
        for part in [
            "Of 90 turns 30 were put off for it; 12 samples",
            "The core did 3.90 additions a cycle at best, and 4.75 in an earlier calibration.",
            "3 of 40 points, of core, page walks. Measure again",
        ] {
            assert!(has(&some, part), "{part}: {some:#?}");
        }
        crowding.crowded_points = 0;
        crowding.additions_per_cycle = [(0, MostAdditions { known: 4.75, seen: 4.74 })].into();
        let some = of(&crowding);
        assert!(has(&some, "30 were put off"), "{some:#?}");
        assert!(
            !has(&some, "Measure again later") && !has(&some, "additions a cycle"),
            "{some:#?}"
        );
        assert!(!has(&of(&Crowding::default()), "hardware thread of the core was busy"));
    }

    #[test]
    fn notes_follow_from_the_figures() {
        let cycles = |level| Figure::Cache(0, level, CacheFigure::LatencyCycles);
        let held = |level| Figure::Cache(0, level, CacheFigure::EffectiveKib);
        let loaded = |point, part| Figure::Loaded(point, part);
        let figures = BTreeMap::from([
            (cycles(1), estimate(4.0, 4.0, 4.0)),
            (cycles(2), estimate(11.0, 12.0, 30.0)),
            (cycles(3), estimate(28.0, 33.0, 40.0)),
            // Of 256 and 8192 KiB.
            (held(2), estimate(240.0, 250.0, 256.0)),
            (held(3), estimate(2000.0, 3000.0, 4000.0)),
            (Figure::Cache(0, 3, CacheFigure::LeftAtOnce), estimate(0.0, 0.04, 0.2)),
            (Figure::Cache(0, 3, CacheFigure::SingleUseLife), estimate(0.01, 0.01, 0.02)),
            (Figure::SpeedBeside(0, 2), estimate(0.5, 0.6, 0.7)),
            (Figure::Core(0, CoreFigure::SmtYield), estimate(1.2, 1.2, 1.2)),
            (loaded(0, CurvePart::MbPerS), estimate(500.0, 500.0, 500.0)),
            (loaded(0, CurvePart::LatencyNs), estimate(100.0, 100.0, 100.0)),
            (loaded(1, CurvePart::MbPerS), estimate(1.0, 9000.0, 1e5)),
            (loaded(1, CurvePart::LatencyNs), estimate(104.0, 104.0, 104.0)),
        ]);
        let notes = notes(&figures, Noise { others_share: 0.5, stolen_share: 0.0 });
        for part in [
            "other processes used 50 % of the CPU time, the host gave 0 % to others, and 2 %",
            "L2 and L3 differ by less than the noise: 12.0 (11.0 to 30.0) and 33.0 (28.0 to 40.0)",
            "Of the 8192 KiB of L3, a program alone gets 3000 (2000 to 4000) KiB",
            "came into L3, 4 % were left at once",
            "less than the share of 0.01 of their life",
            "CPUs 0 and 2 count as two cores, and run at 60 %",
            "beside their 9000 MB/s its latency is 4 % higher",
            "changed by more than 50 % while they were measured: cache.L2.latency_cycles, cache.L3.effective_kib",
        ] {
            assert!(has(&notes, part), "{part}: {notes:#?}");
        }
        for part in ["L1 and L2 differ", "of L2, a program", "hardware threads of one core: what"] {
            assert!(!has(&notes, part), "{part}: {notes:#?}");
        }
    }
}
