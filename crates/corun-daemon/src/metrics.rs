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

use crate::no_plan::NoPlan;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProgramLabel {
    program: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabel {
    verdict: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

type OfProgram = Family<ProgramLabel, Gauge<f64, AtomicU64>>;

/// What is counted.
#[derive(Default)]
pub(crate) struct Metrics {
    registry: Registry,
    rounds: Counter,
    decisions: Family<VerdictLabel, Counter>,
    left_alone: Counter,
    apply: Gauge,
    no_plan: Family<ReasonLabel, Gauge>,
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
        let mut own = Self { registry: Registry::with_prefix("corun"), ..Self::default() };
        own.register();
        own
    }

    fn register(&mut self) {
        let to = &mut self.registry;
        to.register("rounds", "Looks at the machine", self.rounds.clone());
        to.register("decisions", "Actions that a policy asked for", self.decisions.clone());
        to.register("left_alone_threads", "Threads that others moved", self.left_alone.clone());
        to.register("apply", "1 if plans are carried out, 0 if only logged", self.apply.clone());
        let help =
            "1 with the reason where the policy plans nothing that helps; absent where it does";
        to.register("no_plan", help, self.no_plan.clone());
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

    /// A tick that took so many seconds. `applies`: the policy's plans are carried out.
    pub(crate) fn tick(&self, host: &Host, tick: &Tick, applies: bool, seconds: f64) {
        self.rounds.inc();
        self.apply.set(i64::from(applies));
        self.round_seconds.set(seconds);
        self.left_alone.inc_by(tick.left_alone.len() as u64);
        for decision in &tick.decisions {
            // Labels have underscores.
            let verdict = decision.verdict.name().replace('-', "_");
            self.decisions.get_or_create(&VerdictLabel { verdict }).inc();
        }
        // Where the policy asks for no rates, /proc says how long a thread ran.
        self.programs(host.threads().map(|one| {
            let share = one.view.rates.cpu_share.or_else(|| one.thread.cpu_share());
            (one.view, share)
        }));
    }

    /// Why nothing is planned, as it is now.
    pub(crate) fn no_plan(&self, reason: Option<NoPlan>) {
        self.no_plan.clear();
        if let Some(reason) = reason {
            self.no_plan.get_or_create(&ReasonLabel { reason: reason.label() }).set(1);
        }
    }

    /// Sums by program; what is unknown of all its threads is absent.
    fn programs<'a>(&self, threads: impl Iterator<Item = (&'a ThreadView, Option<f64>)>) {
        let families = [
            &self.threads,
            &self.cpu,
            &self.instructions,
            &self.mpki,
            &self.memory,
            &self.occupancy,
        ];
        families.iter().for_each(|family| family.clear());
        for (name, sums) in sums_by_program(threads) {
            let label = ProgramLabel { program: name.to_owned() };
            let set = |family: &OfProgram, value: Option<f64>| {
                if let Some(value) = value {
                    family.get_or_create(&label).set(value);
                }
            };
            set(&self.threads, Some(sums.threads as f64));
            set(&self.cpu, sums.cpu_share);
            set(&self.instructions, sums.instructions_per_s);
            let mpki = sums.misses_per_s.zip(sums.instructions_per_s);
            let mpki = mpki.filter(|(_, all)| *all > 0.0);
            set(&self.mpki, mpki.map(|(misses, all)| 1000.0 * misses / all));
            set(&self.memory, sums.memory_bytes_per_s);
            set(&self.occupancy, sums.occupancy_bytes);
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

/// Sums over the threads of a program. What is unknown of all of them is absent.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Sums {
    threads: usize,
    cpu_share: Option<f64>,
    instructions_per_s: Option<f64>,
    misses_per_s: Option<f64>,
    memory_bytes_per_s: Option<f64>,
    occupancy_bytes: Option<f64>,
}

impl Sums {
    fn add(&mut self, thread: &ThreadView, cpu_share: Option<f64>) {
        fn add(sum: &mut Option<f64>, more: Option<f64>) {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0.0) + more);
            }
        }
        let rates = &thread.rates;
        self.threads += 1;
        add(&mut self.cpu_share, cpu_share);
        add(&mut self.instructions_per_s, rates.instructions_per_s);
        add(&mut self.misses_per_s, rates.llc_misses.map(|rate| rate.per_s));
        add(&mut self.memory_bytes_per_s, rates.memory_bytes_per_s);
        add(&mut self.occupancy_bytes, thread.llc_occupancy_bytes);
    }
}

/// In one walk over the threads, each with its share of a CPU: they are in no cache of the processor's a second after the last.
fn sums_by_program<'a>(
    threads: impl Iterator<Item = (&'a ThreadView, Option<f64>)>,
) -> Vec<(&'a str, Sums)> {
    let mut programs: Vec<(&str, Sums)> = Vec::new();
    // Threads of one process are one program's.
    let mut last = None;
    for (thread, cpu_share) in threads {
        let place = match last {
            Some((process, place)) if process == thread.process => place,
            _ => {
                let name = thread.program.as_str();
                let known = programs.iter().position(|(known, _)| *known == name);
                known.unwrap_or_else(|| {
                    programs.push((name, Sums::default()));
                    programs.len() - 1
                })
            }
        };
        last = Some((thread.process, place));
        programs[place].1.add(thread, cpu_share);
    }
    programs
}

#[cfg(test)]
mod tests {
    use corun_machine::CpuSet;
    use corun_policy::{ProcessId, ThreadId};

    use super::*;

    #[test]
    fn the_reason_why_nothing_is_planned_is_one_of_the_metrics_while_it_holds() {
        let metrics = Metrics::new();
        let line = "corun_no_plan{reason=\"one_cache\"} 1\n";
        metrics.no_plan(Some(NoPlan::OneCache));
        assert!(metrics.text().contains(line), "{}", metrics.text());
        metrics.no_plan(None);
        assert!(!metrics.text().contains("corun_no_plan{"), "{}", metrics.text());
    }

    #[test]
    fn a_program_s_threads_are_summed_whatever_their_order() {
        let cpus: CpuSet = "0".parse().unwrap();
        let thread = |id, process, name: &str, share: Option<f64>| {
            (ThreadView::new(ThreadId(id), ProcessId(process), name, &cpus), share)
        };
        let threads = [
            thread(1, 7, "a", Some(0.5)),
            thread(2, 7, "a", None),
            thread(3, 8, "b", None),
            thread(4, 9, "a", Some(0.25)),
            thread(5, 7, "a", Some(0.25)),
        ];
        let of = |threads, cpu_share| Sums { threads, cpu_share, ..Sums::default() };
        let each = threads.iter().map(|(thread, share)| (thread, *share));
        assert_eq!(sums_by_program(each), [("a", of(4, Some(1.0))), ("b", of(1, None))]);
        assert_eq!(sums_by_program(std::iter::empty()), []);
    }
}
