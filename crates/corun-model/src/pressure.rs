//! What the programs of an LLC do to each other, as two figures.
//!
//! Under the law of a shared LRU cache ([`SpaceLaw::FillTime`]) the lines of all programs of an LLC stay for the same
//! time after their last use, and what a program holds follows from that time. On a bandwidth domain what a flow gets
//! follows from what it asks for and from the share of the time in which the domain is idle. So every slowdown on an LLC
//! follows from these two figures, whoever makes them what they are: a bound on all co-runs need not look at each.

use crate::bandwidth::OwnWait;
use crate::bandwidth::loaded::Latency;
use crate::model::Model;
use crate::options::{Compatibility, SpaceLaw};
use crate::outcome::Demand;
use crate::program::Member;
use crate::stretch::{PassedDomain, Stretched};

/// How hard an LLC and the first bandwidth domain behind it are pressed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pressure {
    /// Seconds for which a line stays in the LLC after its last use; infinite where all lines have room.
    pub line_life_s: f64,
    /// Share of the time in which the domain is idle, 0 to 1.
    pub idle: f64,
}

/// What a thread is at least, whatever the pressure between two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeastFigures {
    /// Bytes of the LLC that it holds.
    pub bytes: f64,
    /// Share of the time for which it keeps the domain busy.
    pub busy: f64,
    /// Slowdown against alone on the fastest CPU of the machine.
    pub slowdown: f64,
}

/// What a member of some bytes suffers at the softer pressure.
#[derive(Clone, Copy)]
struct Suffered {
    line: Stretched,
    ratio: f64,
}

impl Suffered {
    /// A slowdown that nobody between two sizes is below: each of the figures is monotone between them.
    fn least_slowdown(self, other: Self) -> f64 {
        let ratio = self.ratio.min(other.ratio);
        self.line.solo.min(other.line.solo)
            + self.line.per_ratio.min(other.line.per_ratio) * (ratio - 1.0)
    }
}

impl Model {
    /// Do all slowdowns under an LLC follow from its [`Pressure`]? Not under other laws of space than that of an LRU
    /// cache, not where its sets get pages at random, which has many such times, not by a bandwidth model in which a flow's
    /// part depends on more than the idle time, and not in a fine-grained pipeline.
    pub fn is_told_by_pressure(&self) -> bool {
        let options = self.options();
        options.space == SpaceLaw::FillTime
            && options.compatibility == Compatibility::Own
            && !self.has_pipelines()
            && self.fills_sets_alike()
            && self
                .bandwidth()
                .part(0.5, OwnWait::of(&Demand::default()), &Latency::usual(), 0.5)
                .is_some()
    }

    /// Seconds for which lines stay where what a member holds of its LLC bends, rising; beyond the last it holds no
    /// more.
    pub fn line_lives_s<'a>(&self, member: &Member<'a>) -> &'a [f64] {
        &self.table(member).fill.seconds
    }

    /// What a member is at least while the pressure is between two: `hard` with the shorter life of lines and the less
    /// idle domain. Its pages are on its own node. Domains behind the first only take more from it. None where
    /// [`Self::is_told_by_pressure`] is false.
    pub fn least_between(
        &self,
        member: &Member<'_>,
        hard: Pressure,
        soft: Pressure,
    ) -> Option<LeastFigures> {
        let table = self.table(member);
        let node = self.machine().cpus()[member.cpu].node;
        let domain = self.domains().passed(member.cpu, node).next();
        let least = table.fill.at(hard.line_life_s, &mut 0).0.max(0.0);
        let most = table.most_held(soft.line_life_s).max(least);
        let mut found = LeastFigures { bytes: least, busy: f64::INFINITY, slowdown: f64::INFINITY };
        let mut last: Option<Suffered> = None;
        for bytes in table.sizes_between(least, most) {
            let demand = table.demand(bytes);
            let line = self.stretched(member, &demand, 1);
            let (busy, ratio) = match &domain {
                Some(domain) => self.part_between(domain, &demand, hard.idle, soft.idle)?,
                None => (0.0, 1.0),
            };
            let now = Suffered { line, ratio };
            found.busy = found.busy.min(busy);
            found.slowdown = found.slowdown.min(now.least_slowdown(last.unwrap_or(now)));
            last = Some(now);
        }
        Some(found)
    }

    /// For how much of the time a flow keeps a domain busy at the less idle end, and B / B' at the other.
    fn part_between(
        &self,
        domain: &PassedDomain,
        demand: &Demand,
        least_idle: f64,
        most_idle: f64,
    ) -> Option<(f64, f64)> {
        let asked = demand.busy_bytes_per_s / domain.peak_bytes_per_s;
        let solo = asked.min(self.options().solo_share());
        let latency = self.domains().latency(domain.domain);
        let part = |idle| self.bandwidth().part(solo, OwnWait::of(demand), latency, idle);
        let (least, most) = (part(least_idle)?.busy, part(most_idle)?.through);
        Some((least, if most > 0.0 { (asked / most).max(1.0) } else { 1.0 }))
    }
}
