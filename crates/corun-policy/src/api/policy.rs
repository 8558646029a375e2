//! The policy and what it asks of its host.

use std::sync::Arc;

use corun_machine::Machine;

use crate::{Action, ActionKind, CounterKind, Nanoseconds, Plan, Predictor, ThreadId, View};

/// Decides who goes where next. The same object runs in every host: a simulated machine, this
/// machine, a recording.
pub trait Policy: Send {
    /// The name by which it is asked for; its name in the registry.
    fn name(&self) -> &str;

    /// Counters, controls and interval it needs. A host that cannot give them refuses to start it
    /// and says why. Called before anything else.
    fn needs(&self) -> Needs;

    /// Whether the policy still decides without this control, which the host lacks. A policy that answers true
    /// leaves the control out of [`Policy::needs`] and out of its plans from then on. Called before the start.
    fn do_without(&mut self, _control: ActionKind) -> bool {
        false
    }

    /// Why the policy cannot work on this machine, in words; `None` where it can. A host asks once, beside
    /// [`Policy::needs`], and refuses the policy with these words.
    fn unfit_for(&self, _machine: &Machine) -> Option<String> {
        None
    }

    /// Takes what the host predicts, for policies that decide by predicted outcome. Called at most once, before
    /// the first view; a host without a model does not call it.
    fn predict_by(&mut self, _predictor: &Arc<dyn Predictor>) {}

    /// Something happened. May act at once; `None` leaves all as it is. The view is that after
    /// the event; events of one moment come in the order of their threads.
    fn on_event(&mut self, _event: &Event, _view: &View<'_>) -> Option<Plan> {
        None
    }

    /// Does it go by [`Event::Switched`]? To know of each switch costs something on a real machine, where a policy
    /// that answers false is told of none; the simulator tells all.
    fn hears_switches(&self) -> bool {
        false
    }

    /// Does it go by who wakes whom ([`crate::ThreadView::woken_by`])? To count that costs something on a real machine,
    /// where only the scheduler in the kernel can; it is not counted for a policy that answers false.
    fn hears_wakers(&self) -> bool {
        false
    }

    /// Does it go by how long the requests of services take ([`crate::ThreadView::latency`])? A host that nothing tells
    /// of it refuses such a policy.
    fn goes_by_latency(&self) -> bool {
        false
    }

    /// Once an interval: what it sees, then what it wants.
    fn decide(&mut self, view: &View<'_>) -> Plan;

    /// An action that the policy asked for is not in force: the host refused it, it failed, or the host took it back
    /// later. What was in force before the action still is. The host says so before it asks the policy again. A
    /// policy that remembers what it asked for has to forget it here, so that its next plan asks again.
    fn not_in_force(&mut self, _action: &Action) {}

    /// Why the policy can decide no more, in words; `None` while it can. A host asks after each call and ends
    /// the run with these words. For policies whose own code can fail, as those in Python.
    fn failure(&self) -> Option<String> {
        None
    }

    /// How long until it wants to decide again; none: its interval. A host asks after each
    /// [`Policy::decide`]. For policies that at times look closer than they usually do.
    fn next_interval(&self) -> Option<Nanoseconds> {
        None
    }
}

/// What a policy needs of its host; by default nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    /// How often it decides.
    pub interval: Interval,
    /// Counters it cannot do without.
    pub counters: Vec<CounterKind>,
    /// Actions it takes.
    pub controls: Vec<ActionKind>,
    /// Does it need each thread's solo figures from a stored profile?
    pub solo_figures: bool,
    /// Does it need each thread's figures by ways of its LLC ([`crate::ThreadView::by_ways`])?
    pub by_ways: bool,
}

/// How often a policy decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interval {
    /// On events alone.
    #[default]
    Never,
    /// Every so many nanoseconds.
    Time(Nanoseconds),
    /// Every so many cycles of the machine's fastest clock.
    Cycles(u64),
}

/// Something that happened to a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The thread came under the host's care and is runnable.
    Arrived(ThreadId),
    /// The thread ended; it is in the view no more.
    Exited(ThreadId),
    /// The thread waits for something else than a CPU.
    Slept(ThreadId),
    /// The thread is runnable again.
    Woke(ThreadId),
    /// Which threads are on CPUs changed. One that went to another LLC without a pause stands in both
    /// lists.
    Switched {
        /// Those that came on.
        on: Vec<ThreadId>,
        /// Those that went off.
        off: Vec<ThreadId>,
    },
}
