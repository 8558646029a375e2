//! `corun top`: who sits where now, or in a recording, what they do, and what a policy would do about it. It
//! only looks.

mod columns;
mod document;
mod draw;
mod frame;
mod groups;
mod replay;
#[cfg(test)]
mod sample;
mod slider;
mod state;
mod tree;

pub(super) use self::document::DaemonEntry;
pub(super) use self::frame::together;

use std::io::IsTerminal as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use corun_linux::Roots;
use corun_live::{Host, Tick};
use corun_machine::Machine;
use corun_policy::CounterKind;
use corun_serve::Order;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::draw::{Theme, draw};
use self::frame::{Collector, Frame};
use self::replay::Replay;
use self::state::{Flow, State};
use super::acting::{ActEntry, undo_at_the_end};
use super::watching::{Asked, Watch};
use crate::cli::{FigureArgs, TargetArgs, TopArgs};
use crate::failure::{Failure, Outcome};
use corun_app::Cancel;

/// Longest wait for a key before signals are looked for.
const TICK: Duration = Duration::from_millis(100);

/// What the view may take to end what it started, once its terminal is gone.
const TIME_TO_END: Duration = Duration::from_secs(3);
/// 128 and the number of SIGHUP, as shells have it.
const HUNG_UP: i32 = 129;

/// Programs and threads in the tables of `--once` where nobody was named.
const BUSIEST: usize = 20;

/// All that has a column.
const COUNTERS: [CounterKind; 9] = [
    CounterKind::Instructions,
    CounterKind::Cycles,
    CounterKind::LlcMisses,
    CounterKind::MemoryBytes,
    CounterKind::LlcOccupancy,
    CounterKind::ContextSwitches,
    CounterKind::WakeUps,
    CounterKind::RunQueueWait,
    CounterKind::Idle,
];

pub(super) fn run(arguments: &TopArgs) -> Outcome<String> {
    let in_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if !arguments.once && !in_terminal {
        return Err(Failure::input("the live view needs a terminal, and there is none here")
            .hint("corun top --once, which prints what one interval shows"));
    }
    if let Some(path) = &arguments.replay {
        let mut replay = Replay::new(path, arguments)?;
        if arguments.once {
            let (frame, interval_s) = (replay.first()?, replay.interval_s());
            return document::write(&frame, interval_s, arguments.format, None);
        }
        return on_terminal(|terminal, cancel| replay.show(terminal, cancel));
    }
    let mut top = Top::new(arguments)?;
    if arguments.once {
        let frame = top.once(arguments.figures.interval)?;
        let most = (!arguments.targets.is_given()).then_some(BUSIEST);
        if frame.threads.is_empty() {
            eprintln!("corun: note: no process is what was asked for now");
        }
        return document::write(&frame, arguments.figures.interval, arguments.format, most);
    }
    on_terminal(|terminal, cancel| {
        let shown = top.show(terminal, cancel);
        ratatui::restore();
        shown.and(top.watch.end())
    })
}

/// Takes the terminal over for a view, and gives it back however that ends.
fn on_terminal(show: impl FnOnce(&mut DefaultTerminal, &Cancel) -> Outcome) -> Outcome<String> {
    let cancel = Cancel::on_signal_and_last(ratatui::restore)?;
    thread::Builder::new()
        .name("terminal".to_owned())
        .spawn(end_without_terminal)
        .context("cannot watch the terminal")?;
    // Also restores the terminal when something panics.
    let mut terminal = ratatui::try_init().context("cannot take over the terminal")?;
    let shown = show(&mut terminal, &cancel);
    ratatui::restore();
    shown?;
    Ok(String::new())
}

/// Ends the process some time after its terminal was closed. crossterm 0.29 reads the end of a terminal again and
/// again without returning, so that nothing else can end the view.
fn end_without_terminal() {
    let input = std::io::stdin();
    loop {
        let mut watched = [PollFd::new(&input, PollFlags::empty())];
        let waited = Timespec { tv_sec: 1, tv_nsec: 0 };
        if poll(&mut watched, Some(&waited)).is_err() {
            thread::sleep(TICK);
        } else if watched[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            thread::sleep(TIME_TO_END);
            std::process::exit(HUNG_UP);
        }
    }
}

/// Looks at this machine for viewers elsewhere: the same looks as documents.
pub(super) struct Observer {
    top: Top,
    interval_s: f64,
}

impl Observer {
    /// Checks everything; starts nothing yet. `act`: viewers may act, with the journal in this folder or the
    /// user's.
    pub(super) fn new(
        targets: &TargetArgs,
        figures: &FigureArgs,
        policy: Option<&str>,
        seed: u64,
        act: Option<Option<&Path>>,
    ) -> Outcome<Self> {
        let top = Top::of(targets, figures, policy, seed, act)?;
        Ok(Self { top, interval_s: figures.interval })
    }

    /// The machine that is looked at.
    pub(super) fn machine(&self) -> &Machine {
        self.top.watch.host.machine()
    }

    /// Starts the program if there is one.
    pub(super) fn start(&mut self) -> Outcome {
        self.top.watch.start()
    }

    pub(super) fn is_due(&self) -> bool {
        self.top.is_due()
    }

    /// How long it is until the next look.
    pub(super) fn due_in(&self) -> Duration {
        let host = &self.top.watch.host;
        Duration::from_nanos(host.next_tick().0.saturating_sub(host.now().0))
    }

    /// The document of a look.
    pub(super) fn look(&mut self) -> Outcome<String> {
        let frame = self.top.look()?;
        let Watch { host, acting, .. } = &self.top.watch;
        let act = acting.as_ref().map(|acting| acting.entry(host));
        document::compact(&frame, self.interval_s, act, None)
    }

    /// Does what a viewer ordered, and answers.
    pub(super) fn obey(&mut self, order: Order) {
        let Watch { host, acting, .. } = &mut self.top.watch;
        if let Some(acting) = acting {
            acting.obey(host, order);
        }
    }

    /// Is something held that has to be looked after although nobody looks on?
    pub(super) fn is_holding(&self) -> bool {
        let Watch { host, acting, .. } = &self.top.watch;
        acting.as_ref().is_some_and(|acting| acting.is_holding(host))
    }

    /// Undoes what was done, and ends the program if it still runs.
    pub(super) fn end(&mut self) -> Outcome {
        let undone = undo_at_the_end(&mut self.top.watch.host);
        self.top.watch.end().and(undone)
    }
}

/// Makes the documents of looks from a host that somebody else ticks.
pub(super) struct Looks {
    collector: Collector,
    interval_s: f64,
}

impl Looks {
    /// `named`: do the targets' names tell programs apart? Else the processes' own do.
    pub(super) fn new(named: bool, interval_s: f64) -> Self {
        Self { collector: Collector::new(named).with_roots(Roots::default()), interval_s }
    }

    /// Keeps what a tick decided, for those who look later.
    pub(super) fn note(&mut self, host: &Host, tick: &Tick) {
        self.collector.note(host, tick);
    }

    /// The document of a look after a tick.
    pub(super) fn document(
        &mut self,
        (host, tick): (&Host, &Tick),
        policy: &str,
        act: Option<ActEntry>,
        daemon: DaemonEntry,
    ) -> Outcome<String> {
        let frame = self.collector.frame(host, Some(policy), tick);
        document::compact(&frame, self.interval_s, act, Some(daemon))
    }
}

struct Top {
    watch: Watch,
    collector: Collector,
}

impl Top {
    fn new(arguments: &TopArgs) -> Outcome<Self> {
        let (targets, figures) = (&arguments.targets, &arguments.figures);
        Self::of(targets, figures, arguments.policy.as_deref(), arguments.seed, None)
    }

    fn of(
        targets: &TargetArgs,
        figures: &FigureArgs,
        policy: Option<&str>,
        seed: u64,
        act: Option<Option<&Path>>,
    ) -> Outcome<Self> {
        let watch = Watch::new(&Asked {
            targets,
            figures,
            policy,
            seed,
            counters: COUNTERS.to_vec(),
            out_of_sight: true,
            act: act.is_some(),
            journals: act.flatten(),
            else_all: true,
        })?;
        let collector = Collector::new(watch.named).with_roots(Roots::default());
        Ok(Self { watch, collector })
    }

    fn look(&mut self) -> Outcome<Frame> {
        self.watch.reap()?;
        let tick = self.watch.host.tick().map_err(Failure::live)?;
        Ok(self.collector.frame(&self.watch.host, self.watch.policy.as_deref(), &tick))
    }

    /// What one interval shows: rates need two looks.
    fn once(&mut self, interval_s: f64) -> Outcome<Frame> {
        let cancel = Cancel::on_signal()?;
        self.watch.start()?;
        let looked = self.look_twice(interval_s, &cancel);
        self.watch.end()?;
        looked
    }

    fn look_twice(&mut self, interval_s: f64, cancel: &Cancel) -> Outcome<Frame> {
        self.look()?;
        let end = self.watch.host.now().as_secs_f64() + interval_s;
        loop {
            cancel.check()?;
            let left = end - self.watch.host.now().as_secs_f64();
            if left <= 0.0 {
                return self.look();
            }
            // A policy may want to look more often.
            if self.is_due() {
                self.look()?;
            }
            thread::sleep(TICK.min(Duration::from_secs_f64(left)));
        }
    }

    fn is_due(&self) -> bool {
        self.watch.host.now() >= self.watch.host.next_tick()
    }

    /// Until a key or a signal ends it.
    fn show(&mut self, terminal: &mut DefaultTerminal, cancel: &Cancel) -> Outcome {
        let theme = Theme::of_user();
        self.watch.start()?;
        let mut state = State::new(self.look()?);
        loop {
            let mut page = 0;
            terminal.draw(|screen| page = draw(&state, theme, screen)).context("cannot draw")?;
            state.drawn(terminal.size().context("cannot draw")?.width, page);
            if self.wait(&mut state, cancel)? == Flow::Quit {
                return Ok(());
            }
        }
    }

    /// Waits until there is something new to draw.
    fn wait(&mut self, state: &mut State, cancel: &Cancel) -> Outcome<Flow> {
        loop {
            cancel.check()?;
            if self.is_due() {
                state.show(self.look()?);
                return Ok(Flow::Go);
            }
            let host = &self.watch.host;
            let left = host.next_tick().0.saturating_sub(host.now().0);
            if !event::poll(TICK.min(Duration::from_nanos(left))).context("cannot read keys")? {
                continue;
            }
            match event::read().context("cannot read keys")? {
                Event::Key(key) if key.kind != KeyEventKind::Release => return Ok(state.key(key)),
                Event::Resize(..) => return Ok(Flow::Go),
                _ => {}
            }
        }
    }
}
