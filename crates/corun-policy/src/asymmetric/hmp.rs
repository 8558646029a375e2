//! `hmp`: compute-intensive threads on big cores, the others on small ones: the heterogeneous
//! multi-processing patches for big.LITTLE (Linaro, 2012 to 2015), the rival of García García's thesis
//! (UCM 2021, section 4.4.2) on the Odroid.

use crate::asymmetric::by_thread::ByThread;
use crate::asymmetric::policy::{Sharing, SharingPolicy};
use crate::asymmetric::sides::{Sides, is_runnable};
use crate::asymmetric::{Cores, INTERVAL, Side};
use crate::{
    Build, BuildOptions, LiveForm, Nanoseconds, Parameter, ParameterKind, PolicyEntry, ThreadId,
    ThreadView, View,
};

/// `hmp_up_threshold` of the patches, 700 of 1024.
const UP: Parameter = Parameter {
    name: "up-percent",
    kind: ParameterKind::Number,
    default: 68.4,
    min: 0.0,
    max: 100.0,
    summary: "share of time runnable, in %, above which a thread goes to the big cores",
};

/// `hmp_down_threshold`, 512 of 1024.
const DOWN: Parameter = Parameter {
    name: "down-percent",
    kind: ParameterKind::Number,
    default: 50.0,
    min: 0.0,
    max: 100.0,
    summary: "share of time runnable, in %, below which a thread goes to the small cores",
};

/// Half-life of the kernel's load average.
const HALF_LIFE_NS: f64 = 32e6;

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: Hmp::NAME,
    summary: "big cores for threads that nearly always run, small ones for those that mostly wait",
    source: "Linaro's HMP patches; García García, thesis UCM 2021, section 4.4.2",
    parameters: &[INTERVAL, UP, DOWN],
    build: Build::Policy(|options: &BuildOptions| {
        Box::new(SharingPolicy::new(options, Hmp::new(options)))
    }),
    live: LiveForm::AS_LIVE,
};

/// How much of the time a thread is runnable.
#[derive(Debug, Clone, Copy)]
struct Load {
    share: f64,
    runnable: bool,
    since: Nanoseconds,
}

impl Load {
    /// Takes in the time since it was looked at last.
    fn advance(&mut self, now: Nanoseconds, runnable: bool) {
        let past = 0.5f64.powf(now.0.saturating_sub(self.since.0) as f64 / HALF_LIFE_NS);
        self.share = past * self.share + (1.0 - past) * f64::from(u8::from(self.runnable));
        (self.since, self.runnable) = (now, runnable);
    }
}

struct Hmp {
    up: f64,
    down: f64,
    loads: ByThread<Load>,
}

impl Hmp {
    fn new(options: &BuildOptions) -> Self {
        Self {
            up: options.value(&UP) * 0.01,
            down: options.value(&DOWN) * 0.01,
            loads: ByThread::default(),
        }
    }

    /// New threads count as busy, so that they start on big cores.
    fn align(&mut self, view: &View<'_>) {
        let new = |thread: &ThreadView| Load {
            share: 1.0,
            runnable: is_runnable(thread),
            since: view.now,
        };
        self.loads.align(view.threads, new);
    }

    fn note(&mut self, view: &View<'_>, id: ThreadId, runnable: bool) {
        self.align(view);
        if let Some(place) = self.loads.place(id) {
            self.loads.values_mut()[place].advance(view.now, runnable);
        }
    }
}

impl Sharing for Hmp {
    const NAME: &'static str = "hmp";

    fn align(&mut self, view: &View<'_>, _cores: &Cores) {
        self.align(view);
    }

    fn measure(&mut self, view: &View<'_>, _cores: &Cores) {
        for (thread, load) in view.threads.iter().zip(self.loads.values_mut()) {
            load.advance(view.now, is_runnable(thread));
        }
    }

    fn slept(&mut self, id: ThreadId, view: &View<'_>) {
        self.note(view, id, false);
    }

    /// The patches look when a thread wakes.
    fn woke(&mut self, id: ThreadId, view: &View<'_>) {
        self.note(view, id, true);
    }

    /// Each thread by its own load alone: sides are not balanced, and nobody swaps.
    fn share(&mut self, view: &View<'_>, sides: &mut Sides<'_>, _counted: bool) {
        for place in 0..view.threads.len() {
            let share = self.loads.values()[place].share;
            let wanted = match sides.side(place) {
                Some(Side::Small) if share > self.up => Side::Big,
                Some(Side::Big) if share < self.down => Side::Small,
                None if sides.is_free(place) && share >= self.down => Side::Big,
                None if sides.is_free(place) => Side::Small,
                _ => continue,
            };
            if sides.is_free(place) {
                let why = format!(
                    "{}: runnable for {:.0} % of the time, to the {} cores",
                    view.threads[place].program,
                    100.0 * share,
                    wanted.words()
                );
                sides.put(place, wanted, why);
            }
        }
    }
}

#[cfg(test)]
mod tests;
