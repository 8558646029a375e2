//! The reports of all processes as one recording.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use corun_profile::{
    MicroTrace, MicroTraces, Origin, ProcessRecord, Recording, StackDistanceProfile, Stretch,
};

use super::thinning::thin;
use crate::phases::merge_similar;
use crate::report::{REPORT_VERSION, Report, RunState};

/// Processes that a profile lists one by one, at most.
const MOST_PROCESSES: usize = 64;

/// Phases that are kept before those alike are merged.
const MOST_PHASES: usize = 256;

/// Micro-traces of a profile at most.
const MOST_TRACES: usize = 192;

/// Micro-traces that are kept before alike ones become one.
const MOST_GATHERED_TRACES: usize = 1024;

/// What the reports say.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// All processes' phases; no more of its origin is filled in than the sampling rate. `None`
    /// when nothing ran.
    pub(super) recording: Option<Recording>,
    /// How the process that was started came to its end, if it left a report.
    pub(super) main: Option<RunState>,
    /// Did that process end within the instructions that are passed over?
    pub(super) main_is_passed_over: bool,
    /// QEMU's name of that process's instruction set.
    pub(super) target: String,
    /// Programs that left a report.
    pub(super) programs: u64,
    /// Processes that were started by others and were killed or crashed.
    pub(super) crashed: u64,
    /// Threads that could not be followed.
    pub(super) lost_threads: u64,
    processes: Vec<ProcessRecord>,
    /// All micro-traces, to which the phases refer by their places.
    traces: Vec<MicroTrace>,
    /// The process that the next report may belong to.
    current: Option<(u64, u32)>,
    last_state: Option<RunState>,
}

/// Reads a folder of reports; `main` is the number of the process that was started. `pack_quickly`: as in
/// [`super::Request`].
pub(super) fn gather(folder: &Path, main: u32, pack_quickly: bool) -> io::Result<Gathered> {
    let mut gathered = Gathered::default();
    for path in Report::list(folder)? {
        let report = Report::read(&path)?;
        if report.version != REPORT_VERSION {
            let why = "the plug-in is of another version of corun";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        gathered.add(&report, main)?;
    }
    gathered.end_process();
    if let Some(recording) = &mut gathered.recording
        && gathered.programs > 1
    {
        merge_similar(recording);
    }
    if let Some(recording) = &mut gathered.recording {
        thin(recording, &mut gathered.traces, MOST_TRACES);
        recording.micro_traces = if gathered.traces.is_empty() {
            MicroTraces::default()
        } else if pack_quickly {
            MicroTraces::pack_quickly(&gathered.traces)
        } else {
            MicroTraces::pack(&gathered.traces)
        };
    }
    if let Some(recording) = &mut gathered.recording
        && gathered.processes.len() > 1
    {
        let places = grouped(&mut gathered.processes);
        for thread in &mut recording.threads {
            thread.process = places[thread.process as usize];
        }
        recording.processes = std::mem::take(&mut gathered.processes);
    }
    Ok(gathered)
}

impl Gathered {
    /// The reports come by process, and a process's programs in their order.
    fn add(&mut self, report: &Report, main: u32) -> io::Result<()> {
        let key = (report.process_started_ns, report.process);
        if self.current != Some(key) {
            self.end_process();
            self.current = Some(key);
            self.processes.push(ProcessRecord { complete: true, ..ProcessRecord::default() });
        }
        self.programs += 1;
        self.lost_threads += report.lost_threads;
        self.last_state = Some(report.state);
        if report.process == main {
            self.main = Some(report.state);
            self.main_is_passed_over = self.programs == 1 && report.is_empty();
            self.target.clone_from(&report.target);
        }
        let process = self.processes.len() - 1;
        let record = &mut self.processes[process];
        record.command.clone_from(&report.command);
        let Some(mut part) = report.recording()? else { return Ok(()) };
        record.instructions += part.instructions();
        let traces = part.micro_traces.unpack().map_err(io::Error::other)?;
        let first = self.traces.len() as u32;
        for core in part.phases.iter_mut().filter_map(|phase| phase.core.as_mut()) {
            core.micro_traces.iter_mut().for_each(|(at, _)| *at += first);
        }
        self.traces.extend(traces);
        append(&mut self.recording, part, process as u32);
        if let Some(recording) = &mut self.recording
            && self.traces.len() > MOST_GATHERED_TRACES
        {
            thin(recording, &mut self.traces, MOST_GATHERED_TRACES / 2);
        }
        Ok(())
    }

    fn end_process(&mut self) {
        if let (Some(state), Some(process)) = (self.last_state.take(), self.processes.last_mut()) {
            process.complete = state == RunState::Ended;
            let lost = matches!(state, RunState::Running | RunState::Replaced);
            self.crashed += u64::from(lost && self.processes.len() > 1);
        }
    }
}

/// Puts a program's recording behind those before.
fn append(all: &mut Option<Recording>, part: Recording, process: u32) {
    let all = all.get_or_insert_with(|| Recording::new(Origin::default(), Vec::new()));
    all.origin.sampling_rate = all.origin.sampling_rate.min(part.origin.sampling_rate);
    let before = all.instructions();
    merge_distances(
        (&mut all.stack_distances, before),
        (&part.stack_distances, part.instructions()),
    );
    let offset = all.phases.len();
    all.phases.extend(part.phases);
    all.sequence
        .extend(part.sequence.iter().map(|one| Stretch { phase: one.phase + offset, ..*one }));
    all.threads.extend(part.threads.into_iter().map(|mut thread| {
        thread.process = process;
        thread
    }));
    if all.phases.len() > MOST_PHASES {
        merge_similar(all);
    }
}

/// Rates of both together, by their instructions. All programs have the same caches.
fn merge_distances(
    (all, before): (&mut Vec<StackDistanceProfile>, u64),
    (part, more): (&[StackDistanceProfile], u64),
) {
    if all.is_empty() && before == 0 {
        *all = part.to_vec();
        return;
    }
    let share = more as f64 / (before + more).max(1) as f64;
    let mix = |one: &mut f64, other: f64| *one += (other - *one) * share;
    for (one, other) in all.iter_mut().zip(part) {
        one.hits_pki.iter_mut().zip(&other.hits_pki).for_each(|(one, &other)| mix(one, other));
        mix(&mut one.misses_pki, other.misses_pki);
    }
}

/// Shortens a long list of processes: equal commands become one entry, and if that is not enough,
/// commands of the same program, and if that is not, all behind the first. Returns where each
/// process went.
fn grouped(processes: &mut Vec<ProcessRecord>) -> Vec<u32> {
    let mut places: Vec<u32> = (0..processes.len() as u32).collect();
    type Shorter = fn(usize, &[String]) -> Vec<String>;
    let shorter: [Shorter; 3] = [
        |_, command| command.to_vec(),
        |_, command| command[..command.len().min(1)].to_vec(),
        |at, command| {
            if at < MOST_PROCESSES - 1 { command.to_vec() } else { vec!["(others)".to_owned()] }
        },
    ];
    for shorter in shorter {
        if processes.len() <= MOST_PROCESSES {
            break;
        }
        let mut groups: BTreeMap<Vec<String>, u32> = BTreeMap::new();
        let mut kept: Vec<ProcessRecord> = Vec::new();
        let mut moved = Vec::new();
        for (at, mut process) in std::mem::take(processes).into_iter().enumerate() {
            process.command = shorter(at, &process.command);
            let place = *groups.entry(process.command.clone()).or_insert(kept.len() as u32);
            moved.push(place);
            match kept.get_mut(place as usize) {
                None => kept.push(process),
                Some(group) => {
                    group.count += process.count;
                    group.instructions += process.instructions;
                    group.complete &= process.complete;
                }
            }
        }
        *processes = kept;
        places.iter_mut().for_each(|place| *place = moved[*place as usize]);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes(commands: impl Iterator<Item = [String; 2]>) -> Vec<ProcessRecord> {
        let one = |command: [String; 2]| ProcessRecord {
            command: command.to_vec(),
            instructions: 10,
            complete: true,
            ..ProcessRecord::default()
        };
        commands.map(one).collect()
    }

    #[test]
    fn a_short_list_stays() {
        let mut list = processes((0..64).map(|_| ["a".into(), "b".into()]));
        assert_eq!(grouped(&mut list), (0..64).collect::<Vec<_>>());
        assert_eq!(list.len(), 64);
    }

    #[test]
    fn equal_commands_become_one() {
        let mut list = processes((0..200).map(|at| ["a".into(), (at % 2).to_string()]));
        list[7].complete = false;
        let places = grouped(&mut list);
        assert_eq!(places[..4], [0, 1, 0, 1]);
        assert_eq!(list.len(), 2);
        assert_eq!((list[0].count, list[0].instructions, list[0].complete), (100, 1000, true));
        assert_eq!((list[1].count, list[1].complete), (100, false));
    }

    #[test]
    fn then_equal_programs_and_then_the_rest() {
        let mut list = processes((0..200).map(|at| [(at % 3).to_string(), at.to_string()]));
        grouped(&mut list);
        assert_eq!(list.len(), 3);
        assert_eq!(list[0].command, ["0"]);
        let mut list = processes((0..200).map(|at| [at.to_string(), "x".into()]));
        let places = grouped(&mut list);
        assert_eq!((list.len(), list[63].count, places[199]), (64, 137, 63));
        assert_eq!(list.iter().map(|one| one.count).sum::<u64>(), 200);
    }

    #[test]
    fn distances_mix_by_instructions() {
        let profile = |hits, misses| StackDistanceProfile {
            sets: 1,
            line_bytes: 64,
            private_caches: Vec::new(),
            hits_pki: vec![hits],
            misses_pki: misses,
        };
        let mut all = Vec::new();
        merge_distances((&mut all, 0), (&[profile(1.0, 4.0)], 300));
        merge_distances((&mut all, 300), (&[profile(5.0, 0.0)], 100));
        assert_eq!(all, [profile(2.0, 3.0)]);
    }
}
