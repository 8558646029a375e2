//! A placement with the reasons behind its figures: what slows each program down, who does it, and where
//! the program would be better off.

mod details;

use std::collections::BTreeMap;

use corun_model::{CacheGroup, Flow, LoadedProgram, Outcome, Scratch};
use corun_optimal::Objective;
use serde::Serialize;

pub use self::details::{CauseEntry, Culprit, MoveEntry, ProgramDetails, WaysEntry};
use crate::placement::{PlacementDocument, SearchProof};
use crate::scenario::Scenario;
use crate::{Error, Result, counted, round};

/// Digits after the point in documents.
const DIGITS: i32 = 6;

/// Programs on CPUs, each with all ways of its LLC or with those of its mask.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// Each program's CPU, an index.
    pub cpus: Vec<usize>,
    /// Each program's ways of its LLC (bit i: way i); empty where no LLC is divided, and none for programs
    /// under an LLC that is whole.
    pub masks: Vec<Option<u64>>,
}

/// A placement, and what its figures are made of.
#[derive(Debug, Serialize)]
pub struct ExplainedPlacement {
    /// As `corun predict` and `corun place` print it.
    pub placement: PlacementDocument,
    /// Each program's slowdown as a product.
    pub because: Vec<SlowdownFactors>,
    /// Traffic through each bandwidth domain of the machine, in the machine's order.
    pub traffic: Vec<DomainTraffic>,
}

/// A slowdown as a product: each factor says by how much that alone makes the program take longer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SlowdownFactors {
    /// The program alone on this CPU against alone on its fastest CPU of the machine.
    pub core: f64,
    /// With what the program holds of the LLC against the whole LLC.
    pub cache: f64,
    /// The hardware threads of the core that run others.
    pub hardware_threads: f64,
    /// Waiting for memory behind the others' traffic.
    pub memory: f64,
}

/// Traffic through a bandwidth domain.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DomainTraffic {
    /// The domain's name.
    pub name: String,
    /// What passes, MB/s (1e6 bytes a second).
    pub mb_per_s: f64,
    /// The most that passes, MB/s.
    pub peak_mb_per_s: f64,
}

/// Ways of an LLC from their hexadecimal mask (bit i: way i), with or without `0x`; none where the text is no such
/// number of at most 64 bits.
pub fn parse_way_mask(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    // The standard library accepts a sign.
    if digits.starts_with('+') { None } else { u64::from_str_radix(digits, 16).ok() }
}

impl Scenario {
    /// A layout's figures, with no policy and no proof.
    ///
    /// # Errors
    /// Masks that [`Layout`] does not allow.
    pub fn explain(&self, layout: &Layout, objective: Objective) -> Result<ExplainedPlacement> {
        let outcomes = self.outcomes(layout)?;
        let proof = SearchProof::default();
        let placement = self.judged(layout, &outcomes, None, (objective, proof));
        self.explained(layout, &outcomes, placement)
    }

    /// A layout as a document, with the figures that [`Self::outcomes`] has for it.
    pub(crate) fn judged(
        &self,
        layout: &Layout,
        outcomes: &[Outcome],
        policy: Option<&str>,
        (objective, proof): (Objective, SearchProof),
    ) -> PlacementDocument {
        let mut placement =
            PlacementDocument::of(self, &layout.cpus, outcomes, policy, objective, proof);
        if layout.masks.iter().any(Option::is_some) {
            let whole = |cpu: usize| u64::MAX >> (64 - self.model.llc_ways(cpu).clamp(1, 64));
            let mask = |(mask, &cpu): (&Option<u64>, &usize)| mask.unwrap_or_else(|| whole(cpu));
            let masks = layout.masks.iter().zip(&layout.cpus).map(mask);
            placement.mask = Some(masks.map(|mask| format!("{mask:#x}")).collect());
        }
        placement
    }

    /// The reasons behind a placement that a policy or a search gave.
    ///
    /// # Errors
    /// Masks that [`Layout`] does not allow.
    pub fn explain_placement(&self, placement: PlacementDocument) -> Result<ExplainedPlacement> {
        let layout = self.layout_of(&placement)?;
        let outcomes = self.outcomes(&layout)?;
        self.explained(&layout, &outcomes, placement)
    }

    /// The layout that a placement describes.
    pub(crate) fn layout_of(&self, placement: &PlacementDocument) -> Result<Layout> {
        let cpus = crate::placement_cpus(self.machine(), placement.cpu.len(), &placement.cpu)?;
        let mask = |text: &String| {
            let wrong = || Error::input(format!("the mask `{text}` is no hexadecimal number"));
            parse_way_mask(text).map(Some).ok_or_else(wrong)
        };
        let masks = match &placement.mask {
            Some(masks) => masks.iter().map(mask).collect::<Result<_>>()?,
            None => Vec::new(),
        };
        Ok(Layout { cpus, masks })
    }

    fn explained(
        &self,
        layout: &Layout,
        outcomes: &[Outcome],
        placement: PlacementDocument,
    ) -> Result<ExplainedPlacement> {
        let cpus = &layout.cpus;
        let groups = self.groups(layout)?;
        let flows = self.share_in(cpus, |program| groups[program]);
        let because = (0..outcomes.len())
            .map(|program| self.factors(cpus, &flows, outcomes[program].slowdown, program));
        Ok(ExplainedPlacement {
            because: because.collect(),
            traffic: self.traffic(cpus, outcomes),
            placement,
        })
    }

    /// # Errors
    /// Another number of masks than programs; masks on an LLC on which another program has none, beyond the LLC's
    /// ways, or that overlap without being equal.
    pub(crate) fn outcomes(&self, layout: &Layout) -> Result<Vec<Outcome>> {
        let (programs, masks) = (layout.cpus.len(), layout.masks.len());
        if masks != 0 && masks != programs {
            let (masks, programs) = (counted(masks, "mask"), counted(programs, "program"));
            let message = format!("{masks} for {programs}: expected one each");
            return Err(Error::input(message));
        }
        let groups = self.groups(layout)?;
        Ok(self.solve_in(&layout.cpus, |program| groups[program]))
    }

    /// The part of its LLC that each program shares with those of an equal mask. The layout has a mask, or none,
    /// for each program, or no masks at all.
    fn groups(&self, layout: &Layout) -> Result<Vec<Option<CacheGroup>>> {
        let programs = layout.cpus.len();
        if layout.masks.iter().all(Option::is_none) {
            return Ok(vec![None; programs]);
        }
        let llc = |program: usize| self.machine().cpus()[layout.cpus[program]].llc;
        let name = |program: usize| &self.names[program];
        let mut known: BTreeMap<(usize, u64), u32> = BTreeMap::new();
        let mut groups = Vec::with_capacity(programs);
        for one in 0..programs {
            for other in 0..one {
                if llc(one) != llc(other) {
                    continue;
                }
                let (first, second) = (layout.masks[other], layout.masks[one]);
                let clash = match (first, second) {
                    (Some(first), Some(second)) => first != second && first & second != 0,
                    (None, None) => false,
                    _ => true,
                };
                if clash {
                    return Err(Error::input(format!(
                        "the ways of `{}` and `{}` on LLC {} overlap: expected equal or separate ways \
                         of each program there",
                        name(other),
                        name(one),
                        llc(one)
                    )));
                }
            }
            let Some(mask) = layout.masks[one] else {
                groups.push(None);
                continue;
            };
            let ways = self.model.llc_ways(layout.cpus[one]);
            if mask == 0 || (ways < 64 && mask >> ways != 0) {
                return Err(Error::input(format!(
                    "the ways of `{}` are {mask:#x}: expected at least one of the {ways} ways of LLC {}",
                    name(one),
                    llc(one)
                )));
            }
            let bytes = self.machine().llcs()[llc(one)].cache.map_or(0, |cache| cache.size_bytes);
            let next = known.len() as u32;
            let id = *known.entry((llc(one), mask)).or_insert(next);
            let bytes = bytes as f64 * f64::from(mask.count_ones()) / f64::from(ways);
            groups.push(Some(CacheGroup { id, bytes }));
        }
        Ok(groups)
    }

    /// How many of a program's core's threads are busy, its own included.
    fn busy_threads(&self, cpus: &[usize], program: usize) -> u32 {
        let core = |cpu: usize| self.machine().cpus()[cpu].core;
        cpus.iter().filter(|&&cpu| core(cpu) == core(cpus[program])).count() as u32
    }

    /// `flows`: all programs, each with what it holds of its LLC.
    fn factors(
        &self,
        cpus: &[usize],
        flows: &[Flow<'_>],
        slowdown: f64,
        program: usize,
    ) -> SlowdownFactors {
        let cpu = cpus[program];
        let core = self.model.solo(&self.programs[program], LoadedProgram::WHOLE, cpu).slowdown;
        let alone = |flows: &[Flow<'_>]| {
            let mut out = Vec::new();
            self.model.couple(flows, &mut Scratch::new(), &mut out);
            out[0].slowdown
        };
        let cache = alone(&flows[program..=program]) / core;
        let busy = self.busy_threads(cpus, program);
        let hardware_threads = match busy {
            0 | 1 => 1.0,
            _ if !self.model.divides_private_caches(cpu) => {
                1.0 / self.model.thread_speed(cpu, busy)
            }
            _ => self.beside_core_mates(cpus, flows, program) / (core * cache),
        };
        let rounded = |value: f64| round(value, DIGITS);
        SlowdownFactors {
            core: rounded(core),
            cache: rounded(cache),
            hardware_threads: rounded(hardware_threads),
            memory: rounded(slowdown / (core * cache * hardware_threads)),
        }
    }

    /// The slowdown beside the programs of its core alone, all with what they hold of the LLC now.
    fn beside_core_mates(&self, cpus: &[usize], flows: &[Flow<'_>], program: usize) -> f64 {
        let core = |cpu: usize| self.machine().cpus()[cpu].core;
        let mates =
            (0..cpus.len()).filter(|&one| one != program && core(cpus[one]) == core(cpus[program]));
        let flows: Vec<Flow<'_>> =
            std::iter::once(program).chain(mates).map(|one| flows[one]).collect();
        let mut out = Vec::new();
        self.model.couple(&flows, &mut Scratch::new(), &mut out);
        out[0].slowdown
    }

    fn traffic(&self, cpus: &[usize], outcomes: &[Outcome]) -> Vec<DomainTraffic> {
        let machine = self.machine();
        let domains = machine.bandwidth_domains();
        let mut bytes_per_s = vec![0.0; domains.len()];
        for (&cpu, one) in cpus.iter().zip(outcomes) {
            for domain in machine.memory_path(cpu, machine.cpus()[cpu].node) {
                bytes_per_s[domain] += one.bytes_per_s;
            }
        }
        let domain = |(domain, bytes): (&corun_machine::BandwidthDomain, f64)| DomainTraffic {
            name: domain.name.clone(),
            mb_per_s: round(bytes / 1e6, 3),
            peak_mb_per_s: domain.peak_mb_per_s,
        };
        domains.iter().zip(bytes_per_s).map(domain).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use corun_machine::{Machine, preset};
    use corun_model::ModelOptions;
    use corun_profile::Library;

    use super::*;

    fn scenario(machine: &str, apps: &[&str]) -> Scenario {
        scenario_on(preset(machine).unwrap(), apps)
    }

    fn scenario_on(machine: Machine, apps: &[&str]) -> Scenario {
        let apps: Vec<String> = apps.iter().map(|&app| app.to_owned()).collect();
        let library = Library::shipped().unwrap();
        Scenario::new(machine, &library, &apps, ModelOptions::default()).unwrap()
    }

    /// A preset whose last-level caches get pages at random.
    fn with_random_pages(machine: &str) -> Machine {
        let text = preset(machine).unwrap().to_toml();
        let text = text.replace("ways = 16\n", "ways = 16\nrandom_page_kib = 4\n");
        Machine::from_toml(&text, machine).unwrap()
    }

    fn whole(cpus: &[usize]) -> Layout {
        Layout { cpus: cpus.to_vec(), masks: Vec::new() }
    }

    #[test]
    fn the_factors_of_a_slowdown_multiply_to_it() {
        // Hardware threads, two kinds of core, shared caches.
        for (machine, cpus) in [("i7-2600", [0, 4, 1, 2]), ("core-i9-12900k", [0, 1, 16, 17])] {
            let own = scenario(machine, &["sort", "xz", "numpy", "sqlite3"]);
            let found = own.explain(&whole(&cpus), Objective::MeanSlowdown).unwrap();
            for (slowdown, one) in found.placement.slowdown.iter().zip(&found.because) {
                let product = one.core * one.cache * one.hardware_threads * one.memory;
                assert!((product / slowdown - 1.0).abs() < 1e-4, "{machine}: {one:?} {slowdown}");
                let all = [one.core, one.cache, one.hardware_threads, one.memory];
                assert!(all.iter().all(|&factor| factor > 0.999), "{machine}: {one:?}");
            }
        }
    }

    #[test]
    fn factors_multiply_where_pages_fall_on_sets_at_random() {
        let apps = ["sort", "xz", "numpy", "sqlite3"];
        let machine = with_random_pages("xeon-x5365");
        let caches = machine.llcs().iter().filter_map(|llc| llc.cache);
        assert!(caches.clone().count() > 0);
        assert!(caches.clone().all(|cache| cache.random_page_bytes == Some(4096)));
        let [alike, at_random] = [preset("xeon-x5365").unwrap(), machine].map(|machine| {
            let own = scenario_on(machine, &apps);
            own.explain(&whole(&[0, 1, 2, 3]), Objective::MeanSlowdown).unwrap()
        });
        assert_ne!(alike.placement.slowdown, at_random.placement.slowdown);
        for (slowdown, one) in at_random.placement.slowdown.iter().zip(&at_random.because) {
            let product = one.core * one.cache * one.hardware_threads * one.memory;
            assert!((product / slowdown - 1.0).abs() < 1e-4, "{one:?} {slowdown}");
            assert!(one.cache > 0.999 && one.memory > 0.999, "{one:?}");
        }
    }

    #[test]
    fn an_explained_placement_is_the_placement() {
        let own = scenario("xeon-x5365", &["sort", "xz", "numpy"]);
        let found = own.explain(&whole(&[0, 1, 4]), Objective::MeanSlowdown).unwrap();
        let proof = SearchProof::default();
        let plain = PlacementDocument::new(&own, &[0, 1, 4], None, Objective::MeanSlowdown, proof);
        let text = |one: &PlacementDocument| serde_json::to_string(one).unwrap();
        assert_eq!(text(&found.placement), text(&plain));
        let drawn: f64 = plain.programs.iter().map(|one| one.bandwidth_mb_per_s).sum();
        let controller = found.traffic.iter().map(|one| one.mb_per_s).fold(0.0, f64::max);
        assert!((controller - drawn).abs() < 0.01, "{:?}", found.traffic);
    }

    #[test]
    fn masks_divide_an_llc_and_must_not_overlap() {
        let own = scenario("xeon-gold-6138", &["sort", "xz"]);
        let with = |masks: [Option<u64>; 2]| {
            let layout = Layout { cpus: vec![0, 1], masks: masks.to_vec() };
            own.explain(&layout, Objective::MeanSlowdown)
        };
        let divided = with([Some(0x1), Some(0x7fe)]).unwrap();
        let shared = own.explain(&whole(&[0, 1]), Objective::MeanSlowdown).unwrap();
        assert!(divided.placement.slowdown[0] > shared.placement.slowdown[0]);
        assert_eq!(divided.placement.mask.as_ref().unwrap()[1], "0x7fe");
        for wrong in
            [[Some(0x3), Some(0x2)], [Some(1), None], [Some(0), Some(2)], [Some(1 << 11), Some(1)]]
        {
            let refused = with(wrong).unwrap_err().to_string();
            assert!(refused.contains("the ways of"), "{refused}");
        }
    }

    #[test]
    fn another_number_of_masks_than_programs_is_refused() {
        let own = scenario("xeon-x5365", &["sort", "xz", "numpy"]);
        for masks in [vec![None], vec![None; 4], vec![Some(1); 2]] {
            let layout = Layout { cpus: vec![0, 1, 4], masks };
            let explained = own.explain(&layout, Objective::MeanSlowdown).map(|_| ());
            let details = own.details(&layout, 0, &AtomicBool::new(false)).map(|_| ());
            for refused in [explained, details] {
                let refused = refused.unwrap_err().to_string();
                assert!(refused.contains("for 3 programs"), "{refused}");
            }
        }
    }

    #[test]
    fn a_program_is_not_looked_at_for_whom_nobody_waits() {
        let own = scenario("xeon-x5365", &["sort", "xz"]);
        let stopped = own.details(&whole(&[0, 1]), 0, &AtomicBool::new(true));
        assert!(matches!(stopped, Err(Error::Interrupted)));
    }

    #[test]
    fn way_masks_are_plain_hexadecimal_numbers() {
        assert_eq!(
            ["0x3f", "3F", "ffffffffffffffff"].map(parse_way_mask),
            [Some(0x3f), Some(0x3f), Some(u64::MAX)]
        );
        for wrong in ["", "0x", "+3", "0x+3", "-1", "0x0x3", "3g", "1ffffffffffffffff"] {
            assert_eq!(parse_way_mask(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_program_is_slowed_by_whom_it_shares_with_and_a_move_helps() {
        // CPUs 0 and 1 share an LLC; `flac` on CPU 4 is under another one.
        let own = scenario("xeon-x5365", &["sort", "numpy", "flac"]);
        let machine = own.machine();
        let mate = (1..8).find(|&cpu| machine.cpus()[cpu].llc == machine.cpus()[0].llc).unwrap();
        let apart = (1..8).find(|&cpu| machine.cpus()[cpu].llc != machine.cpus()[0].llc).unwrap();
        let layout = whole(&[0, mate, apart]);
        let details = own.details(&layout, 0, &AtomicBool::new(false)).unwrap();
        let culprits = details.slowed_by.unwrap();
        assert_eq!(culprits[0].program, 1);
        assert!(culprits[0].factor > culprits[1].factor);
        let now = own.explain(&layout, Objective::MeanSlowdown).unwrap().placement;
        assert!(details.moves[0].antt < now.antt.unwrap());
        let cycles: f64 = details.cycles.iter().map(|one| one.cycles_per_instruction).sum();
        assert!((cycles * now.programs[0].ipc - 1.0).abs() < 1e-3, "{cycles}");
        // The move's figures are those of the placement after it.
        let best = &details.moves[0];
        let mut after = layout.clone();
        after.cpus[0] = machine.cpu_index(corun_machine::CpuId(best.cpu)).unwrap();
        if let Some(with) = best.with {
            after.cpus[with] = 0;
        }
        let then = own.explain(&after, Objective::MeanSlowdown).unwrap().placement;
        assert_eq!((then.slowdown[0], then.antt.unwrap()), (best.slowdown, best.antt));
    }
}
