//! Real programs: started, started again, ended, waited for. The one place where commands start any.

mod started;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use corun_linux::{Roots, Task, facts, with_descriptor_limit_at_start};
use corun_live::{ProcessSelector, Target};
use corun_profile::{App, Mix};
use rustix::process::{Pid, Signal, WaitOptions};

use corun_app::{Error, Result, tell};

pub use self::started::Started;

/// How often ended programs are looked for.
pub const ENDED_EVERY: Duration = Duration::from_millis(20);

/// What is started, and when.
#[derive(Debug, Clone)]
pub struct Program {
    /// What it is called, unlike all others of a mix.
    pub name: Arc<str>,
    profile: Option<String>,
    command: Vec<OsString>,
    env: BTreeMap<String, String>,
    nice: i32,
    important: bool,
    start: Duration,
    end: Option<Duration>,
    restart: bool,
    /// In a process group of its own, so that its children end with it.
    own_group: bool,
    prints: Prints,
    running: Option<Running>,
    asked_to_end: Option<Instant>,
    /// Its runs that ended.
    pub runs: Vec<Run>,
}

/// Where what a program prints goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prints {
    /// Where corun's own goes.
    Own,
    /// All of it to stderr: corun itself has stdout.
    Stderr,
    /// It is dropped.
    Nowhere,
}

#[derive(Debug, Clone, Copy)]
struct Running {
    pid: Pid,
    since: Instant,
}

/// A run that ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// How long it ran.
    pub seconds: f64,
    /// How it ended.
    pub status: ExitStatus,
    /// Ended by us, since its time or everything's was over.
    pub ended_by_us: bool,
}

/// How long a program may take to end once it was asked to.
const PATIENCE: Duration = Duration::from_secs(5);

impl Program {
    /// One program, as its command line has it.
    pub fn of_command(command: &[OsString], profile: Option<&str>) -> Self {
        let first = command.first().map(|word| word.to_string_lossy().into_owned());
        let name = profile.map(str::to_owned).or(first).unwrap_or_default();
        let name = name.rsplit('/').next().unwrap_or_default();
        Self {
            name: Arc::from(name),
            profile: profile.map(str::to_owned),
            command: command.to_vec(),
            env: BTreeMap::new(),
            nice: 0,
            important: false,
            start: Duration::ZERO,
            end: None,
            restart: false,
            own_group: false,
            prints: Prints::Own,
            running: None,
            asked_to_end: None,
            runs: Vec::new(),
        }
    }

    /// The same program out of the way of whoever has the terminal: without input, its output
    /// dropped, and its children ended with it.
    pub fn out_of_sight(self) -> Self {
        Self { own_group: true, prints: Prints::Nowhere, ..self }
    }

    /// The same program beside a command that prints a result: without input, what it prints on
    /// stderr, and its children ended with it.
    pub fn beside_a_result(self) -> Self {
        Self { own_group: true, prints: Prints::Stderr, ..self }
    }

    /// The programs of a mix, each copy by itself. `stand_ins`: in the place of a program without a command,
    /// corun itself is started as `corun stand-in`.
    ///
    /// # Errors
    /// Bad input for a program that cannot be started here.
    pub fn of_mix(mix: &Mix, stand_ins: bool) -> Result<Vec<Self>> {
        let mut programs: Vec<Self> = Vec::new();
        for app in &mix.apps {
            let command = command_of(app, stand_ins)?;
            for _ in 0..app.count {
                let shown = app.shown_name().rsplit('/').next().unwrap_or_default().to_owned();
                let copies = programs.iter().filter(|one| base(&one.name) == shown).count();
                let name = if copies == 0 { shown } else { format!("{shown}#{}", copies + 1) };
                let mut one = Self::of_command(&command, None);
                one.name = Arc::from(name);
                one.profile.clone_from(&app.profile);
                one.env.clone_from(&app.env);
                one.nice = nice(app.weight);
                one.important = app.important;
                one.start = Duration::from_secs_f64(app.start_s);
                one.end = app.kill_s.map(Duration::from_secs_f64);
                one.restart = app.restart.unwrap_or(false);
                one.own_group = true;
                programs.push(one);
            }
        }
        Ok(programs)
    }

    /// Was it started already?
    pub fn has_begun(&self) -> bool {
        self.running.is_some() || !self.runs.is_empty()
    }

    /// Is there nothing more to come of it?
    pub fn is_over(&self) -> bool {
        self.running.is_none() && !self.runs.is_empty() && !self.restarts()
    }

    /// The name of its stored profile.
    pub fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    /// Does it run now?
    fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Does it go on for ever by itself?
    pub fn is_endless(&self) -> bool {
        self.restart && self.end.is_none()
    }

    fn restarts(&self) -> bool {
        self.restart && self.asked_to_end.is_none()
    }

    /// Starts it if it is time to; the host is to follow what it gives.
    fn start_if_due(&mut self, since_start: Duration, roots: &Roots) -> Result<Option<Target>> {
        let due = self.running.is_none() && since_start >= self.start;
        if !due || self.is_over() || self.asked_to_end.is_some() {
            return Ok(None);
        }
        let (program, arguments) =
            self.command.split_first().ok_or_else(|| Error::input("no program to start"))?;
        let mut command = Command::new(program);
        command.args(arguments).envs(&self.env);
        with_descriptor_limit_at_start(&mut command);
        if self.own_group {
            command.process_group(0).stdin(Stdio::null());
        }
        match self.prints {
            Prints::Own => {}
            Prints::Stderr => {
                command.stdout(io::stderr());
            }
            Prints::Nowhere => {
                command.stdout(Stdio::null()).stderr(Stdio::null());
            }
        }
        // The handle is dropped: all children are waited for by number, orphans too.
        let child = command.spawn().map_err(|error| cannot_start(program, &error))?;
        let number = child.id();
        let pid = Pid::from_raw(number.cast_signed())
            .ok_or_else(|| Error::input("a process without a number"))?;
        self.running = Some(Running { pid, since: Instant::now() });
        if self.nice != 0
            && let Err(error) = rustix::process::setpriority_process(Some(pid), self.nice)
        {
            tell(format_args!("{}: nice {}: {error}; it runs at nice 0", self.name, self.nice));
        }
        // A program that has ended by now is reaped later and needs nobody to follow it.
        let Ok(seen) = facts(roots, number, number) else { return Ok(None) };
        Ok(Some(self.target(seen.task)))
    }

    fn target(&self, task: Task) -> Target {
        Target {
            profile: self.profile.clone(),
            name_is_profile: false,
            important: self.important,
            ..Target::new(self.name.clone(), ProcessSelector::Descendants(task))
        }
    }

    /// Asks it to end if its time is over, and makes it end if it does not.
    fn end_if_due(&mut self, since_start: Duration) {
        if self.end.is_some_and(|end| since_start >= end) {
            self.ask_to_end();
        }
        let lingers = self.asked_to_end.is_some_and(|asked| asked.elapsed() > PATIENCE);
        if lingers {
            self.signal(Signal::KILL);
        }
    }

    /// Asks it to end, once.
    fn ask_to_end(&mut self) {
        if self.asked_to_end.is_none() {
            self.asked_to_end = Some(Instant::now());
            self.signal(Signal::TERM);
        }
    }

    fn signal(&self, signal: Signal) {
        let Some(Running { pid, .. }) = self.running else { return };
        // One that is gone already needs no signal.
        let _ = if self.own_group {
            rustix::process::kill_process_group(pid, signal)
        } else {
            rustix::process::kill_process(pid, signal)
        };
    }

    fn ended(&mut self, status: ExitStatus) {
        if let Some(running) = self.running.take() {
            let seconds = running.since.elapsed().as_secs_f64();
            self.runs.push(Run { seconds, status, ended_by_us: self.asked_to_end.is_some() });
        }
    }
}

/// Takes note of the children that ended.
fn reap(programs: &mut [Program]) -> io::Result<()> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                let status = ExitStatus::from_raw(status.as_raw());
                let whose = |one: &&mut Program| one.running.is_some_and(|own| own.pid == pid);
                if let Some(program) = programs.iter_mut().find(whose) {
                    program.ended(status);
                }
            }
            Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Ends what still runs, and waits for it.
fn end_all(
    programs: &mut [Program],
    started: Instant,
    hurried: &dyn Fn() -> bool,
) -> io::Result<()> {
    for program in programs.iter_mut() {
        program.ask_to_end();
    }
    let mut in_a_hurry = false;
    loop {
        reap(programs)?;
        if !programs.iter().any(Program::is_running) {
            return Ok(());
        }
        if !in_a_hurry && hurried() {
            in_a_hurry = true;
            for program in programs.iter().filter(|program| program.is_running()) {
                tell(format_args!("{}: killed, as a second signal came", program.name));
            }
        }
        for program in programs.iter_mut() {
            program.end_if_due(started.elapsed());
            if in_a_hurry {
                program.signal(Signal::KILL);
            }
        }
        std::thread::sleep(ENDED_EVERY);
    }
}

/// The name without its number.
fn base(name: &str) -> &str {
    name.split('#').next().unwrap_or(name)
}

fn command_of(app: &App, stand_ins: bool) -> Result<Vec<OsString>> {
    let name = app.shown_name();
    if app.home_node.is_some() {
        return Err(Error::input(format!("app `{name}`: home_node is for simulations"))
            .hint("cmd = [\"numactl\", \"--membind=0\", ...]"));
    }
    if app.barrier.is_some() {
        return Err(Error::input(format!("app `{name}`: barrier is for simulations"))
            .hint("a program that has barriers of its own"));
    }
    if let Some(cmd) = &app.cmd {
        return Ok(cmd.iter().map(OsString::from).collect());
    }
    if !stand_ins {
        return Err(Error::input(format!("app `{name}` has a profile and no cmd to start"))
            .hint("add cmd = [\"PROGRAM\", ..] to it")
            .hint("--counters model, which stands in for it with threads that only keep busy"));
    }
    let own = std::env::current_exe().map_err(|error| Error::Failed(error.into()))?;
    let mut command = vec![own.into_os_string(), "stand-in".into()];
    command.extend(["--threads".into(), app.threads.to_string().into()]);
    if let Some(io) = app.io {
        command.extend(["--cpu-ms".into(), io.cpu_ms.to_string().into()]);
        command.extend(["--wait-ms".into(), io.wait_ms.to_string().into()]);
    }
    Ok(command)
}

/// The nice value whose weight is nearest: a step is 1.25.
fn nice(weight: f64) -> i32 {
    (-weight.ln() / 1.25_f64.ln()).round().clamp(-20.0, 19.0) as i32
}

fn cannot_start(program: &OsString, error: &io::Error) -> Error {
    let program = program.to_string_lossy();
    let failure = Error::input(format!("{program}: {error}"));
    match error.kind() {
        io::ErrorKind::NotFound => failure.hint("its full path, or one that PATH has"),
        io::ErrorKind::PermissionDenied => failure.hint(format!("chmod +x {program}")),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weight 4 is 6.2 steps of 1.25: 3.81 at nice -6.
    #[test]
    fn weights_become_nice_values() {
        let found = [1.0, 4.0, 0.25, 1e9, 1e-9].map(nice);
        assert_eq!(found, [0, -6, 6, -20, 19]);
    }

    #[test]
    fn copies_are_named_apart() {
        let app = App { cmd: Some(vec!["/bin/true".into()]), count: 2, ..App::default() };
        let mix = Mix { apps: vec![app.clone(), app], ..Mix::of_apps(&["x"]).unwrap() };
        let names: Vec<String> =
            Program::of_mix(&mix, false).unwrap().iter().map(|one| one.name.to_string()).collect();
        assert_eq!(names, ["true", "true#2", "true#3", "true#4"]);
    }
}
