//! What the tracer writes: a program's behaviour by phase, independent of any machine.

use corun_input::{Fault, PathStep};
use serde::{Deserialize, Serialize};

use crate::figures::{Expected, check_count};
use crate::{MicroTraces, MissRateCurve, Phase, Reading};

/// What the tracer writes: a program's behaviour by phase, independent of any machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// Where it comes from.
    pub origin: Origin,
    /// The phases by their first appearance; at least one.
    pub phases: Vec<Phase>,
    /// Which phase runs for how long, in order. A phase's stretches sum to its instructions.
    pub sequence: Vec<Stretch>,
    /// The threads by themselves, where there were several.
    pub threads: Vec<ThreadRecord>,
    /// The processes in order of their start, where there were several. Their phases follow one
    /// another in [`Self::sequence`] in this order, also where they ran at the same time.
    pub processes: Vec<ProcessRecord>,
    /// Hits by LRU position in caches of a given geometry, where they were asked for.
    pub stack_distances: Vec<StackDistanceProfile>,
    /// Stretches of its dynamic instruction stream, which the phases refer to by their places.
    pub micro_traces: MicroTraces,
}

/// Pages of a file that the kernel maps at one fault at most.
const PAGES_A_FILE_FAULT: f64 = 16.0;

impl Recording {
    /// No more pages of 4 KiB than the program touched from its start to its end, by its page faults; none where these were
    /// not recorded.
    pub fn most_pages(&self) -> Option<f64> {
        let of_phase = |phase: &Phase| {
            let core = phase.core.as_ref()?;
            let of_files = core.file_faults_pki * (PAGES_A_FILE_FAULT - 1.0);
            Some(phase.instructions as f64 * 1e-3 * (core.page_faults_pki + of_files))
        };
        let pages: f64 = self.phases.iter().filter_map(of_phase).sum();
        (pages > 0.0).then_some(pages)
    }
}

/// A stretch of the execution: a phase, for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Index in [`Recording::phases`].
    pub phase: usize,
    /// Its length in instructions.
    pub instructions: u64,
}

/// One thread as if it had its caches to itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadRecord {
    /// Which process, by its place in [`Recording::processes`]; 0 where there was one.
    pub process: u32,
    /// Which of that process's threads, by the order of their start, from 0.
    pub thread: u32,
    /// Its instructions.
    pub instructions: u64,
    /// Its data accesses per 1000 instructions.
    pub data_accesses_pki: f64,
    /// Its miss-rate curve: lines missed per 1000 of its own instructions.
    pub curve: MissRateCurve,
}

/// One of a program's processes, or several alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessRecord {
    /// What it executed, last if several.
    pub command: Vec<String>,
    /// How many processes stand in this entry. Their figures are sums.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u64,
    /// Its instructions; 0 where it ran untraced.
    pub instructions: u64,
    /// Did it run to its end?
    pub complete: bool,
}

/// Hits by LRU position in one set-associative cache behind private caches, and misses
/// (DIO section 2.2), over the whole execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackDistanceProfile {
    /// Sets of the cache.
    pub sets: u64,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// The private caches in front of it, as pairs of bytes and ways, nearest to the core first.
    #[serde(default)]
    pub private_caches: Vec<(u64, u32)>,
    /// Hits per 1000 instructions at each LRU position, most recent first; one a way.
    pub hits_pki: Vec<f64>,
    /// Misses per 1000 instructions.
    pub misses_pki: f64,
}

/// Where a recording comes from. Texts for people, but for the flags.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The command line that was traced.
    pub command: Vec<String>,
    /// What the program is and its version, as its package says.
    #[serde(default)]
    pub program: String,
    /// What it worked on.
    #[serde(default)]
    pub input: String,
    /// When, as YYYY-MM-DD.
    #[serde(default)]
    pub date: String,
    /// What recorded it, with version.
    #[serde(default)]
    pub tracer: String,
    /// How lines were followed.
    #[serde(default)]
    pub engine: EngineKind,
    /// The share of cache lines that was followed when recording ended, above 0, at most 1
    /// (1: every line). Of several processes, the least.
    pub sampling_rate: f64,
    /// Do the curves count instruction fetches beside data accesses?
    #[serde(default = "yes")]
    pub instruction_fetches: bool,
    /// Processes that are known to have run and are not in the figures.
    #[serde(default)]
    pub untraced_processes: u64,
    /// Did the program run to its end?
    pub complete: bool,
    /// The program's exit status, where it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// How a recording followed cache lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// Every access of every line.
    Exact,
    /// A fixed share of the lines, chosen by the hash of their address.
    FixedRate,
    /// A falling share of the lines, so that at most a fixed number is followed.
    #[default]
    FixedSize,
}

/// What is no kind of engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no engine; expected exact, fixed-rate or fixed-size")]
pub struct BadEngineKind(String);

impl std::str::FromStr for EngineKind {
    type Err = BadEngineKind;

    fn from_str(text: &str) -> Result<Self, BadEngineKind> {
        let kinds = [Self::Exact, Self::FixedRate, Self::FixedSize];
        let found = kinds.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| BadEngineKind(text.to_owned()))
    }
}

impl EngineKind {
    /// Its name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::FixedRate => "fixed-rate",
            Self::FixedSize => "fixed-size",
        }
    }
}

impl Default for ProcessRecord {
    /// One that did nothing.
    fn default() -> Self {
        Self { command: Vec::new(), count: 1, instructions: 0, complete: false }
    }
}

fn one() -> u64 {
    1
}

fn is_one(count: &u64) -> bool {
    *count == 1
}

fn yes() -> bool {
    true
}

impl Default for Origin {
    /// A complete, exact recording of nothing.
    fn default() -> Self {
        Self {
            command: Vec::new(),
            program: String::new(),
            input: String::new(),
            date: String::new(),
            tracer: String::new(),
            engine: EngineKind::default(),
            sampling_rate: 1.0,
            instruction_fetches: true,
            untraced_processes: 0,
            complete: true,
            exit_code: None,
        }
    }
}

impl Recording {
    /// A recording of one process and thread whose phases run once each, in order.
    pub fn new(origin: Origin, phases: Vec<Phase>) -> Self {
        let sequence = in_order(&phases);
        Self {
            origin,
            phases,
            sequence,
            threads: Vec::new(),
            processes: Vec::new(),
            stack_distances: Vec::new(),
            micro_traces: MicroTraces::default(),
        }
    }

    /// Do the phases run once each, in order?
    pub(crate) fn is_in_order(&self) -> bool {
        self.sequence == in_order(&self.phases)
    }

    /// Its length in instructions, all phases together.
    pub fn instructions(&self) -> u64 {
        self.phases.iter().fold(0, |sum, phase| sum.saturating_add(phase.instructions))
    }

    /// Misses per 1000 instructions over all phases, which count by their instructions; marked if
    /// any phase's is read outside its measured range.
    pub(crate) fn mpki(&self, bytes: f64) -> Reading {
        let mut misses = 0.0;
        let mut extrapolated = false;
        for phase in &self.phases {
            let one = phase.curve.mpki(bytes);
            misses += one.value * phase.instructions as f64;
            extrapolated |= one.extrapolated;
        }
        Reading { value: misses / self.instructions().max(1) as f64, extrapolated }
    }

    pub(crate) fn check(&self) -> Result<(), Fault> {
        Expected::NonzeroShare
            .check("sampling_rate", self.origin.sampling_rate)
            .map_err(|fault| fault.under(PathStep::Key("origin")))?;
        if self.phases.is_empty() {
            return Err(
                Fault::here("found none, expected at least one").under(PathStep::Key("phase"))
            );
        }
        let mut total: u64 = 0;
        for (index, phase) in self.phases.iter().enumerate() {
            let at_phase =
                |fault: Fault| fault.under(PathStep::Index(index)).under(PathStep::Key("phase"));
            phase.check().map_err(at_phase)?;
            let sum = total.checked_add(phase.instructions);
            total = sum.filter(|&sum| sum <= i64::MAX as u64).ok_or_else(|| {
                let why = "found more instructions in all phases than 63 bits count";
                at_phase(Fault::here(why).under(PathStep::Key("instructions")))
            })?;
        }
        self.check_sequence().map_err(|fault| fault.under(PathStep::Key("sequence")))?;
        for (index, thread) in self.threads.iter().enumerate() {
            thread.check().map_err(|fault| {
                fault.under(PathStep::Index(index)).under(PathStep::Key("thread"))
            })?;
        }
        for (index, one) in self.stack_distances.iter().enumerate() {
            one.check().map_err(|fault| {
                fault.under(PathStep::Index(index)).under(PathStep::Key("stack_distances"))
            })?;
        }
        Ok(())
    }

    fn check_sequence(&self) -> Result<(), Fault> {
        let mut lengths = vec![0u64; self.phases.len()];
        for (index, stretch) in self.sequence.iter().enumerate() {
            let at = |why: String| Err(Fault::here(why).under(PathStep::Index(index)));
            let Some(length) = lengths.get_mut(stretch.phase) else {
                let (found, count) = (stretch.phase, self.phases.len());
                return at(format!("found phase {found}, expected one of {count}, from 0"));
            };
            if stretch.instructions == 0 {
                return at("found 0 instructions, expected at least 1".to_owned());
            }
            *length = length.saturating_add(stretch.instructions);
        }
        let wrong =
            (0..lengths.len()).find(|&phase| lengths[phase] != self.phases[phase].instructions);
        let Some(phase) = wrong else { return Ok(()) };
        Err(Fault::here(format!(
            "found {} instructions of phase {phase}, expected its {}",
            lengths[phase], self.phases[phase].instructions
        )))
    }
}

fn in_order(phases: &[Phase]) -> Vec<Stretch> {
    let stretch = |(phase, one): (usize, &Phase)| Stretch { phase, instructions: one.instructions };
    phases.iter().enumerate().map(stretch).collect()
}

impl ThreadRecord {
    fn check(&self) -> Result<(), Fault> {
        check_count("instructions", self.instructions)?;
        Expected::PerThousand.check("data_accesses_pki", self.data_accesses_pki)
    }
}

impl StackDistanceProfile {
    /// Ways of the cache.
    pub fn ways(&self) -> usize {
        self.hits_pki.len()
    }

    fn check(&self) -> Result<(), Fault> {
        check_count("sets", self.sets)?;
        check_count("line_bytes", self.line_bytes)?;
        if self.hits_pki.is_empty() {
            let why = "found none, expected one figure a way";
            return Err(Fault::here(why).under(PathStep::Key("hits_pki")));
        }
        for (index, &hits) in self.hits_pki.iter().enumerate() {
            let at = |why| {
                Fault::here(why).under(PathStep::Index(index)).under(PathStep::Key("hits_pki"))
            };
            Expected::PerThousand.test(hits).map_err(at)?;
        }
        Expected::PerThousand.check("misses_pki", self.misses_pki)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Library, ProfileData};

    #[test]
    fn page_faults_bound_the_pages() {
        let library = Library::shipped().unwrap();
        let ProfileData::Recording(recording) = &library.get("kernel-chase").unwrap().data else {
            panic!("it is recorded")
        };
        // Over 64 MiB, beside what any program touches.
        let pages = recording.most_pages().unwrap();
        assert!((16_384.0..17_500.0).contains(&pages), "{pages}");
        let mut one = recording.clone();
        one.phases.truncate(1);
        one.phases[0].instructions = 1000;
        let core = one.phases[0].core.as_mut().unwrap();
        (core.page_faults_pki, core.file_faults_pki) = (3.0, 1.0);
        // Two faults of a page each, and one of up to 16.
        assert_eq!(one.most_pages(), Some(18.0));
        one.phases[0].core = None;
        assert_eq!(one.most_pages(), None);
    }
}
