//! The one table of counters: what can be counted for a thread.
//!
//! A counter is one row of [`counter_table`](crate::counter_table). From the row come its kind, its names,
//! its field in [`Counts`], [`Totals`] and [`Rates`], how the rate follows from the count, its place in
//! recordings, its attribute in Python and its line in docs/recording-file.md. What is left to write for a
//! new counter is its source: the simulator's is `corun_runtime::totals_of`, hardware's is in `corun-linux`.

use serde::{Deserialize, Serialize};

use super::view::Nanoseconds;

/// Calls a macro with the rows of the table of counters.
///
/// A row has the kind, its name in kebab-case and what it is called for people; its field in [`Counts`]; its
/// field in [`Rates`], which is its name in recordings, and its attribute in Python; how the rate follows
/// from the count; and its meaning. `per_s` is a rate over wall-clock time, `scoped` the same for events that
/// may include prefetches, `share_of_cycles` a share of the core cycles, `share_of_time` nanoseconds as a share of the
/// wall-clock time. Gauges are no counts: their field is the one of [`crate::ThreadView`] that holds the value of the
/// moment.
#[macro_export]
macro_rules! counter_table {
    ($with:ident) => {
        $with! {
            counters {
                Instructions "instructions" "instructions"
                    instructions, instructions_per_s, instructions_per_s, per_s,
                    "instructions retired";
                Cycles "cycles" "cycles"
                    cycles, cycles_per_s, cycles_per_s, per_s,
                    "core cycles";
                LlcReferences "llc-references" "LLC references"
                    llc_references, llc_references, llc_references_per_s, scoped,
                    "LLC references";
                LlcMisses "llc-misses" "LLC misses"
                    llc_misses, llc_misses, llc_misses_per_s, scoped,
                    "LLC misses: lines brought from memory";
                L1Accesses "l1-accesses" "L1 accesses"
                    l1_accesses, l1_accesses_per_s, l1_accesses_per_s, per_s,
                    "accesses to the L1 data cache";
                Branches "branches" "branches"
                    branches, branches_per_s, branches_per_s, per_s,
                    "branches";
                MemoryBytes "memory-bytes" "memory traffic"
                    memory_bytes, memory_bytes_per_s, memory_bytes_per_s, per_s,
                    "bytes read from and written to memory";
                MemoryStalls "memory-stalls" "memory stalls"
                    memory_stall_cycles, memory_stall_share, memory_stall_share, share_of_cycles,
                    "core cycles stalled on memory";
                MemoryRetries "memory-retries" "memory retries"
                    memory_retries, memory_retries_per_s, memory_retries_per_s, per_s,
                    "memory requests sent again because the controller's buffer was full";
                ContextSwitches "context-switches" "context switches"
                    context_switches, context_switches_per_s, context_switches_per_s, per_s,
                    "times that a CPU was switched to the thread";
                WakeUps "wake-ups" "wake-ups"
                    wakeups, wakeups_per_s, wakeups_per_s, per_s,
                    "times that the thread was woken";
                RunQueueWait "run-queue-wait" "waits for a CPU"
                    run_queue_wait_ns, run_queue_wait_share, run_queue_wait_share, share_of_time,
                    "time in which the thread could have run and waited for a CPU";
                Idle "idle" "idle time"
                    idle_ns, idle_share, idle_share, share_of_time,
                    "time in which the thread neither ran nor waited for a CPU";
            }
            gauges {
                LlcOccupancy "llc-occupancy" "LLC occupancy"
                    llc_occupancy_bytes,
                    "bytes of the LLC that hold the thread's lines";
            }
        }
    };
}

/// What a count of cache events covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Scope {
    /// Demand loads and stores alone.
    #[default]
    Demand,
    /// Demand and hardware prefetches.
    DemandAndPrefetch,
}

/// A rate of cache events a second, and what it covers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(into = "ScopedRateFields", from = "ScopedRateFields")]
pub struct ScopedRate {
    /// Events a second.
    pub per_s: f64,
    /// What is counted.
    pub scope: Scope,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopedRateFields {
    per_s: f64,
    prefetches: bool,
}

impl From<ScopedRate> for ScopedRateFields {
    fn from(rate: ScopedRate) -> Self {
        Self { per_s: rate.per_s, prefetches: rate.scope == Scope::DemandAndPrefetch }
    }
}

impl From<ScopedRateFields> for ScopedRate {
    fn from(fields: ScopedRateFields) -> Self {
        let scope = if fields.prefetches { Scope::DemandAndPrefetch } else { Scope::Demand };
        Self { per_s: fields.per_s, scope }
    }
}

/// How often something happened to a thread since it came, and over how much wall-clock time that was
/// counted. Both only grow. A source that could not count for a while adds to neither, so that the
/// difference of two counts is always an amount and the time that belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Count {
    /// How often; of a time its nanoseconds.
    pub total: f64,
    /// Wall-clock time in which it was counted.
    pub known: Nanoseconds,
    /// What is counted, of cache events.
    pub scope: Scope,
}

impl Count {
    /// A count of demand events over a time.
    pub const fn new(total: f64, known: Nanoseconds) -> Self {
        Self { total, known, scope: Scope::Demand }
    }

    /// Events a second since an earlier count; none where nothing was counted in between.
    #[inline(always)]
    fn per_s(self, before: Option<Self>, seconds: &mut Seconds) -> Option<f64> {
        let (amount, ns) = self.rise(before)?;
        Some(amount / seconds.of(ns))
    }

    fn between(self, before: Self, done: f64, elapsed: f64) -> Self {
        let ns = self.known.0.saturating_sub(before.known.0) as f64;
        Self {
            total: before.total + (self.total - before.total) * done,
            known: Nanoseconds(before.known.0 + (ns * elapsed).round() as u64),
            scope: self.scope,
        }
    }

    /// The amount since an earlier count and the nanoseconds in which it was counted, above 0.
    #[inline(always)]
    fn rise(self, before: Option<Self>) -> Option<(f64, u64)> {
        let (total, known) = before.map_or((0.0, 0), |before| (before.total, before.known.0));
        let ns = self.known.0.checked_sub(known).filter(|&ns| ns > 0)?;
        Some((self.total - total, ns))
    }
}

/// The last time that was turned into seconds: most counters of a thread are counted over the same time.
#[derive(Default)]
struct Seconds {
    ns: u64,
    seconds: f64,
}

impl Seconds {
    #[inline(always)]
    fn of(&mut self, ns: u64) -> f64 {
        if ns != self.ns {
            *self = Self { ns, seconds: ns as f64 * 1e-9 };
        }
        self.seconds
    }
}

macro_rules! rate_type {
    (per_s) => {
        f64
    };
    (share_of_cycles) => {
        f64
    };
    (share_of_time) => {
        f64
    };
    (scoped) => {
        ScopedRate
    };
}

macro_rules! rate {
    (per_s, $after:expr, $before:expr, $seconds:expr, $cycles:expr) => {
        $after.and_then(|count| count.per_s($before, $seconds))
    };
    (scoped, $after:expr, $before:expr, $seconds:expr, $cycles:expr) => {
        $after.and_then(|count| {
            Some(ScopedRate { per_s: count.per_s($before, $seconds)?, scope: count.scope })
        })
    };
    (share_of_time, $after:expr, $before:expr, $seconds:expr, $cycles:expr) => {
        $after.and_then(|count| Some(count.per_s($before, $seconds)? / NS_PER_S))
    };
    (share_of_cycles, $after:expr, $before:expr, $seconds:expr, $cycles:expr) => {
        $after
            .and_then(|count| count.per_s($before, $seconds))
            .zip($cycles)
            .filter(|(_, cycles)| *cycles > 0.0)
            .map(|(stalled, cycles)| stalled / cycles)
    };
}

/// Nanoseconds of a second.
const NS_PER_S: f64 = 1e9;

macro_rules! map_rate {
    (scoped, $rate:expr, $of:expr) => {
        $rate.map(|rate| ScopedRate { per_s: $of(rate.per_s), ..rate })
    };
    ($rule:ident, $rate:expr, $of:expr) => {
        $rate.map($of)
    };
}

macro_rules! plain_rate {
    (scoped, $rate:expr) => {
        $rate.map(|rate| rate.per_s)
    };
    ($rule:ident, $rate:expr) => {
        $rate
    };
}

/// Events a second and their scope, where a rate is known.
macro_rules! rate_known {
    (per_s, $rate:expr, $cycles:expr, $before:expr) => {
        $rate.map(|per_s| (per_s, Scope::Demand))
    };
    (scoped, $rate:expr, $cycles:expr, $before:expr) => {
        $rate.map(|rate| (rate.per_s, rate.scope))
    };
    (share_of_time, $rate:expr, $cycles:expr, $before:expr) => {
        $rate.map(|share| (share * NS_PER_S, Scope::Demand))
    };
    (share_of_cycles, $rate:expr, $cycles:expr, $before:expr) => {
        match ($rate, $cycles) {
            (Some(share), Some(cycles)) => Some((share * cycles, Scope::Demand)),
            (None, Some(0.0)) if $before.is_some() => Some((0.0, Scope::Demand)),
            _ => None,
        }
    };
}

macro_rules! define {
    (
        counters { $($kind:ident $name:literal $words:literal
            $count:ident, $rate:ident, $attribute:ident, $rule:ident, $meaning:literal;)* }
        gauges { $($gauge:ident $gauge_name:literal $gauge_words:literal
            $field:ident, $gauge_meaning:literal;)* }
    ) => {
        /// The counters that a policy may ask for.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub enum CounterKind {
            $(#[doc = $meaning] #[serde(rename = $name)] $kind,)*
            $(#[doc = $gauge_meaning] #[serde(rename = $gauge_name)] $gauge,)*
        }

        impl CounterKind {
            /// All counters.
            pub const ALL: &[Self] = &[$(Self::$kind,)* $(Self::$gauge,)*];

            /// The name in kebab-case.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                    $(Self::$gauge => $gauge_name,)*
                }
            }

            /// What it is called for people.
            pub fn in_words(self) -> &'static str {
                match self {
                    $(Self::$kind => $words,)*
                    $(Self::$gauge => $gauge_words,)*
                }
            }
        }

        /// What was counted for a thread since it came: only grows. Absent is unknown, never zero.
        #[derive(Debug, Clone, Copy, PartialEq, Default)]
        pub struct Counts {
            /// Nanoseconds on CPUs.
            pub cpu_time: Option<Count>,
            /// Of these, nanoseconds in which it waited for other threads in a loop.
            pub spin_time: Option<Count>,
            $(#[doc = $meaning] pub $count: Option<Count>,)*
        }

        /// What was counted for a thread in a policy's last interval, as rates over the wall-clock time in
        /// which it was counted. Absent is unknown, never zero; a thread that did not run has rates of
        /// zero.
        #[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
        pub struct Rates {
            /// Share of the time that the thread was on a CPU, 0 to 1.
            #[serde(skip)]
            pub cpu_share: Option<f64>,
            /// Share of its CPU time in which it waited for other threads in a loop, 0 to 1. What the loop
            /// retired is in the other rates.
            #[serde(skip)]
            pub spin_share: Option<f64>,
            $(
                #[doc = concat!("Of [`Counts::", stringify!($count), "`]: ", $meaning)]
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $rate: Option<rate_type!($rule)>,
            )*
        }

        /// Sums of everything in the table, each of them known: what a model counts.
        #[derive(Debug, Clone, Copy, PartialEq, Default)]
        pub struct Totals {
            /// Nanoseconds on CPUs.
            pub cpu_ns: u64,
            /// Of these, nanoseconds in which it waited for other threads in a loop.
            pub spin_ns: u64,
            $(#[doc = $meaning] pub $count: f64,)*
        }

        impl Counts {
            /// The rates from an earlier moment of the same thread to this one.
            pub fn since(&self, before: &Self) -> Rates {
                let seconds = &mut Seconds::default();
                let cycles = self.cycles.and_then(|count| count.per_s(before.cycles, seconds));
                let on_cpu = self.cpu_time.and_then(|count| count.rise(before.cpu_time));
                let spun = self.spin_time.and_then(|count| count.rise(before.spin_time));
                Rates {
                    cpu_share: on_cpu.map(|(ran, ns)| ran / ns as f64),
                    spin_share: on_cpu.zip(spun).map(|((ran, _), (spun, _))| spun / ran.max(1.0)),
                    $($rate: rate!($rule, self.$count, before.$count, seconds, cycles),)*
                }
            }

            /// What was counted by a moment between an earlier one of the same thread and this one. `done`: the
            /// share of what was counted since the earlier one that happened by then; `elapsed`: the share of the
            /// time; each 0 to 1.
            pub fn between(&self, before: &Self, done: f64, elapsed: f64) -> Self {
                let of = |now: Option<Count>, before: Option<Count>| {
                    Some(now?.between(before.unwrap_or_default(), done, elapsed))
                };
                Self {
                    cpu_time: of(self.cpu_time, before.cpu_time),
                    spin_time: of(self.spin_time, before.spin_time),
                    $($count: of(self.$count, before.$count),)*
                }
            }

            /// Seconds on CPUs.
            pub fn cpu_s(&self) -> Option<f64> {
                self.cpu_time.map(|count| count.total * 1e-9)
            }

            /// Takes in what happened in `elapsed`; 0 for what did not happen, nothing for what could not
            /// be counted. 0 in no time says that counting begins now. Gauges are no counts and are left out.
            pub fn add(&mut self, kind: CounterKind, amount: f64, elapsed: Nanoseconds, scope: Scope) {
                let count = match kind {
                    $(CounterKind::$kind => &mut self.$count,)*
                    $(CounterKind::$gauge => return,)*
                };
                let count = count.get_or_insert_default();
                count.total += amount;
                count.known.0 += elapsed.0;
                count.scope = scope;
            }
        }

        impl Counts {
            /// Takes in what happened in `elapsed` at these rates. What they do not know adds nothing; of a
            /// thread that made no cycle, no cycle was stalled.
            pub fn add_rates(&mut self, rates: &Rates, elapsed: Nanoseconds) {
                let seconds = elapsed.as_secs_f64();
                $(
                    let rate = rate_known!($rule, rates.$rate, rates.cycles_per_s, self.$count);
                    if let Some((per_s, scope)) = rate {
                        self.add(CounterKind::$kind, per_s * seconds, elapsed, scope);
                    }
                )*
            }

            /// Takes in what a model says that happened in `elapsed`; the times are not taken over.
            pub fn add_totals(&mut self, totals: &Totals, elapsed: Nanoseconds, scope: Scope) {
                $(self.add(CounterKind::$kind, totals.$count, elapsed, scope);)*
            }
        }

        impl Rates {
            /// The same with another value for each rate that stands in recordings.
            pub fn map(&self, of: impl Fn(f64) -> f64) -> Self {
                Self { $($rate: map_rate!($rule, self.$rate, &of),)* ..*self }
            }

            /// The rates that stand in recordings, by field name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, Option<f64>)> {
                [$((stringify!($rate), plain_rate!($rule, self.$rate)),)*].into_iter()
            }
        }

        impl Totals {
            /// Adds what happened since.
            pub fn add(&mut self, more: &Self) {
                self.cpu_ns += more.cpu_ns;
                self.spin_ns += more.spin_ns;
                $(self.$count += more.$count;)*
            }

            /// How much of a counter there was; none of a gauge, which is no sum.
            pub fn of(&self, kind: CounterKind) -> Option<f64> {
                match kind {
                    $(CounterKind::$kind => Some(self.$count),)*
                    $(CounterKind::$gauge => None,)*
                }
            }

            /// As counts since a thread came, `known` ago.
            pub fn counts(&self, known: Nanoseconds, scope: Scope) -> Counts {
                let count = |total: f64| Some(Count { total, known, scope });
                Counts {
                    cpu_time: count(self.cpu_ns as f64),
                    spin_time: count(self.spin_ns as f64),
                    $($count: count(self.$count),)*
                }
            }
        }

        /// The rows for people: name, count, rate, attribute in Python and meaning; a gauge has its field.
        #[cfg(test)]
        fn rows() -> Vec<[&'static str; 5]> {
            vec![
                $([$name, stringify!($count), stringify!($rate), stringify!($attribute), $meaning],)*
                $([$gauge_name, "", stringify!($field), "", $gauge_meaning],)*
            ]
        }
    };
}

counter_table!(define);

impl CounterKind {
    /// What the kernel's scheduler knows of a thread. The hardware and the models count none of these.
    pub const OF_SCHEDULER: [Self; 4] =
        [Self::ContextSwitches, Self::WakeUps, Self::RunQueueWait, Self::Idle];

    /// Is it one of [`Self::OF_SCHEDULER`]?
    pub fn is_of_scheduler(self) -> bool {
        Self::OF_SCHEDULER.contains(&self)
    }
}

impl Counts {
    /// Takes what the scheduler counts from another: for a source that counts all else.
    pub fn keep_of_scheduler(&mut self, from: &Self) {
        self.context_switches = from.context_switches;
        self.wakeups = from.wakeups;
        self.run_queue_wait_ns = from.run_queue_wait_ns;
        self.idle_ns = from.idle_ns;
    }
}

impl Rates {
    /// LLC misses per 1000 instructions; none when unknown or when no instruction was retired.
    pub fn llc_mpki(&self) -> Option<f64> {
        per_1000(self.llc_misses?.per_s, self.instructions_per_s?)
    }

    /// LLC references per 1000 instructions.
    pub fn llc_apki(&self) -> Option<f64> {
        per_1000(self.llc_references?.per_s, self.instructions_per_s?)
    }

    /// LLC misses per 1000 cycles.
    pub fn llc_mpkc(&self) -> Option<f64> {
        per_1000(self.llc_misses?.per_s, self.cycles_per_s?)
    }

    /// Instructions per cycle.
    pub fn ipc(&self) -> Option<f64> {
        per_1000(self.instructions_per_s?, self.cycles_per_s?).map(|pkc| pkc / 1000.0)
    }
}

fn per_1000(events_per_s: f64, base_per_s: f64) -> Option<f64> {
    (base_per_s > 0.0).then(|| 1000.0 * events_per_s / base_per_s)
}

#[cfg(test)]
mod tests;
