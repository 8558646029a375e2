//! The terminal, taken over for a view and given back.

use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use corun_app::{Cancel, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::state::{Flow, State};

/// Longest wait for a key before signals are looked for.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// What the view may take to end what it started, once its terminal is gone.
const TIME_TO_END: Duration = Duration::from_secs(3);
/// 128 and the number of SIGHUP, as shells have it.
const HUNG_UP: i32 = 129;

/// Takes the terminal over for a view, and gives it back however that ends.
pub(crate) fn on_terminal(show: impl FnOnce(&mut DefaultTerminal, &Cancel) -> Result) -> Result {
    let cancel = Cancel::on_signal_and_last(ratatui::restore)?;
    thread::Builder::new()
        .name("terminal".to_owned())
        .spawn(end_without_terminal)
        .context("cannot watch the terminal")?;
    // Also restores the terminal when something panics.
    let mut terminal = ratatui::try_init().context("cannot take over the terminal")?;
    let shown = show(&mut terminal, &cancel);
    ratatui::restore();
    shown
}

/// What follows from a key, or from another size of the terminal, where one comes within so long.
pub(crate) fn heard_within(time: Duration, state: &mut State) -> Result<Option<Flow>> {
    if !event::poll(time).context("cannot read keys")? {
        return Ok(None);
    }
    Ok(match event::read().context("cannot read keys")? {
        Event::Key(key) if key.kind != KeyEventKind::Release => Some(state.key(key)),
        Event::Resize(..) => Some(Flow::Go),
        _ => None,
    })
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
