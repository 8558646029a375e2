//! This machine, look by look: in a terminal, once, and for viewers elsewhere.

use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use corun_app::{Cancel, Error, Result};
use corun_hosting::{ActEntry, Watch, undo_at_the_end};
use corun_linux::Roots;
use corun_live::{Host, Tick};
use corun_machine::Machine;
use corun_policy::CounterKind;
use corun_serve::{Live, Order, Orders};
use ratatui::DefaultTerminal;

use crate::document::{self, DaemonEntry};
use crate::draw::{Theme, draw};
use crate::frame::{Collector, Frame};
use crate::state::{Flow, State};
use crate::terminal::{TICK, heard_within, on_terminal};

/// All that has a column: what a [`Watch`] that is shown has to count.
pub const COUNTERS: [CounterKind; 9] = [
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

/// Looks at this machine for viewers elsewhere: the same looks as documents.
pub struct Observer {
    top: Top,
    interval_s: f64,
}

impl Observer {
    /// Starts nothing yet.
    pub fn new(watch: Watch, interval_s: f64) -> Self {
        Self { top: Top::new(watch), interval_s }
    }

    /// Looks at the machine while somebody looks on, and does what they order, until the user wants to stop. Undoes what
    /// was done then.
    ///
    /// # Errors
    /// Where the machine cannot be looked at, or not all could be undone.
    pub fn watch(mut self, live: &Live, orders: &Orders, cancel: &Cancel) -> Result {
        self.start()?;
        let watched = look_on(&mut self, live, orders, cancel);
        let ended = self.end();
        watched.and(ended)
    }

    /// The machine that is looked at.
    pub fn machine(&self) -> &Machine {
        self.top.watch.host.machine()
    }

    /// Starts the program if there is one.
    fn start(&mut self) -> Result {
        self.top.watch.start()
    }

    fn is_due(&self) -> bool {
        self.top.is_due()
    }

    /// How long it is until the next look.
    fn due_in(&self) -> Duration {
        let host = &self.top.watch.host;
        Duration::from_nanos(host.next_tick().0.saturating_sub(host.now().0))
    }

    /// The document of a look.
    fn look(&mut self) -> Result<String> {
        let frame = self.top.look()?;
        let Watch { host, acting, .. } = &self.top.watch;
        let act = acting.as_ref().map(|acting| acting.entry(host));
        document::compact(&frame, self.interval_s, act, None)
    }

    /// Does what a viewer ordered, and answers.
    fn obey(&mut self, order: Order) {
        let Watch { host, acting, .. } = &mut self.top.watch;
        if let Some(acting) = acting {
            let answer = acting.obey(host, &order);
            order.answer(answer);
        }
    }

    /// Is something held that has to be looked after although nobody looks on?
    fn is_holding(&self) -> bool {
        let Watch { host, acting, .. } = &self.top.watch;
        acting.as_ref().is_some_and(|acting| acting.is_holding(host))
    }

    /// Undoes what was done, and ends the program if it still runs.
    fn end(&mut self) -> Result {
        let undone = undo_at_the_end(&mut self.top.watch.host);
        self.top.watch.end().and(undone)
    }
}

fn look_on(observer: &mut Observer, live: &Live, orders: &Orders, cancel: &Cancel) -> Result {
    let mut looked = false;
    let mut waiting = None;
    // What is held is looked after: threads that are born are held too, and have to be undone.
    let is_idle = |observer: &Observer| !live.is_watched() && !observer.is_holding();
    while !cancel.is_set() {
        let order = waiting.take().or_else(|| orders.next());
        if let Some(order) = order.filter(Order::is_waited_for) {
            if !std::mem::replace(&mut looked, true) {
                observer.look()?;
            }
            observer.obey(order);
            live.show(&observer.look()?);
            continue;
        }
        if is_idle(observer) {
            live.forget();
            while is_idle(observer) && waiting.is_none() && !cancel.is_set() {
                waiting = orders.next_or_woken();
            }
            // The figures of this look would be of all the time that nobody looked on.
            if looked {
                observer.look()?;
            }
            continue;
        }
        if observer.is_due() {
            live.show(&observer.look()?);
            looked = true;
        }
        waiting = orders.next_within(observer.due_in());
    }
    Ok(())
}

/// Makes the documents of looks from a host that somebody else ticks.
pub struct Looks {
    collector: Collector,
    interval_s: f64,
}

impl Looks {
    /// `named`: do the targets' names tell programs apart? Else the processes' own do.
    pub fn new(named: bool, interval_s: f64) -> Self {
        Self { collector: Collector::new(named).with_roots(Roots::default()), interval_s }
    }

    /// Keeps what a tick decided, for those who look later.
    pub fn note(&mut self, host: &Host, tick: &Tick) {
        self.collector.note(host, tick);
    }

    /// The document of a look after a tick.
    pub fn document(
        &mut self,
        (host, tick): (&Host, &Tick),
        policy: &str,
        act: Option<ActEntry>,
        daemon: DaemonEntry,
    ) -> Result<String> {
        let frame = self.collector.frame(host, Some(policy), tick);
        document::compact(&frame, self.interval_s, act, Some(daemon))
    }
}

/// This machine, shown to whoever sits at the terminal.
pub struct Top {
    watch: Watch,
    collector: Collector,
}

impl Top {
    /// Starts nothing yet.
    pub fn new(watch: Watch) -> Self {
        let collector = Collector::new(watch.named).with_roots(Roots::default());
        Self { watch, collector }
    }

    /// Takes the terminal over until a key or a signal ends the view.
    ///
    /// # Errors
    /// Where the machine cannot be looked at, or the terminal goes away.
    pub fn show(mut self) -> Result {
        on_terminal(|terminal, cancel| {
            let shown = self.show_on(terminal, cancel);
            ratatui::restore();
            shown.and(self.watch.end())
        })
    }

    fn look(&mut self) -> Result<Frame> {
        self.watch.reap()?;
        let tick = self.watch.host.tick().map_err(Error::live)?;
        Ok(self.collector.frame(&self.watch.host, self.watch.policy.as_deref(), &tick))
    }

    /// What one interval shows: rates need two looks.
    ///
    /// # Errors
    /// Where the machine cannot be looked at.
    pub fn once(&mut self, interval_s: f64) -> Result<Frame> {
        let cancel = Cancel::on_signal()?;
        self.watch.start()?;
        let looked = self.look_twice(interval_s, &cancel);
        self.watch.end()?;
        looked
    }

    fn look_twice(&mut self, interval_s: f64, cancel: &Cancel) -> Result<Frame> {
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
    fn show_on(&mut self, terminal: &mut DefaultTerminal, cancel: &Cancel) -> Result {
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
    fn wait(&mut self, state: &mut State, cancel: &Cancel) -> Result<Flow> {
        loop {
            cancel.check()?;
            let host = &self.watch.host;
            let left = Duration::from_nanos(host.next_tick().0.saturating_sub(host.now().0));
            // A look may take longer than from one to the next: keys count then, too, and looks go on under keys.
            let heard = heard_within(TICK.min(left), state)?;
            if heard == Some(Flow::Quit) {
                return Ok(Flow::Quit);
            }
            if left.is_zero() {
                state.show(self.look()?);
            }
            if heard.is_some() || left.is_zero() {
                return Ok(Flow::Go);
            }
        }
    }
}
