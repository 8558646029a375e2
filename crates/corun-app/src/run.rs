//! A run as a document.

use corun_machine::Machine;
use corun_policy::{Nanoseconds, ThreadId};
use corun_sim::RunResult;
use serde::Serialize;

/// All that a run says. CPUs are the machine's own numbers, times are simulated seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunDocument {
    /// Length of the run.
    pub simulated_s: f64,
    /// Energy above idle in J; none where the machine's power is not known.
    pub energy_above_idle_j: Option<f64>,
    /// The programs.
    pub apps: Vec<AppEntry>,
    /// Every thread that lived.
    pub threads: Vec<ThreadEntry>,
    /// Where threads were put, by time; a thread stays until its next entry or its end.
    pub placements: Vec<PlacementEntry>,
    /// Placements that were too many to keep.
    pub placements_dropped: u64,
    /// What policies changed, by time.
    pub log: Vec<StepEntry>,
}

/// A program's outcome; the fields are those of [`corun_sim::AppResult`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AppEntry {
    /// The name shown.
    pub app: String,
    /// Completion time / solo completion time.
    pub slowdown: Option<f64>,
    /// Geometric mean of the complete runs' times, s.
    pub mean_completion_s: Option<f64>,
    /// Completion time alone, s.
    pub solo_completion_s: f64,
    /// Complete runs' worth of progress.
    pub progress_runs: f64,
    /// Moves to another CPU.
    pub migrations: u64,
    /// Of these, to another LLC.
    pub llc_migrations: u64,
    /// CPU time / (threads x time there).
    pub cpu_share: f64,
    /// CPU time, s.
    pub cpu_s: f64,
    /// Instructions retired.
    pub instructions: f64,
    /// LLC references per 1000 instructions.
    pub llc_apki: Option<f64>,
    /// LLC misses per 1000 instructions.
    pub llc_mpki: Option<f64>,
    /// Was a figure read outside the measured range?
    pub extrapolated: bool,
}

/// A thread that lived.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThreadEntry {
    /// Its number.
    pub thread: u64,
    /// Its program.
    pub app: String,
    /// Which thread of its program, from 0.
    pub index: u32,
    /// Which run of its program, from 0.
    pub run: u32,
    /// When it started.
    pub start_s: f64,
    /// When it ended; none when the run ended first.
    pub end_s: Option<f64>,
}

/// A thread came onto another CPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlacementEntry {
    /// When.
    pub at_s: f64,
    /// The thread's number.
    pub thread: u64,
    /// Its program.
    pub app: String,
    /// The CPU's number.
    pub cpu: u32,
    /// Its LLC's index.
    pub llc: usize,
}

/// A step of a policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepEntry {
    /// When.
    pub at_s: f64,
    /// Who.
    pub policy: String,
    /// The kind of action, in kebab-case.
    pub kind: &'static str,
    /// What it did, in words.
    pub action: String,
    /// Why, in the policy's words.
    pub reason: String,
}

/// A run of programs on a machine.
pub fn run_document(machine: &Machine, result: &RunResult) -> RunDocument {
    let app_of = |thread: ThreadId| {
        let found = result.threads.binary_search_by_key(&thread, |record| record.id);
        found.map_or(String::new(), |place| result.apps[result.threads[place].app].name.clone())
    };
    RunDocument {
        simulated_s: result.simulated_s,
        energy_above_idle_j: result.energy.map(|energy| energy.above_idle_j()),
        apps: result.apps.iter().map(app).collect(),
        threads: result
            .threads
            .iter()
            .map(|record| ThreadEntry {
                thread: record.id.0,
                app: result.apps[record.app].name.clone(),
                index: record.index,
                run: record.run,
                start_s: record.start.as_secs_f64(),
                end_s: record.end.map(Nanoseconds::as_secs_f64),
            })
            .collect(),
        placements: result
            .placements
            .iter()
            .map(|one| PlacementEntry {
                at_s: one.at.as_secs_f64(),
                thread: one.thread.0,
                app: app_of(one.thread),
                cpu: machine.cpus()[one.cpu].id.0,
                llc: machine.cpus()[one.cpu].llc,
            })
            .collect(),
        placements_dropped: result.placements_dropped,
        log: result
            .log
            .iter()
            .map(|entry| StepEntry {
                at_s: entry.at.as_secs_f64(),
                policy: entry.policy.clone(),
                kind: entry.action.kind().name(),
                action: entry.action.in_words(&app_of),
                reason: entry.reason.clone(),
            })
            .collect(),
    }
}

fn app(one: &corun_sim::AppResult) -> AppEntry {
    AppEntry {
        app: one.name.clone(),
        slowdown: one.slowdown,
        mean_completion_s: one.mean_completion_s,
        solo_completion_s: one.solo_completion_s,
        progress_runs: one.progress_runs,
        migrations: one.migrations,
        llc_migrations: one.llc_migrations,
        cpu_share: one.cpu_share,
        cpu_s: one.cpu_s,
        instructions: one.instructions,
        llc_apki: one.llc_apki,
        llc_mpki: one.llc_mpki,
        extrapolated: one.extrapolated,
    }
}
