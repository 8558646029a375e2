//! From sample to sample, until what is watched ends.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use corun_linux::perf::{Increase, OverflowSampling, Sampling, counter_advice};
use corun_linux::sysfs::{online_cpus, online_file};
use corun_linux::{Roots, Task, raise_descriptor_limit};
use corun_live::{
    Launch, LiveError, ProcessSelector, Processes, Rule, ScannedThread, Scanner as _, Target,
};
use corun_machine::CpuSet;

use super::of_scheduler::OfScheduler;
use super::rows::{Row, Rows, Whose};
use super::{StatArgs, note};
use crate::failure::{Failure, Outcome};
use corun_app::Cancel;

/// New threads are looked for so often between two samples, but not more than every 10 ms, and at
/// least every 100 ms.
const LOOKS: f64 = 10.0;
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Of a program's name the kernel keeps so many bytes.
const KERNEL_NAME_BYTES: usize = 15;

/// `pids`: the processes to count where no program is started.
pub(super) fn run<W: Write>(
    arguments: &StatArgs,
    pids: &[u32],
    roots: Roots,
    sampling: Sampling,
    (of_scheduler, by_count): (OfScheduler, Option<OverflowSampling>),
    rows: Rows<W>,
) -> Outcome<String> {
    let cancel = Cancel::on_signal()?;
    let files = raise_descriptor_limit();
    let launch = match arguments.command.split_first() {
        None => None,
        Some((program, rest)) => {
            let mut command = Command::new(program);
            command.args(rest);
            Some(Launch::prepare(command, files).context("cannot start a process")?)
        }
    };
    let targets = match &launch {
        _ if arguments.all_cpus => Vec::new(),
        Some(launch) => {
            let task = launch.task(&roots).context("cannot read /proc")?;
            vec![target("program", ProcessSelector::Descendants(task))]
        }
        None if arguments.pid.is_empty() => still_here(&roots, pids),
        None => pids.iter().map(|&pid| by_pid(&roots, pid)).collect::<Outcome<_>>()?,
    };
    let processes = Processes::new(&roots, targets).map_err(live)?;
    let start = Instant::now();
    let mut watch = Watch {
        roots,
        processes,
        sampling,
        of_scheduler,
        by_count,
        rows,
        names: BTreeMap::new(),
        now: Vec::new(),
        totals: None,
        start,
        last: start,
        told: false,
    };
    watch.open(arguments, launch.as_ref())?;
    if let Some(by_count) = &mut watch.by_count {
        by_count.times_from_now();
        watch.start = Instant::now();
    }
    let mut child = launch.map(|launch| start_program(arguments, launch)).transpose()?;
    if child.is_some() {
        watch.name_started(Path::new(&arguments.command[0]));
    }
    let status = watch.until_over(arguments, &cancel, child.as_mut())?;
    match status {
        Some(status) if cancel.is_set() && status.code().is_none() => Err(Failure::Interrupted),
        Some(status) => match exit_code(status) {
            0 => Ok(String::new()),
            code => Err(Failure::Program(code)),
        },
        None => Ok(String::new()),
    }
}

fn target(name: &str, processes: ProcessSelector) -> Target {
    Target::new(name, processes)
}

/// Processes that nobody named: who was found busy may have ended since.
fn still_here(roots: &Roots, pids: &[u32]) -> Vec<Target> {
    pids.iter().filter_map(|&pid| by_pid(roots, pid).ok()).collect()
}

fn by_pid(roots: &Roots, pid: u32) -> Outcome<Target> {
    corun_linux::facts(roots, pid, pid).map_err(|_| {
        Failure::input(format!("no process has the number {pid}")).hint("pgrep -a NAME")
    })?;
    Ok(target("process", ProcessSelector::Rule(Rule { pid: Some(pid), ..Rule::default() })))
}

fn start_program(arguments: &StatArgs, launch: Launch) -> Outcome<Child> {
    launch.start().map_err(|error| {
        let program = arguments.command[0].to_string_lossy();
        let failure = Failure::input(format!("cannot run `{program}`: {error}"));
        match error.kind() {
            std::io::ErrorKind::NotFound if !program.contains('/') => {
                failure.hint(format!("./{program}, if it is in this folder"))
            }
            std::io::ErrorKind::PermissionDenied => failure.hint(format!("chmod +x {program}")),
            _ => failure,
        }
    })
}

/// As shells have it: a program that a signal ended counts as 128 and its number.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn live(error: LiveError) -> Failure {
    Failure::Failed(error.into())
}

pub(super) struct Watch<W> {
    roots: Roots,
    processes: Processes,
    /// Of threads unless they are sampled by count; of a started program as a whole in any case.
    sampling: Sampling,
    of_scheduler: OfScheduler,
    pub(super) by_count: Option<OverflowSampling>,
    pub(super) rows: Rows<W>,
    /// What is known of each thread that has counters.
    pub(super) names: BTreeMap<Task, (String, u32)>,
    /// Those that are there, ascending.
    pub(super) now: Vec<Task>,
    /// Of the family since the start.
    totals: Option<Increase>,
    start: Instant,
    last: Instant,
    told: bool,
}

impl<W: Write> Watch<W> {
    fn open(&mut self, arguments: &StatArgs, launch: Option<&Launch>) -> Outcome {
        let opened = if arguments.all_cpus {
            self.sampling.count_cpus(online(&self.roots)?.iter())
        } else {
            match launch {
                None => Ok(()),
                Some(launch) => {
                    let task = launch.task(&self.roots).context("cannot read /proc")?;
                    self.sampling.count_family(task.tid)
                }
            }
        };
        opened.map_err(|error| self.refused(&error))?;
        if let Some(error) = self.look()?
            && self.names.is_empty()
        {
            return Err(self.refused(&error));
        }
        Ok(())
    }

    fn refused(&self, error: &std::io::Error) -> Failure {
        let failure = Failure::input(format!("cannot count here: {error}"));
        counter_advice(&self.roots, error).into_iter().fold(failure, Failure::hint)
    }

    /// Gives the process that begins now the name that the kernel will give it: it may end before the next look, and was called
    /// as corun is when it was seen.
    fn name_started(&mut self, program: &Path) {
        let name = program.file_name().unwrap_or_default().as_bytes();
        let name = String::from_utf8_lossy(&name[..name.len().min(KERNEL_NAME_BYTES)]);
        self.names.values_mut().for_each(|known| known.0 = name.clone().into_owned());
    }

    /// Looks who is there and begins to count those that are new.
    fn look(&mut self) -> Outcome<Option<std::io::Error>> {
        let found = self.processes.scan().map_err(live)?;
        self.now = found.iter().map(|one| one.facts.task).collect();
        self.of_scheduler.watch(&self.roots, &self.now);
        let (refused, uncounted) = match &mut self.by_count {
            Some(by_count) => (by_count.watch(&self.now), by_count.uncounted()),
            None => (self.sampling.watch(&self.now), self.sampling.uncounted()),
        };
        if uncounted < self.now.len() {
            for ScannedThread { facts, .. } in &found {
                self.names.insert(facts.task, (facts.name.clone(), facts.cpu.0));
            }
        }
        if let Some(error) = &refused
            && uncounted < self.now.len()
            && !std::mem::replace(&mut self.told, true)
        {
            let advice = counter_advice(&self.roots, error).unwrap_or_else(|| error.to_string());
            note(&format!("{uncounted} of {} threads are not counted: {advice}", self.now.len()));
        }
        Ok(refused)
    }

    fn until_over(
        &mut self,
        arguments: &StatArgs,
        cancel: &Cancel,
        mut child: Option<&mut Child>,
    ) -> Outcome<Option<ExitStatus>> {
        let interval = Duration::from_secs_f64(arguments.interval);
        let pause = match self.by_count {
            Some(_) => SHORTEST_PAUSE,
            None => Duration::from_secs_f64(arguments.interval / LOOKS)
                .clamp(SHORTEST_PAUSE, LONGEST_PAUSE),
        };
        // Samples by count have times of their own, since the program was let go.
        if self.by_count.is_none() {
            (self.start, self.last) = (Instant::now(), Instant::now());
        }
        let mut next = self.start + interval;
        let mut samples = 0;
        loop {
            let asked_to_stop = cancel.is_set();
            if asked_to_stop && let Some(child) = child.as_deref_mut() {
                let program = rustix::process::Pid::from_child(child);
                // It may have ended by itself, as Ctrl-C reaches it too.
                let _ = rustix::process::kill_process(program, rustix::process::Signal::TERM);
            }
            let status = match child.as_deref_mut() {
                Some(child) if asked_to_stop => Some(child.wait().context("cannot wait")?),
                Some(child) => child.try_wait().context("cannot wait for the program")?,
                None => None,
            };
            self.look()?;
            let gone = child.is_none() && !arguments.all_cpus && self.now.is_empty();
            let over = status.is_some() || gone || (asked_to_stop && child.is_none());
            if self.by_count.is_some() {
                let most = arguments.count.map_or(u64::MAX, |count| count - samples);
                samples += self.samples_by_count(most)?;
            } else if over || Instant::now() >= next {
                self.sample()?;
                samples += 1;
                next += interval;
            }
            if over || Some(samples) == arguments.count {
                self.total()?;
                return Ok(status);
            }
            let until = match self.by_count {
                Some(_) => pause,
                None => pause.min(next.saturating_duration_since(Instant::now())),
            };
            std::thread::sleep(until);
        }
    }

    fn sample(&mut self) -> Outcome {
        let taken = Instant::now();
        let time_s = (taken - self.start).as_secs_f64();
        let interval_s = (taken - self.last).as_secs_f64();
        self.last = taken;
        let row = |whose, counts| Row { time_s, interval_s, whose, counts };
        let mut rows = Vec::new();
        for (task, mut counts) in self.sampling.threads(&self.now) {
            counts.extend(self.of_scheduler.since(&self.roots, task));
            let (program, cpu) = self.names.get(&task).cloned().unwrap_or_default();
            rows.push(row(Whose::Thread { pid: task.pid, tid: task.tid, program, cpu }, counts));
        }
        if let Some(family) = self.sampling.family().map_err(|error| anyhow!(error))? {
            let mut others = without(&family, &rows);
            others.extend(self.of_scheduler.unknown());
            self.totals = Some(match self.totals.take() {
                None => family,
                Some(before) => {
                    before.iter().zip(&family).map(|(one, more)| Some((*one)? + (*more)?)).collect()
                }
            });
            if others.iter().flatten().any(|&count| count >= 1.0) {
                rows.push(row(Whose::Others, others));
            }
        }
        for (cpu, counts) in self.sampling.cpus().map_err(|error| anyhow!(error))? {
            rows.push(row(Whose::Cpu(cpu.0), counts));
        }
        self.forget_the_gone();
        Ok(self.rows.write(&rows)?)
    }

    pub(super) fn forget_the_gone(&mut self) {
        let there = |task: &Task| self.now.binary_search(task).is_ok();
        self.names.retain(|task, _| there(task));
    }

    fn total(&mut self) -> Outcome {
        if self.by_count.is_some() {
            self.last = Instant::now();
            self.totals = self.sampling.family().map_err(|error| anyhow!(error))?;
            self.say_what_is_missing();
        }
        let Some(mut counts) = self.totals.take() else { return Ok(()) };
        counts.extend(self.of_scheduler.unknown());
        let time_s = (self.last - self.start).as_secs_f64();
        let total = Row { time_s, interval_s: time_s, whose: Whose::Total, counts };
        Ok(self.rows.write(&[total])?)
    }
}

/// What a family did that no watched thread did. Both are read one after the other, so that a
/// thread may seem to have done more.
fn without(family: &Increase, rows: &[Row]) -> Increase {
    let rest = family.iter().enumerate().map(|(event, all)| {
        let seen: f64 = rows.iter().filter_map(|row| row.counts[event]).sum();
        all.map(|all| (all - seen).max(0.0))
    });
    rest.collect()
}

fn online(roots: &Roots) -> Outcome<CpuSet> {
    let file = online_file(roots);
    online_cpus(roots).with_context(|| file.display().to_string()).map_err(Failure::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_process_that_ended_meanwhile_is_left_out() {
        let roots = Roots::default();
        // Above the kernel's highest number of a process.
        let (own, ended) = (std::process::id(), 4_194_399);
        assert_eq!(still_here(&roots, &[ended, own]).len(), 1);
        assert!(by_pid(&roots, ended).is_err());
    }
}
