//! A recording of `corun record` in the place of the machine, look by look, forwards and back.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use corun_app::{Cancel, Error, NO_POLICY, Result};
use corun_hosting::load_recording;
use corun_live::{Host, LiveRecording};
use corun_policy::Nanoseconds;
use ratatui::DefaultTerminal;

use crate::draw::{Theme, draw};
use crate::frame::{Collector, Frame};
use crate::slider::{Slider, look_at};
use crate::state::{Flow, State};
use crate::terminal::{TICK, heard_within, on_terminal};

/// What a recording is shown with.
#[derive(Debug, Clone, Default)]
pub struct ReplaySettings {
    /// The policy that is asked what it would have done.
    pub policy: Option<String>,
    /// Seed of policies that draw at random.
    pub seed: u64,
    /// Seconds after its first look where it begins.
    pub at_s: Option<f64>,
    /// Without `at_s`: begin with the last look, else with the first.
    pub from_end: bool,
}

/// A recording that is shown.
pub struct Replay {
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
    ///
    /// # Errors
    /// Bad input where it is no recording, has no look, or lacks what the policy goes by.
    pub fn new(path: &Path, settings: ReplaySettings) -> Result<Self> {
        let recording = Arc::new(load_recording(path)?);
        let times: Vec<Nanoseconds> = recording.times().collect();
        if times.is_empty() {
            let message = format!("{}: no look at the machine is in it", path.display());
            return Err(Error::input(message).hint("corun record -o FILE -p PID"));
        }
        let ReplaySettings { policy, seed, at_s, from_end } = settings;
        let policy = policy.filter(|name| name != NO_POLICY);
        let host = host(&recording, policy.as_deref(), seed)?;
        let begin = match at_s {
            Some(at_s) => look_at(&since_first(&times), at_s),
            None if from_end => times.len() - 1,
            None => 0,
        };
        let collector = Collector::new(false);
        Ok(Self { recording, times, policy, seed, host, collector, seen: 0, begin })
    }

    /// Seconds between two looks, as they were asked for.
    pub fn interval_s(&self) -> f64 {
        self.recording.interval_s()
    }

    /// What it shows first.
    ///
    /// # Errors
    /// Where the policy fails.
    pub fn first(&mut self) -> Result<Frame> {
        self.frame(self.begin)
    }

    /// The frame of a look. One that was passed already is reached from the beginning: a policy decides by what it
    /// has seen.
    fn frame(&mut self, look: usize) -> Result<Frame> {
        if look < self.seen {
            self.host = host(&self.recording, self.policy.as_deref(), self.seed)?;
            (self.collector, self.seen) = (Collector::new(false), 0);
        }
        loop {
            let tick = self.host.tick_at(self.times[self.seen]).map_err(Error::live)?;
            self.seen += 1;
            // Targets of a recording have their names from the beginning.
            self.collector.go_by_targets(self.host.targets().len() > 1);
            if self.seen > look {
                return Ok(self.collector.frame(&self.host, self.policy.as_deref(), &tick));
            }
            self.collector.note(&self.host, &tick);
        }
    }

    /// Takes the terminal over until a key or a signal ends the view.
    ///
    /// # Errors
    /// Where the terminal goes away.
    pub fn show(mut self) -> Result {
        on_terminal(|terminal, cancel| self.show_on(terminal, cancel))
    }

    fn show_on(&mut self, terminal: &mut DefaultTerminal, cancel: &Cancel) -> Result {
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
fn wait(state: &mut State, cancel: &Cancel) -> Result<Flow> {
    let began = Instant::now();
    loop {
        cancel.check()?;
        let due = state.slider.as_ref().filter(|slider| !state.paused && !slider.is_at_end());
        let left = match due {
            None => TICK,
            Some(slider) => {
                let left = slider.shown_s() - began.elapsed().as_secs_f64();
                Duration::from_secs_f64(left.max(0.0))
            }
        };
        if let Some(flow) = heard_within(TICK.min(left), state)? {
            return Ok(flow);
        }
        if left.is_zero() {
            state.slider.iter_mut().for_each(|slider| slider.step(1));
            return Ok(Flow::Go);
        }
    }
}

fn since_first(times: &[Nanoseconds]) -> Vec<f64> {
    let first = times.first().map_or(0, |first| first.0);
    times.iter().map(|at| Nanoseconds(at.0 - first).as_secs_f64()).collect()
}

fn host(recording: &Arc<LiveRecording>, policy: Option<&str>, seed: u64) -> Result<Host> {
    let policies = corun_app::build_policies(policy.unwrap_or(NO_POLICY), seed)?;
    corun_app::recorded_host(recording.clone(), policies, None).map_err(|error| {
        Error::live(error).hint("a recording with --counters model or another policy")
    })
}
