//! Stage A: what programs hold of the last-level caches that they share, and their figures there.

use crate::model::Model;
use crate::outcome::{Demand, Outcome};
use crate::program::{Flow, LoadedProgram, Member, Running};
use crate::scratch::{Scratch, recycle};
use crate::site::Site;
use crate::table::{Knot, PhaseTable};

impl Model {
    /// Stage A, the law of space: what each member holds of `capacity_bytes` that they share, and
    /// its figures there, into `out` in the order of the members. All are under one LLC.
    pub fn share(
        &self,
        capacity_bytes: f64,
        members: &[Member<'_>],
        scratch: &mut Scratch,
        out: &mut Vec<Demand>,
    ) {
        out.clear();
        let Some(first) = members.first() else { return };
        let mut tables: Vec<&PhaseTable> = recycle(std::mem::take(&mut scratch.tables));
        if self.has_pipelines() {
            tables.extend(members.iter().map(|member| {
                let cpus = members.iter().map(|other| other.cpu);
                self.table_beside(member, self.busy_threads(member.cpu, cpus))
            }));
        } else {
            tables.extend(members.iter().map(|member| self.table(member)));
        }
        self.divide(self.site(first.cpu), capacity_bytes, &tables, scratch);
        out.extend_from_slice(&scratch.divided);
        scratch.tables = recycle(tables);
    }

    /// The figures of those who share so many bytes of a site's LLC, into `scratch.divided` in their order.
    pub(crate) fn divide(
        &self,
        site: &Site,
        capacity_bytes: f64,
        sharers: &[&PhaseTable],
        scratch: &mut Scratch,
    ) {
        let Scratch { space, shares, knots, divided, .. } = scratch;
        divided.clear();
        let Some(sets) = &site.page_sets else {
            self.law().divide(capacity_bytes, sharers, space, shares);
            divided.extend(sharers.iter().zip(&*shares).map(|(table, &held)| table.demand(held)));
            return;
        };
        knots.clear();
        knots.resize(sharers.len(), Knot::default());
        let sizes = sets.sizes(capacity_bytes);
        let part = (sizes.len() as f64).recip();
        for (index, size) in sizes.into_iter().enumerate() {
            if index > 0 {
                space.go_on();
            }
            self.law().divide(size, sharers, space, shares);
            for ((sum, table), &held) in knots.iter_mut().zip(sharers).zip(&*shares) {
                sum.bytes += part * held;
                if table.fills_sets_alike {
                    sum.add(part, &table.at(held));
                }
            }
        }
        divided.extend(sharers.iter().zip(&*knots).map(|(table, &sum)| {
            if table.fills_sets_alike {
                table.demand_of(sum.by_cycles())
            } else {
                table.demand(sum.bytes)
            }
        }));
    }

    /// A member's figures when it holds so many bytes of its LLC, whoever else runs: for
    /// occupancies that are still filling. Where pages fall on sets at random, these count as filled alike.
    pub fn demand_at(&self, member: &Member<'_>, occupancy_bytes: f64) -> Demand {
        self.table(member).demand(occupancy_bytes)
    }

    /// The same when so many threads of its core are busy, itself included: another figure where they
    /// divide their private caches ([`Model::divides_private_caches`]).
    pub fn demand_beside(
        &self,
        member: &Member<'_>,
        busy_threads: u32,
        occupancy_bytes: f64,
    ) -> Demand {
        self.table_beside(member, busy_threads).demand(occupancy_bytes)
    }

    /// A program's figures alone on a CPU, with the whole LLC.
    pub(crate) fn demand_alone(&self, program: &LoadedProgram, phase: usize, cpu: usize) -> Demand {
        let site = self.site(cpu);
        self.table(&Member { program, phase, cpu }).demand_alone(site, site.llc_bytes)
    }

    /// Bytes that a member holds `seconds` after it held `from_bytes`, if nothing of it is
    /// evicted, at the speed it has on the way.
    pub fn filled_bytes(&self, member: &Member<'_>, from_bytes: f64, seconds: f64) -> f64 {
        let refill = &self.table(member).refill;
        let start = refill.seconds_at(from_bytes);
        if !start.is_finite() {
            return from_bytes;
        }
        let time = start + seconds;
        let mut segment = refill.segment(time);
        refill.at(time, &mut segment).0.max(from_bytes)
    }

    /// Stage A for everything that runs on the machine: each with its figures, into `out` in the order of `running`.
    /// Cache groups are whole LLCs, but for members that name a part of theirs.
    pub fn share_all<'a>(
        &self,
        running: &[Running<'a>],
        scratch: &mut Scratch,
        out: &mut Vec<Flow<'a>>,
    ) {
        let mut order = std::mem::take(&mut scratch.order);
        let mut tables: Vec<&PhaseTable> = recycle(std::mem::take(&mut scratch.tables));
        let cpus = self.machine().cpus();
        order.clear();
        order.extend(running.iter().enumerate().map(|(index, one)| {
            let llc = cpus[one.member.cpu].llc as u64;
            let part = one.group.map_or(0, |group| u64::from(group.id) + 1);
            (llc << 33 | part, index as u32)
        }));
        order.sort_unstable();
        out.clear();
        out.extend(running.iter().map(|one| Flow {
            member: one.member,
            demand: Demand::default(),
            home: one.home,
        }));
        for group in order.chunk_by(|a, b| a.0 == b.0) {
            let first = &running[group[0].1 as usize];
            let site = self.site(first.member.cpu);
            let capacity = first.group.map_or(site.llc_bytes, |group| group.bytes);
            tables.clear();
            tables.extend(group.iter().map(|&(_, index)| {
                let member = &running[index as usize].member;
                if !self.has_pipelines() {
                    return self.table(member);
                }
                let cpus = running.iter().map(|other| other.member.cpu);
                self.table_beside(member, self.busy_threads(member.cpu, cpus))
            }));
            self.divide(site, capacity, &tables, scratch);
            for (&(_, index), &demand) in group.iter().zip(&scratch.divided) {
                out[index as usize].demand = demand;
            }
        }
        scratch.tables = recycle(tables);
        scratch.order = order;
    }

    /// Both stages for everything that runs on the machine, into `out` in the order of `running`.
    /// Cache groups are as in [`Self::share_all`].
    pub fn solve(&self, running: &[Running<'_>], scratch: &mut Scratch, out: &mut Vec<Outcome>) {
        let mut flows: Vec<Flow<'_>> = recycle(std::mem::take(&mut scratch.flows));
        self.share_all(running, scratch, &mut flows);
        self.couple(&flows, scratch, out);
        scratch.flows = recycle(flows);
    }
}
