//! Stage B for those who ask for slowdowns alone, of programs that have their pages on their own node: a fleet asks so for
//! millions of nodes.

use crate::model::Model;
use crate::options::BandwidthModel;
use crate::outcome::Demand;
use crate::program::{Flow, Member};
use crate::scratch::Scratch;

impl Model {
    /// The slowdowns that [`Model::couple`] gives flows whose pages are on their own node, to the last bit, into `out` in
    /// the order of the members. Of each member its figures after stage A.
    pub fn local_slowdowns<'a>(
        &self,
        members: impl Iterator<Item = (Member<'a>, &'a Demand)> + Clone,
        scratch: &mut Scratch,
        out: &mut Vec<f64>,
    ) {
        out.clear();
        if self.has_pipelines() || self.options().bandwidth == BandwidthModel::None {
            let flow =
                |(member, &demand): (Member<'a>, &Demand)| Flow { member, demand, home: &[] };
            let flows: Vec<Flow<'_>> = members.map(flow).collect();
            let mut outcomes = Vec::new();
            self.couple(&flows, scratch, &mut outcomes);
            out.extend(outcomes.iter().map(|one| one.slowdown));
            return;
        }
        let machine = self.machine();
        let Scratch { domains, busy_threads, .. } = scratch;
        busy_threads.clear();
        busy_threads.resize(machine.cores().len(), 0);
        self.domains().clear(domains);
        for (index, (member, demand)) in members.clone().enumerate() {
            let at = machine.cpus()[member.cpu];
            busy_threads[at.core] += 1;
            self.domains().add(domains, index, member.cpu, at.node, demand.bytes_per_s);
            out.push(demand.bytes_per_s);
        }
        self.domains().solve_single(self.bandwidth(), domains, out);
        for ((member, demand), figure) in members.zip(out) {
            let asked = demand.bytes_per_s;
            let ratio = if *figure > 0.0 { (asked / *figure).max(1.0) } else { 1.0 };
            let cpi = self.bandwidth().cpi(demand, 1.0, ratio);
            let site = self.site(member.cpu);
            let speed = site.smt_speed(busy_threads[machine.cpus()[member.cpu].core]);
            let instructions_per_s = site.clock_hz() / cpi * speed;
            *figure = member.phase().best_instructions_per_s / instructions_per_s;
        }
    }
}
