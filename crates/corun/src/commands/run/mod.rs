//! `corun run`: starts programs here and schedules them until they end.

mod next;
mod summary;

use std::thread;
use std::time::Duration;

use corun_daemon::NoPlan;
use corun_hosting::{
    Counters, DecisionPrinter, ENDED_EVERY, HostBuilder, Program, Started, undone,
};
use corun_live::Host;

use self::summary::{Summary, Told};
use super::starting::programs;
use crate::cli::RunArgs;
use crate::failure::{Failure, Outcome};
use corun_app::{Cancel, NO_POLICY, tell};
use corun_report::{check_target, json, write_file};

pub(crate) fn run(arguments: &RunArgs) -> Outcome<String> {
    if let Some(path) = &arguments.output {
        check_target(path)?;
    }
    let chosen = arguments.chosen.with_chosen_policy()?;
    let arguments = &RunArgs { chosen, ..arguments.clone() };
    let host_settings = arguments.host_settings();
    let programs = programs(&arguments.programs, host_settings.counters == Counters::Model)?;
    if arguments.duration.is_none() && programs.iter().all(Program::is_endless) {
        return Err(Failure::input("every program starts again when it ends, so there is no end")
            .hint("--duration SECONDS"));
    }
    let mut started = Started::new(programs);
    let builder = HostBuilder::new(&host_settings)?;
    builder.check_profiles(&started.profiles())?;
    let mut host = builder.host(&host_settings, Vec::new(), &started.profiles())?;
    let has_policy = host_settings.policy != NO_POLICY;
    if has_policy && NoPlan::beforehand(&host) == Some(NoPlan::OneCache) {
        tell(NoPlan::OneCache.note());
    }
    let cancel = Cancel::on_signal_undoing()?;
    started.begin()?;
    let mut session = Session {
        started: &mut started,
        host: &mut host,
        told: Told::default(),
        printer: DecisionPrinter::default(),
        duration: arguments.duration.map(Duration::from_secs_f64),
    };
    let worked = session.work(&cancel);
    for line in session.host.told() {
        tell(line);
    }
    // While the programs still run, so that what is undone can be seen to be.
    let restored = session.host.undo();
    if !session.host.is_dry_run() {
        undone::print(&restored);
    }
    let told = session.told;
    let ended = started.end_unless_hurried(&|| cancel.is_hurried());
    worked.and(ended)?;
    let summary = Summary::new(
        &host_settings,
        &host,
        started.programs(),
        &told,
        &restored,
        started.elapsed(),
    );
    summary.lines().iter().for_each(tell);
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into()).collect();
    for line in next::lines(&words, &told, host.is_dry_run(), &host_settings) {
        tell(line);
    }
    if let Some(path) = &arguments.output {
        write_file(path, json(&summary)?.as_bytes())?;
    }
    undone::all_or_error(&restored)?;
    if cancel.is_set() {
        return Err(Failure::Interrupted);
    }
    started.exit(arguments.programs.mix.is_some())
}

struct Session<'a> {
    started: &'a mut Started,
    host: &'a mut Host,
    told: Told,
    printer: DecisionPrinter,
    duration: Option<Duration>,
}

impl Session<'_> {
    /// Until all programs are over, their time is, or the user wants to stop.
    fn work(&mut self, cancel: &Cancel) -> Outcome {
        loop {
            let elapsed = self.started.elapsed();
            let new = self.started.step()?;
            let news = !new.is_empty();
            for (_, target) in new {
                self.host.add(target).map_err(Failure::live)?;
            }
            let over = self.duration.is_some_and(|duration| elapsed >= duration);
            if over || cancel.is_set() || self.started.is_over() {
                return Ok(());
            }
            if news || self.host.now() >= self.host.next_tick() {
                let tick = self.host.tick().map_err(Failure::live)?;
                self.printer.tick(self.host, &tick);
                self.told.add(self.host, tick);
            }
            thread::sleep(ENDED_EVERY);
        }
    }
}
