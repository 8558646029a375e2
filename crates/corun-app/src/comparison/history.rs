//! What happened in one run: where programs were when, and why they moved.

use std::collections::BTreeMap;

use corun_machine::Machine;
use corun_policy::{Action, ThreadId};
use corun_sim::{Placement, RunResult};

use super::timeline::{Migration, Timeline};

/// A program's stretch on a CPU: from, to (seconds) and CPU index.
type Stretch = (f64, f64, usize);

/// One run's history; programs of several threads are followed by their first thread.
pub(super) struct History<'a> {
    machine: &'a Machine,
    result: &'a RunResult,
    /// By program.
    stretches: Vec<Vec<Stretch>>,
}

impl<'a> History<'a> {
    pub(super) fn new(machine: &'a Machine, result: &'a RunResult) -> Self {
        let mut by_thread: BTreeMap<ThreadId, Vec<&Placement>> = BTreeMap::new();
        for one in &result.placements {
            by_thread.entry(one.thread).or_default().push(one);
        }
        let mut stretches: Vec<Vec<Stretch>> = vec![Vec::new(); result.apps.len()];
        for record in result.threads.iter().filter(|record| record.index == 0) {
            let end = record.end.map_or(result.simulated_s, |end| end.as_secs_f64());
            let own = by_thread.get(&record.id).map_or(&[][..], Vec::as_slice);
            for (place, one) in own.iter().enumerate() {
                let to = own.get(place + 1).map_or(end, |next| next.at.as_secs_f64());
                stretches[record.app].push((one.at.as_secs_f64(), to, one.cpu));
            }
        }
        for own in &mut stretches {
            own.sort_by(|one, other| one.0.total_cmp(&other.0));
        }
        Self { machine, result, stretches }
    }

    /// The CPU index on which each program was longest; of equals the lowest. Programs that
    /// never ran stand on CPU index 0.
    pub(super) fn longest_cpus(&self) -> Vec<usize> {
        let longest = |own: &Vec<Stretch>| {
            let mut seconds = vec![0.0; self.machine.cpus().len()];
            for &(from, to, cpu) in own {
                seconds[cpu] += to - from;
            }
            let most = seconds.iter().copied().fold(0.0, f64::max);
            seconds.iter().position(|&one| one >= most).unwrap_or(0)
        };
        self.stretches.iter().map(longest).collect()
    }

    /// The time line for the report.
    pub(super) fn timeline(&self) -> Timeline {
        let lane = |own: &Vec<Stretch>| {
            let mut lane: Vec<(f64, usize)> = Vec::new();
            for &(from, _, cpu) in own {
                let llc = self.machine.cpus()[cpu].llc;
                if lane.last().is_none_or(|&(_, last)| last != llc) {
                    lane.push((from, llc));
                }
            }
            lane
        };
        Timeline {
            seconds: self.result.simulated_s,
            lanes: self.stretches.iter().map(lane).collect(),
            moves: self.moves(),
        }
    }

    /// Every change of CPU of a thread within its life, with the words of the policy that asked
    /// for it.
    fn moves(&self) -> Vec<Migration> {
        let apps: BTreeMap<ThreadId, usize> =
            self.result.threads.iter().map(|record| (record.id, record.app)).collect();
        let mut reasons = Reasons::new(self.result);
        let mut on: BTreeMap<ThreadId, usize> = BTreeMap::new();
        let mut moves = Vec::new();
        for one in &self.result.placements {
            let before = on.insert(one.thread, one.cpu);
            let (Some(from), Some(&program)) = (before, apps.get(&one.thread)) else { continue };
            moves.push(Migration {
                at_s: one.at.as_secs_f64(),
                program,
                from_cpu: self.machine.cpus()[from].id.0,
                to_cpu: self.machine.cpus()[one.cpu].id.0,
                reason: reasons.of(one.thread, one.at.0),
            });
        }
        moves
    }
}

/// The steps of policies by the thread that they name.
struct Reasons<'a> {
    by_thread: BTreeMap<ThreadId, Vec<(u64, &'a str)>>,
    /// How many steps of a thread have explained a move.
    used: BTreeMap<ThreadId, usize>,
}

impl<'a> Reasons<'a> {
    fn new(result: &'a RunResult) -> Self {
        let mut by_thread: BTreeMap<ThreadId, Vec<(u64, &str)>> = BTreeMap::new();
        for entry in &result.log {
            let mut note = |thread: ThreadId| {
                by_thread.entry(thread).or_default().push((entry.at.0, entry.reason.as_str()));
            };
            match &entry.action {
                Action::Allow { thread, .. } => note(*thread),
                Action::Swap { first, second } => {
                    note(*first);
                    note(*second);
                }
                _ => {}
            }
        }
        Self { by_thread, used: BTreeMap::new() }
    }

    /// The last step for a thread up to a moment that no earlier move was explained by; a move
    /// without one was the scheduler's.
    fn of(&mut self, thread: ThreadId, at_ns: u64) -> String {
        let steps = self.by_thread.get(&thread).map_or(&[][..], Vec::as_slice);
        let so_far = steps.partition_point(|&(step_ns, _)| step_ns <= at_ns);
        let used = self.used.entry(thread).or_insert(0);
        if so_far <= *used {
            return "balanced by the scheduler".to_owned();
        }
        *used = so_far;
        steps[so_far - 1].1.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use corun_machine::{CpuId, CpuSet, preset};
    use corun_policy::{Nanoseconds, ProcessId};
    use corun_sim::{LogEntry, Placement, ThreadLife};

    use super::*;

    fn seconds(at: u64) -> Nanoseconds {
        Nanoseconds(at * 1_000_000_000)
    }

    fn thread(id: u64, run: u32, start: u64, end: Option<u64>) -> ThreadLife {
        ThreadLife {
            id: ThreadId(id),
            process: ProcessId(id),
            app: 0,
            index: 0,
            run,
            start: seconds(start),
            end: end.map(seconds),
        }
    }

    /// One program: a first run on CPU 0, moved to CPU 2 at 1 s by a policy and to CPU 3 at 4 s by
    /// the scheduler, ended at 5 s; a second run on CPU 0 to the end at 7 s.
    fn result() -> RunResult {
        let on = |at, thread, cpu| Placement { at: seconds(at), thread: ThreadId(thread), cpu };
        let held: CpuSet = std::iter::once(CpuId(2)).collect();
        RunResult {
            apps: vec![corun_sim::AppResult {
                name: "a".to_owned(),
                completion_s: vec![5.0],
                mean_completion_s: Some(5.0),
                solo_completion_s: 4.0,
                slowdown: Some(1.25),
                progress_runs: 1.4,
                migrations: 2,
                llc_migrations: 1,
                cpu_share: 1.0,
                cpu_s: 7.0,
                spin_s: 0.0,
                instructions: 1e9,
                llc_apki: None,
                llc_mpki: None,
                extrapolated: false,
                service: None,
            }],
            threads: vec![thread(0, 0, 0, Some(5)), thread(1, 1, 5, None)],
            placements: vec![on(0, 0, 0), on(1, 0, 2), on(4, 0, 3), on(5, 1, 0)],
            placements_dropped: 0,
            wake_ups: vec![],
            wake_ups_dropped: 0,
            log: vec![LogEntry {
                at: seconds(1),
                policy: "di".to_owned(),
                action: Action::Allow { thread: ThreadId(0), cpus: held },
                reason: "a: 5.0 MPKI, moved".to_owned(),
            }],
            energy: None,
            simulated_s: 7.0,
            events: 4,
            rate_evaluations: 4,
        }
    }

    #[test]
    fn moves_carry_the_policy_s_words_or_the_scheduler_s() {
        let machine = preset("xeon-x5365").unwrap();
        let result = result();
        let line = History::new(&machine, &result).timeline();
        // CPUs 2 and 3 share an LLC; the new run is no move.
        assert_eq!(line.lanes, [vec![(0.0, 0), (1.0, 1), (5.0, 0)]]);
        let moves: Vec<(f64, u32, u32, &str)> = line
            .moves
            .iter()
            .map(|one| (one.at_s, one.from_cpu, one.to_cpu, one.reason.as_str()))
            .collect();
        assert_eq!(
            moves,
            [(1.0, 0, 2, "a: 5.0 MPKI, moved"), (4.0, 2, 3, "balanced by the scheduler")]
        );
    }

    #[test]
    fn a_program_stands_where_it_was_longest() {
        let machine = preset("xeon-x5365").unwrap();
        let result = result();
        // CPU 0 for 1 + 2 s, CPU 2 for 3 s, CPU 3 for 1 s: of equals the lowest.
        assert_eq!(History::new(&machine, &result).longest_cpus(), [0]);
    }
}
