//! Prometheus metrics of the daemon.

use std::sync::atomic::AtomicU64;

use corun_live::{Host, Tick};
use corun_policy::ThreadView;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProgramLabel {
    program: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabel {
    verdict: String,
}

type OfProgram = Family<ProgramLabel, Gauge<f64, AtomicU64>>;

/// What is counted.
pub(crate) struct Metrics {
    registry: Registry,
    rounds: Counter,
    decisions: Family<VerdictLabel, Counter>,
    left_alone: Counter,
    apply: Gauge,
    round_seconds: Gauge<f64, AtomicU64>,
    threads: OfProgram,
    cpu: OfProgram,
    instructions: OfProgram,
    mpki: OfProgram,
    memory: OfProgram,
    occupancy: OfProgram,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut own = Self {
            registry: Registry::with_prefix("corun"),
            rounds: Counter::default(),
            decisions: Family::default(),
            left_alone: Counter::default(),
            apply: Gauge::default(),
            round_seconds: Gauge::default(),
            threads: Family::default(),
            cpu: Family::default(),
            instructions: Family::default(),
            mpki: Family::default(),
            memory: Family::default(),
            occupancy: Family::default(),
        };
        own.register();
        own
    }

    fn register(&mut self) {
        let to = &mut self.registry;
        to.register("rounds", "Looks at the machine", self.rounds.clone());
        to.register("decisions", "Actions that a policy asked for", self.decisions.clone());
        to.register("left_alone_threads", "Threads that others moved", self.left_alone.clone());
        to.register("apply", "1 if plans are carried out, 0 if only logged", self.apply.clone());
        let round = self.round_seconds.clone();
        to.register_with_unit("round_duration", "Time of the last look", Unit::Seconds, round);
        to.register("threads", "Threads in care", self.threads.clone());
        let cpu = self.cpu.clone();
        to.register("cpu_usage", "CPUs kept busy since the last look", cpu);
        let help = "Instructions a second";
        to.register("instructions_per_second", help, self.instructions.clone());
        let help = "LLC misses per 1000 instructions";
        to.register("llc_misses_per_kilo_instructions", help, self.mpki.clone());
        let help = "Memory traffic in bytes a second";
        to.register("memory_bytes_per_second", help, self.memory.clone());
        let help = "Bytes of the LLC that hold its lines";
        to.register_with_unit("llc_occupancy", help, Unit::Bytes, self.occupancy.clone());
    }

    /// A tick that took so many seconds.
    pub(crate) fn tick(&self, host: &Host, tick: &Tick, seconds: f64) {
        self.rounds.inc();
        self.apply.set(i64::from(!host.is_dry_run()));
        self.round_seconds.set(seconds);
        self.left_alone.inc_by(tick.left_alone.len() as u64);
        for decision in &tick.decisions {
            // Labels have underscores.
            let verdict = decision.verdict.name().replace('-', "_");
            self.decisions.get_or_create(&VerdictLabel { verdict }).inc();
        }
        self.programs(host.views());
    }

    /// Sums by program; what is unknown of all its threads is absent.
    fn programs(&self, threads: &[ThreadView]) {
        let families = [
            &self.threads,
            &self.cpu,
            &self.instructions,
            &self.mpki,
            &self.memory,
            &self.occupancy,
        ];
        families.iter().for_each(|family| family.clear());
        let mut names: Vec<&str> = threads.iter().map(|one| one.program.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let label = ProgramLabel { program: name.to_owned() };
            let own = || threads.iter().filter(|one| one.program == name);
            let sum =
                |of: fn(&ThreadView) -> Option<f64>| own().filter_map(of).reduce(|a, b| a + b);
            let set = |family: &OfProgram, value: Option<f64>| {
                if let Some(value) = value {
                    family.get_or_create(&label).set(value);
                }
            };
            set(&self.threads, Some(own().count() as f64));
            set(&self.cpu, sum(|one| one.rates.cpu_share));
            let instructions = sum(|one| one.rates.instructions_per_s);
            let misses = sum(|one| one.rates.llc_misses.map(|rate| rate.per_s));
            let mpki = misses.zip(instructions).filter(|(_, all)| *all > 0.0);
            set(&self.instructions, instructions);
            set(&self.mpki, mpki.map(|(misses, all)| 1000.0 * misses / all));
            set(&self.memory, sum(|one| one.rates.memory_bytes_per_s));
            set(&self.occupancy, sum(|one| one.llc_occupancy_bytes));
        }
    }

    /// The text that Prometheus reads.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
