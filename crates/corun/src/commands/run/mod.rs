//! `corun run`: starts programs here and schedules them until they end.

pub(super) mod programs;
mod summary;

use std::os::unix::process::ExitStatusExt as _;
use std::thread;
use std::time::{Duration, Instant};

use corun_live::{Host, Restored, Roots};
use corun_profile::Mix;

use self::programs::{Program, end_all, reap};
use self::summary::{Summary, Told};
use super::hosting::{Ground, Teller, undone_in_words};
use crate::cancel::Cancel;
use crate::cli::{CountersName, RunArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{check_target, json, write_file};

/// How often ended programs are looked for.
const TICK: Duration = Duration::from_millis(20);

pub(crate) fn run(arguments: &RunArgs) -> Outcome<String> {
    if let Some(path) = &arguments.output {
        check_target(path)?;
    }
    let mut programs = programs(arguments)?;
    if arguments.duration.is_none() && programs.iter().all(Program::is_endless) {
        return Err(Failure::input("every program starts again when it ends, so there is no end")
            .hint("--duration SECONDS"));
    }
    let ground = Ground::new(&arguments.host)?;
    let profiles: Vec<&str> = programs.iter().filter_map(Program::profile).collect();
    let mut host = ground.host(&arguments.host, Vec::new(), &profiles)?;
    let cancel = Cancel::on_signal()?;
    // Processes that lose their parent are handed to us, so that they stay followed.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| Failure::Failed(std::io::Error::from(error).into()))?;
    let mut session = Session {
        programs: &mut programs,
        host: &mut host,
        told: Told::default(),
        teller: Teller::default(),
        started: Instant::now(),
        duration: arguments.duration.map(Duration::from_secs_f64),
    };
    let worked = session.work(&cancel);
    // While the programs still run, so that what is undone can be seen to be.
    let undone = session.host.undo();
    say_undone(session.host, &undone);
    let ended = session.end();
    let (told, started) = (session.told, session.started);
    worked.and(ended)?;
    let summary =
        Summary::new(&arguments.host, &host, &programs, &told, &undone, started.elapsed());
    eprint!("{}", summary.text());
    if let Some(path) = &arguments.output {
        write_file(path, json(&summary)?.as_bytes())?;
    }
    exit(&programs, &cancel, arguments.command.is_empty())
}

fn programs(arguments: &RunArgs) -> Outcome<Vec<Program>> {
    match &arguments.mix {
        Some(path) => {
            let mix = Mix::load(path)?;
            Program::of_mix(&mix, arguments.host.counters == CountersName::Model)
        }
        None => Ok(vec![Program::of_command(&arguments.command, arguments.profile.as_deref())]),
    }
}

struct Session<'a> {
    programs: &'a mut [Program],
    host: &'a mut Host,
    told: Told,
    teller: Teller,
    started: Instant,
    duration: Option<Duration>,
}

impl Session<'_> {
    /// Until all programs are over, their time is, or the user wants to stop.
    fn work(&mut self, cancel: &Cancel) -> Outcome {
        let roots = Roots::default();
        loop {
            let elapsed = self.started.elapsed();
            let mut news = false;
            for program in self.programs.iter_mut() {
                if let Some(target) = program.start_if_due(elapsed, &roots)? {
                    self.host.follow(target).map_err(Failure::live)?;
                    news = true;
                }
                program.end_if_due(elapsed);
            }
            reap(self.programs)?;
            let over = self.duration.is_some_and(|duration| elapsed >= duration);
            if over || cancel.is_set() || self.programs.iter().all(Program::is_over) {
                return Ok(());
            }
            if news || self.host.now() >= self.host.next_round() {
                let round = self.host.round().map_err(Failure::live)?;
                self.teller.round(self.host, &round);
                self.told.add(self.host, round);
            }
            thread::sleep(TICK);
        }
    }

    /// Ends what still runs.
    fn end(&mut self) -> Outcome {
        Ok(end_all(self.programs, self.started)?)
    }
}

fn say_undone(host: &Host, undone: &[Restored]) {
    if !host.is_dry_run() && !undone.is_empty() {
        eprintln!("corun: {}", undone_in_words(&undone.iter().collect::<Vec<_>>()));
    }
}

/// The exit code: of one program its own, of a mix whether all ended well.
pub(super) fn exit(programs: &[Program], cancel: &Cancel, is_mix: bool) -> Outcome<String> {
    if cancel.is_set() {
        return Err(Failure::Interrupted);
    }
    let last = programs.iter().filter_map(|program| program.runs.last());
    let bad = last.rev().find(|run| !run.ended_by_us && !run.status.success());
    match bad {
        None => Ok(String::new()),
        Some(_) if is_mix => Err(Failure::Program(1)),
        Some(run) => {
            let code = run.status.code();
            let code = code.unwrap_or_else(|| 128 + run.status.signal().unwrap_or(0));
            Err(Failure::Program(u8::try_from(code).unwrap_or(1)))
        }
    }
}
