//! Stage B for those who ask for slowdowns and traffic alone: searches ask so for many co-runs of the same programs.

use crate::bandwidth::OwnWait;
use crate::model::Model;
use crate::options::BandwidthModel;
use crate::outcome::{Demand, Pace};
use crate::program::{Flow, Member};
use crate::scratch::Scratch;

impl Model {
    /// The slowdowns and traffic that [`Model::couple`] gives flows, to the last bit, to `each` in their order. Of each flow
    /// its member, the member's figures after stage A, and its pages as in [`Flow::home`].
    pub fn paces<'a>(
        &self,
        flows: impl Iterator<Item = (Member<'a>, &'a Demand, &'a [f64])> + Clone,
        scratch: &mut Scratch,
        mut each: impl FnMut(Pace),
    ) {
        if self.has_pipelines() || self.options().bandwidth == BandwidthModel::None {
            let flow = |(member, &demand, home): (Member<'a>, &Demand, &'a [f64])| Flow {
                member,
                demand,
                home,
            };
            let flows: Vec<Flow<'_>> = flows.map(flow).collect();
            let mut outcomes = Vec::new();
            self.couple(&flows, scratch, &mut outcomes);
            outcomes.iter().for_each(|outcome| each(outcome.pace()));
            return;
        }
        let machine = self.machine();
        let Scratch { domains, shares, retries, busy_threads, .. } = scratch;
        busy_threads.clear();
        busy_threads.resize(machine.cores().len(), 0);
        shares.clear();
        self.domains().clear(domains);
        let mut has_one_part_each = true;
        for (index, (member, demand, home)) in flows.clone().enumerate() {
            let at = machine.cpus()[member.cpu];
            busy_threads[at.core] += 1;
            let from = (member.cpu, at.node);
            let asked = (demand.busy_bytes_per_s, OwnWait::of(demand));
            let (parts, bytes_per_s) = self.domains().add_flow(domains, index, from, home, asked);
            has_one_part_each &= parts == 1;
            shares.push(bytes_per_s);
        }
        if has_one_part_each {
            self.domains().solve_single(self.bandwidth(), domains, shares);
        } else {
            retries.clear();
            retries.resize(shares.len(), 0.0);
            self.domains().solve(self.bandwidth(), domains, shares, retries);
        }
        for ((member, demand, home), &mut through) in flows.zip(shares) {
            let at = machine.cpus()[member.cpu];
            let asked = demand.busy_bytes_per_s;
            let ratio = if through > 0.0 { (asked / through).max(1.0) } else { 1.0 };
            let cpi = self.bandwidth().cpi(demand, self.latency_ratio(at.node, home), ratio);
            let site = self.site(member.cpu);
            let speed = site.smt_speed(busy_threads[at.core]);
            let instructions_per_s = site.clock_hz() / cpi * speed;
            each(Pace {
                slowdown: member.phase().best_instructions_per_s / instructions_per_s,
                bytes_per_s: demand.moved(through) * speed,
            });
        }
    }
}
