//! Partitioning by what is measured while programs run: what such policies share.
//!
//! A [`Scheme`] says what to make of a program's figures; [`OnlinePolicy`] counts, lends the program
//! whose turn it is a partition of its own while it is sampled (the sampling partition, and its
//! complement for everybody else; García García, thesis, UCM 2021, section 6.3.2), and asks the
//! scheme for a partition every so often.

#[cfg(test)]
pub(crate) mod bench;
mod llc;
pub(crate) mod sweep;
pub(crate) mod window;

use self::llc::Llc;
use self::window::Sample;
use super::members::{members, peak_bytes_per_s};
use super::{Input, Partition, PartitionError, Partitioner};
use crate::{
    Action, ActionKind, BuildOptions, CounterKind, Event, Interval, Nanoseconds, Needs, Parameter,
    ParameterKind, Plan, Policy, View, WaysCurve, WaysPoint,
};

const DECIDE_MS: Parameter = Parameter {
    name: "decide-ms",
    kind: ParameterKind::Number,
    default: 500.0,
    min: 1.0,
    max: 1e6,
    summary: "time between decisions, in ms",
};

const WINDOW: Parameter = Parameter {
    name: "window-instructions",
    kind: ParameterKind::Number,
    default: 100e6,
    min: 1e5,
    max: 1e12,
    summary: "a program's instructions from one reading of its counters to the next",
};

const SAMPLING_WINDOW: Parameter = Parameter {
    name: "sampling-instructions",
    kind: ParameterKind::Number,
    default: 10e6,
    min: 1e4,
    max: 1e12,
    summary: "the same while it is sampled",
};

const SETTLING: Parameter = Parameter {
    name: "settling-windows",
    kind: ParameterKind::WholeNumber,
    default: 1.0,
    min: 0.0,
    max: 100.0,
    summary: "sampling windows left out after each change of ways, in which the cache fills",
};

const WARM_UP: Parameter = Parameter {
    name: "warm-up-windows",
    kind: ParameterKind::WholeNumber,
    default: 3.0,
    min: 1.0,
    max: 1000.0,
    summary: "a new program's windows that are left out",
};

const TIMEOUT_MS: Parameter = Parameter {
    name: "sampling-timeout-ms",
    kind: ParameterKind::Number,
    default: 500.0,
    min: 1.0,
    max: 1e6,
    summary: "a sampled program that does not fill a window in this time, in ms, is left for later",
};

/// Those of a policy that samples.
pub(crate) const SAMPLING: &[Parameter] =
    &[DECIDE_MS, WINDOW, SAMPLING_WINDOW, SETTLING, WARM_UP, TIMEOUT_MS];

/// Those of a policy that counts and samples nobody.
pub(crate) const COUNTING: &[Parameter] = &[DECIDE_MS, WINDOW, WARM_UP];

/// The longest time between two looks at the counters while nobody is sampled.
const LOOK: Nanoseconds = Nanoseconds(50_000_000);
/// The shortest.
const SHORTEST_LOOK: Nanoseconds = Nanoseconds(1_000_000);

/// How long windows are, and what is left out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowPace {
    decide_every: Nanoseconds,
    window: f64,
    sampling_window: f64,
    settling: u32,
    warm_up: u32,
    timeout: Nanoseconds,
}

impl WindowPace {
    /// By the parameters above.
    pub(crate) fn new(options: &BuildOptions) -> Self {
        let ms = |parameter| Nanoseconds((options.value(parameter) * 1e6) as u64);
        Self {
            decide_every: ms(&DECIDE_MS),
            window: options.value(&WINDOW),
            sampling_window: options.value(&SAMPLING_WINDOW),
            settling: options.value(&SETTLING) as u32,
            warm_up: options.value(&WARM_UP) as u32,
            timeout: ms(&TIMEOUT_MS),
        }
    }
}

/// The cache that a scheme shares out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cache {
    pub(crate) ways: u32,
    /// The fewest that a partition may have.
    pub(crate) least_ways: u32,
    pub(crate) bytes: f64,
    /// Of the cache in front of it that each core has for itself; 0: unknown.
    pub(crate) private_bytes: f64,
    /// Of the memory behind it; none: unknown.
    pub(crate) peak_bytes_per_s: Option<f64>,
}

impl Cache {
    pub(crate) fn way_bytes(&self) -> f64 {
        self.bytes / f64::from(self.ways)
    }

    /// The most ways that a program can have while it is sampled: the others have the fewest of a partition.
    pub(crate) fn most_sampled_ways(&self) -> u32 {
        self.ways.saturating_sub(self.least_ways)
    }

    /// The curve of a program of which nothing is known: it gains nothing by space.
    pub(crate) fn flat(&self) -> Result<WaysCurve, PartitionError> {
        let flat = WaysPoint { slowdown: 1.0, ipc: 1.0, ..WaysPoint::default() };
        WaysCurve::new(vec![flat; self.ways as usize])
            .ok_or(PartitionError::Ways { ways: self.ways, least_ways: self.least_ways })
    }

    /// What programs with these curves have to share.
    pub(crate) fn input<'a>(&self, curves: &'a [&'a WaysCurve]) -> Input<'a> {
        Input {
            curves,
            ways: self.ways,
            least_ways: self.least_ways,
            peak_bytes_per_s: self.peak_bytes_per_s,
        }
    }
}

/// Who shares which ways by a policy for known curves, of programs of which some curves are known, and of each program what
/// decided. One of which nothing is known counts as one that gains nothing by space, and its reason is `unknown`.
///
/// # Errors
/// As of the policy.
pub(crate) fn partition_by(
    inner: &mut dyn Partitioner,
    curves: &[Option<&WaysCurve>],
    cache: &Cache,
    unknown: &str,
    out: &mut Partition,
) -> Result<Vec<String>, PartitionError> {
    let flat = cache.flat()?;
    if curves.iter().all(Option::is_none) {
        out.set_clusters(&vec![0; curves.len()], &[cache.ways]);
    } else {
        let known: Vec<&WaysCurve> = curves.iter().map(|curve| curve.unwrap_or(&flat)).collect();
        inner.partition(&cache.input(&known), out)?;
    }
    let why = |(place, curve): (usize, &Option<&WaysCurve>)| match curve {
        Some(curve) => inner.reason(curve, out.ways(place)),
        None => unknown.to_owned(),
    };
    Ok(curves.iter().enumerate().map(why).collect())
}

/// What a window showed of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) now: Nanoseconds,
    pub(crate) sample: Sample,
    /// Bytes of the LLC that it holds, or may hold where that is not counted.
    pub(crate) held_bytes: f64,
    /// Is what it holds counted?
    pub(crate) is_held_counted: bool,
}

/// What a policy makes of measured figures.
pub(crate) trait Scheme: Send {
    /// What it keeps of a program.
    type Known: Default + Clone + Send;

    /// Name in the registry.
    fn name(&self) -> &'static str;

    /// Counters it cannot do without.
    fn counters(&self) -> Vec<CounterKind> {
        vec![CounterKind::Instructions, CounterKind::Cycles, CounterKind::LlcMisses]
    }

    /// Is what is known of a program that ended kept for the next one of its name?
    fn remembers(&self) -> bool {
        false
    }

    /// The ways to try next with the program at a place, whose turn to be sampled it is; none where its samples so far,
    /// each with its ways, do for a decision. Within [`Cache::most_sampled_ways`]. Unless told, nobody is sampled.
    fn next_ways(
        &mut self,
        _programs: &[&Self::Known],
        _place: usize,
        _samples: &[(u32, Sample)],
        _cache: &Cache,
    ) -> Option<u32> {
        None
    }

    /// Sampling windows that are left out at most, beyond those of the pace, while a program's misses have not filled
    /// the ways that it got.
    fn most_filling_windows(&self) -> u32 {
        0
    }

    /// A program was sampled: its figures, each with the ways it had, in the order of time; at least one.
    fn sampled(
        &mut self,
        _known: &mut Self::Known,
        _samples: &[(u32, Sample)],
        _cache: &Cache,
        _now: Nanoseconds,
    ) {
    }

    /// The last window of a program's warm-up ended. Is the program to be sampled? Where there is nothing to try with
    /// it, who shares which ways is decided anew.
    fn warmed_up(&mut self, _known: &mut Self::Known, _seen: &Seen, _cache: &Cache) -> bool {
        true
    }

    /// A window of normal operation ended. Is the program to be sampled (again)? As [`Self::warmed_up`].
    fn watch(&mut self, known: &mut Self::Known, seen: &Seen, cache: &Cache) -> bool;

    /// Who shares which ways, of two programs or more, and of each program what decided.
    ///
    /// # Errors
    /// Why the LLC is to stay whole.
    fn partition(
        &mut self,
        programs: &[&Self::Known],
        cache: &Cache,
        out: &mut Partition,
    ) -> Result<Vec<String>, PartitionError>;
}

/// Runs a [`Scheme`] on every LLC.
pub(crate) struct OnlinePolicy<S: Scheme> {
    scheme: S,
    pace: WindowPace,
    llcs: Vec<Llc<S::Known>>,
    /// Programs that ended, by name, the latest last.
    ended: Vec<(String, S::Known)>,
    next: Nanoseconds,
}

/// Programs that ended and are remembered at most.
const MOST_ENDED: usize = 64;

impl<S: Scheme> OnlinePolicy<S> {
    pub(crate) fn new(scheme: S, pace: WindowPace) -> Self {
        Self { scheme, pace, llcs: Vec::new(), ended: Vec::new(), next: LOOK }
    }

    /// Is anybody being sampled?
    pub(crate) fn is_sampling(&self) -> bool {
        self.llcs.iter().any(Llc::is_sampling)
    }

    /// Takes over who is where. A program that went to another LLC takes along what is known of it.
    fn follow(&mut self, view: &View<'_>) {
        let members = members(view);
        self.llcs.resize_with(members.len(), Llc::default);
        let mut gone = Vec::new();
        for (llc, members) in self.llcs.iter_mut().zip(&members) {
            gone.extend(llc.drop_absent(members));
        }
        for (llc, members) in self.llcs.iter_mut().zip(members) {
            llc.take_over(members, &mut gone, (&self.ended, &self.pace), view);
        }
        if self.scheme.remembers() {
            for program in gone {
                let (name, known) = program.into_known();
                self.ended.retain(|(one, _)| *one != name);
                self.ended.push((name, known));
            }
            let forgotten = self.ended.len().saturating_sub(MOST_ENDED);
            self.ended.drain(..forgotten);
        }
    }

    fn plan(&mut self, view: &View<'_>) -> Plan {
        let mut plan = Plan::none();
        for index in 0..self.llcs.len() {
            let cache = cache(view, index);
            let wish = self.llcs[index].wish(&mut self.scheme, cache, &self.pace, view);
            if let Some((parts, reason)) = wish {
                let action = Action::Partition { llc: index, parts };
                plan.push(action, format!("LLC {index}{reason}"));
            }
        }
        plan
    }
}

/// What is known of an LLC; none where it cannot be partitioned.
pub(crate) fn cache(view: &View<'_>, llc: usize) -> Option<Cache> {
    let cache = view.machine.llcs()[llc].cache?;
    let ways = cache.ways.filter(|ways| (1..=64).contains(ways))?;
    Some(Cache {
        ways,
        least_ways: cache.min_partition_ways.max(1),
        bytes: cache.size_bytes as f64,
        private_bytes: private_bytes(view.machine, llc),
        peak_bytes_per_s: peak_bytes_per_s(view.machine, llc),
    })
}

fn private_bytes(machine: &corun_machine::Machine, llc: usize) -> f64 {
    let cpu = machine.llcs()[llc].cpus.first().and_then(|cpu| machine.cpu_index(cpu));
    let cache = cpu.and_then(|cpu| machine.private_cache(cpu));
    cache.map_or(0.0, |cache| cache.size_bytes as f64)
}

/// Why a policy that cuts LLCs in two has nothing to do on a machine.
pub(crate) fn no_two_partitions(machine: &corun_machine::Machine) -> Option<String> {
    let fits = |llc: &corun_machine::Llc| {
        let ways = llc.cache.and_then(|cache| cache.ways.map(|ways| (cache, ways)));
        ways.is_some_and(|(cache, ways)| ways <= 64 && ways >= 2 * cache.min_partition_ways.max(1))
    };
    (!machine.llcs().iter().any(fits)).then(|| {
        "no LLC has ways for two partitions, by the machine's `ways` and `min_partition_ways`"
            .to_owned()
    })
}

/// Can this event show a thread that was not seen before?
pub(super) fn may_show_newcomers(event: &Event) -> bool {
    match event {
        Event::Arrived(_) => true,
        Event::Switched { on, .. } => !on.is_empty(),
        Event::Exited(_) | Event::Slept(_) | Event::Woke(_) => false,
    }
}

impl<S: Scheme> Policy for OnlinePolicy<S> {
    fn name(&self) -> &str {
        self.scheme.name()
    }

    fn needs(&self) -> Needs {
        Needs {
            interval: Interval::Time(LOOK),
            counters: self.scheme.counters(),
            controls: vec![ActionKind::Partition],
            solo_figures: false,
            by_ways: false,
        }
    }

    fn unfit_for(&self, machine: &corun_machine::Machine) -> Option<String> {
        no_two_partitions(machine)
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        may_show_newcomers(event).then(|| {
            self.follow(view);
            self.plan(view)
        })
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.follow(view);
        self.next = LOOK;
        for index in 0..self.llcs.len() {
            if let Some(cache) = cache(view, index) {
                let next = self.llcs[index].look(&mut self.scheme, &cache, &self.pace, view);
                self.next = self.next.min(next).max(SHORTEST_LOOK);
            }
        }
        self.plan(view)
    }

    fn next_interval(&self) -> Option<Nanoseconds> {
        Some(self.next)
    }

    fn not_in_force(&mut self, action: &Action) {
        if let Action::Partition { llc, .. } = action
            && let Some(llc) = self.llcs.get_mut(*llc)
        {
            llc.not_in_force();
        }
    }
}

#[cfg(test)]
mod tests;
