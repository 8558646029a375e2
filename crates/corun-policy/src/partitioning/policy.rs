//! A partitioner as a policy: on every LLC, for the programs whose threads are there.

use std::fmt::Write as _;
use std::sync::Arc;

use super::asked::{Division, InForce};
use super::members::{Members, is_among, members, peak_bytes_per_s};
use super::{Input, Partition, Partitioner};
use crate::{
    Action, ActionKind, CachePart, Event, Interval, Nanoseconds, Needs, Plan, Policy, ProcessId,
    ThreadId, View, WaysCurve,
};

/// How often LFOC and Dunn decide anew (García García, thesis, UCM 2021, section 6.4.2).
const INTERVAL: Nanoseconds = Nanoseconds(500_000_000);

/// Runs a [`Partitioner`] on every LLC. A program is a process: its threads on an LLC share a
/// partition there. It acts when who is on an LLC has changed: at once when threads come, else at
/// the next interval, because a program that ends is often started again at once.
pub(crate) struct PartitionPolicy {
    name: &'static str,
    partitioner: Box<dyn Partitioner>,
    caps: bool,
    /// By LLC: who it was last decided for.
    decided: Vec<Members>,
    /// By LLC: what was asked for.
    asked: Vec<InForce>,
    partition: Partition,
}

impl PartitionPolicy {
    pub(crate) fn new(name: &'static str, partitioner: Box<dyn Partitioner>, caps: bool) -> Self {
        let partition = Partition::default();
        Self { name, partitioner, caps, decided: Vec::new(), asked: Vec::new(), partition }
    }

    fn plan(&mut self, view: &View<'_>) -> Plan {
        let llcs = view.machine.llcs();
        self.decided.resize(llcs.len(), Members::new());
        self.asked.resize_with(llcs.len(), InForce::default);
        let mut plan = Plan::none();
        let members = members(view);
        for (llc, members) in members.into_iter().enumerate() {
            if members == self.decided[llc] {
                continue;
            }
            let (division, reason) = self.ask(llc, &members, view);
            self.decided[llc] = members;
            let asked = (llc, division);
            self.asked[llc].ask(asked, || reason.clone(), "streaming, capped", view, &mut plan);
        }
        plan
    }

    /// What the programs on an LLC shall have, and why. Where there is no partition (too many programs,
    /// a figure missing, one program alone) the LLC stays whole.
    fn ask(&mut self, llc: usize, members: &Members, view: &View<'_>) -> (Division, String) {
        let program = |(_, threads): &(ProcessId, Vec<ThreadId>)| {
            let thread = view.thread(threads[0]);
            let figures = thread.and_then(|thread| thread.by_ways.as_ref());
            Some((thread?.program.as_str(), Arc::as_ref(figures?)))
        };
        let whole = |why: &str| {
            let names = members.iter().filter_map(|(_, threads)| view.thread(threads[0]));
            let names: Vec<&str> = names.map(|thread| thread.program.as_str()).collect();
            let reason = match names.is_empty() {
                true => format!("LLC {llc} whole: nobody is on it"),
                false => format!("LLC {llc} whole for {}: {why}", names.join(", ")),
            };
            (Division::default(), reason)
        };
        let Some(programs) = members.iter().map(program).collect::<Option<Vec<_>>>() else {
            return whole("a program without figures by ways");
        };
        let cache = view.machine.llcs()[llc].cache;
        let Some(ways) = cache.and_then(|cache| cache.ways) else {
            return whole("its ways are not known");
        };
        if programs.len() < 2 {
            return whole("nobody to part");
        }
        let curves: Vec<&WaysCurve> = programs.iter().map(|(_, curve)| *curve).collect();
        let input = Input {
            curves: &curves,
            ways,
            least_ways: cache.map_or(1, |cache| cache.min_partition_ways),
            peak_bytes_per_s: peak_bytes_per_s(view.machine, llc),
        };
        if let Err(error) = self.partitioner.partition(&input, &mut self.partition) {
            return whole(&error.to_string());
        }
        let threads = |place: usize| members[place].1.iter().copied();
        let mut asked = Division::default();
        let mut reason = format!("LLC {llc}");
        for (cluster, &mask) in self.partition.masks.iter().enumerate() {
            let mut part = CachePart { mask, threads: Vec::new() };
            let count = mask.count_ones();
            let _ = write!(reason, "; {count} of {ways} ways:");
            let places = (0..members.len()).filter(|&one| self.partition.cluster[one] == cluster);
            for (number, place) in places.enumerate() {
                part.threads.extend(threads(place));
                let (name, curve) = programs[place];
                let why = self.partitioner.reason(curve, count);
                let comma = if number == 0 { "" } else { "," };
                let _ = write!(reason, "{comma} {name} ({why})");
            }
            asked.parts.push(part);
        }
        for (number, &place) in self.partitioner.slower_than_asked().iter().enumerate() {
            let lead = if number == 0 { "; slower than asked:" } else { "," };
            let _ = write!(reason, "{lead} {}", programs[place].0);
        }
        for cap in &self.partition.caps {
            let of = cap.programs.iter().flat_map(|&place| threads(place)).collect();
            asked.caps.push((of, cap.bytes_per_s * 1e-6));
        }
        if let [only] = &asked.parts[..]
            && only.mask.count_ones() == ways
        {
            asked.parts.clear();
        }
        (asked, reason)
    }
}

impl Policy for PartitionPolicy {
    fn name(&self) -> &str {
        self.name
    }

    fn needs(&self) -> Needs {
        let mut controls = vec![ActionKind::Partition];
        if self.caps {
            controls.push(ActionKind::CapBandwidth);
        }
        Needs {
            interval: Interval::Time(INTERVAL),
            counters: Vec::new(),
            controls,
            solo_figures: false,
            by_ways: true,
        }
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        let came = match event {
            Event::Arrived(_) => true,
            Event::Switched { on, .. } => !on.is_empty(),
            Event::Exited(_) | Event::Slept(_) | Event::Woke(_) => false,
        };
        came.then(|| self.plan(view))
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        for (asked, decided) in self.asked.iter_mut().zip(&mut self.decided) {
            if asked.begin_interval() {
                decided.clear();
            }
        }
        self.plan(view)
    }

    fn not_in_force(&mut self, action: &Action) {
        for (llc, (asked, members)) in self.asked.iter_mut().zip(&self.decided).enumerate() {
            asked.not_in_force(llc, |one| is_among(members, *one), action);
        }
    }
}

#[cfg(test)]
mod tests;
