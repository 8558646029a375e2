//! A recording of `corun record` in the place of the machine, look by look, forwards and back.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use corun_live::{Host, LiveRecording};
use corun_policy::Nanoseconds;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::TICK;
use super::draw::{Theme, draw};
use super::frame::{Collector, Frame};
use super::slider::{Slider, look_at};
use super::state::{Flow, State};
use crate::cli::TopArgs;
use crate::commands::decide::load;
use crate::commands::watching::NO_POLICY;
use crate::failure::{Failure, Outcome};
use corun_app::Cancel;

/// A recording that is shown.
pub(super) struct Replay {
    recording: Arc<LiveRecording>,
    /// When its looks were.
    times: Vec<Nanoseconds>,
    policy: Option<String>,
    seed: u64,
    host: Host,
    collector: Collector,
    /// Looks that the host has seen.
    seen: usize,
    /// Where it begins.
    begin: usize,
}

impl Replay {
    /// Reads it whole.
    pub(super) fn new(path: &Path, arguments: &TopArgs) -> Outcome<Self> {
        let recording = Arc::new(load(path)?);
        let times: Vec<Nanoseconds> = recording.times().collect();
        if times.is_empty() {
            let message = format!("{}: no look at the machine is in it", path.display());
            return Err(Failure::input(message).hint("corun record -o FILE -p PID"));
        }
        let policy = arguments.policy.clone().filter(|name| name != NO_POLICY);
        let host = host(&recording, policy.as_deref(), arguments.seed)?;
        let begin = match arguments.at {
            Some(at_s) => look_at(&since_first(&times), at_s),
            // A table shows the end, a view begins at the beginning.
            None if arguments.once => times.len() - 1,
            None => 0,
        };
        let collector = Collector::new(false);
        let seed = arguments.seed;
        Ok(Self { recording, times, policy, seed, host, collector, seen: 0, begin })
    }

    /// Seconds between two looks, as they were asked for.
    pub(super) fn interval_s(&self) -> f64 {
        self.recording.interval_s()
    }

    /// What it shows first.
    pub(super) fn first(&mut self) -> Outcome<Frame> {
        self.frame(self.begin)
    }

    /// The frame of a look. One that was passed already is reached from the beginning: a policy decides by what it
    /// has seen.
    fn frame(&mut self, look: usize) -> Outcome<Frame> {
        if look < self.seen {
            self.host = host(&self.recording, self.policy.as_deref(), self.seed)?;
            (self.collector, self.seen) = (Collector::new(false), 0);
        }
        loop {
            let tick = self.host.tick_at(self.times[self.seen]).map_err(Failure::live)?;
            self.seen += 1;
            // Targets of a recording have their names from the beginning.
            self.collector.go_by_targets(self.host.targets().len() > 1);
            if self.seen > look {
                return Ok(self.collector.frame(&self.host, self.policy.as_deref(), &tick));
            }
            self.collector.note(&self.host, &tick);
        }
    }

    /// Until a key or a signal ends it.
    pub(super) fn show(&mut self, terminal: &mut DefaultTerminal, cancel: &Cancel) -> Outcome {
        let theme = Theme::of_user();
        let slider = Slider::new(since_first(&self.times), self.begin);
        let mut state = State::new(self.first()?).with_slider(slider);
        loop {
            let mut page = 0;
            terminal.draw(|screen| page = draw(&state, theme, screen)).context("cannot draw")?;
            state.drawn(terminal.size().context("cannot draw")?.width, page);
            let shown = self.seen - 1;
            if wait(&mut state, cancel)? == Flow::Quit {
                return Ok(());
            }
            let wanted = state.slider.as_ref().map_or(shown, |slider| slider.look);
            if wanted != shown {
                state.show(self.frame(wanted)?);
            }
        }
    }
}

/// Waits for a key, or until the next look is due.
fn wait(state: &mut State, cancel: &Cancel) -> Outcome<Flow> {
    let began = Instant::now();
    loop {
        cancel.check()?;
        let due = state.slider.as_mut().filter(|slider| !state.paused && !slider.is_at_end());
        let left = match due {
            None => TICK,
            Some(slider) => {
                let left = slider.shown_s() - began.elapsed().as_secs_f64();
                if left <= 0.0 {
                    slider.step(1);
                    return Ok(Flow::Go);
                }
                Duration::from_secs_f64(left)
            }
        };
        if !event::poll(TICK.min(left)).context("cannot read keys")? {
            continue;
        }
        match event::read().context("cannot read keys")? {
            Event::Key(key) if key.kind != KeyEventKind::Release => return Ok(state.key(key)),
            Event::Resize(..) => return Ok(Flow::Go),
            _ => {}
        }
    }
}

fn since_first(times: &[Nanoseconds]) -> Vec<f64> {
    let first = times.first().map_or(0, |first| first.0);
    times.iter().map(|at| Nanoseconds(at.0 - first).as_secs_f64()).collect()
}

fn host(recording: &Arc<LiveRecording>, policy: Option<&str>, seed: u64) -> Outcome<Host> {
    let policies = corun_app::build_policies(policy.unwrap_or(NO_POLICY), seed)?;
    corun_app::recorded_host(recording.clone(), policies, None).map_err(|error| {
        Failure::live(error).hint("a recording with --counters model or another policy")
    })
}
