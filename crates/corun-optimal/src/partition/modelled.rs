//! Clusters as corun-model sees them.

use corun_model::{
    BandwidthModel, CacheGroup, DEFAULT_SOLO_PEAK_SHARE, Demand, Member, Model, Outcome,
    PassedDomain, Running, Scratch,
};

use crate::partition::bandwidth_coupling::{BandwidthCoupling, SlowdownLine};
use crate::partition::error::PartitionSearchError;
use crate::partition::table::ClusterModel;

/// Members on one LLC, what limits their traffic, and the size of a way.
#[derive(Debug, Clone)]
pub(crate) struct ModelledLlc<'p> {
    pub(crate) model: &'p Model,
    pub(crate) members: Vec<Member<'p>>,
    pub(crate) way_bytes: f64,
    pub(crate) law: BandwidthCoupling,
    /// Is that law the model's? Where latency under load was measured it is only near to it, and proves nothing.
    pub(crate) is_exact: bool,
    /// Of the domain in which all meet, in bytes a second; 1 where there is none.
    pub(crate) peak_bytes_per_s: f64,
    /// The most that a program alone draws of the peak.
    solo_share: f64,
    /// Busy threads of each member's core.
    busy: Vec<u32>,
}

impl<'p> ModelledLlc<'p> {
    pub(crate) fn new(
        model: &'p Model,
        members: &[Member<'p>],
    ) -> Result<Self, PartitionSearchError> {
        let machine = model.machine();
        let first = members.first().ok_or(PartitionSearchError::NoProgram)?;
        let llc_of = |member: &Member<'_>| machine.cpus()[member.cpu].llc;
        for (index, member) in members.iter().enumerate() {
            if llc_of(member) != llc_of(first) {
                let (first, other) = (llc_of(first), llc_of(member));
                return Err(PartitionSearchError::SeveralLlcs { first, other });
            }
            if members[..index].iter().any(|other| other.cpu == member.cpu) {
                return Err(PartitionSearchError::SameCpu { cpu: member.cpu });
            }
        }
        let core = |member: &Member<'_>| machine.cpus()[member.cpu].core;
        let busy = |member: &Member<'_>| {
            members.iter().filter(|other| core(other) == core(member)).count()
        };
        let shared =
            |member: &&Member<'_>| busy(member) > 1 && model.divides_private_caches(member.cpu);
        if let Some(member) = members.iter().find(shared) {
            return Err(PartitionSearchError::SharedPipeline { cpu: member.cpu });
        }
        let size = machine.llcs()[llc_of(first)].cache.map_or(0, |cache| cache.size_bytes);
        let options = model.options();
        let mut modelled = Self {
            model,
            members: members.to_vec(),
            way_bytes: size as f64 / f64::from(model.llc_ways(first.cpu)),
            law: BandwidthCoupling::Free,
            is_exact: true,
            peak_bytes_per_s: 1.0,
            solo_share: options.solo_peak_share.unwrap_or(DEFAULT_SOLO_PEAK_SHARE),
            busy: members.iter().map(|member| busy(member) as u32).collect(),
        };
        if options.bandwidth != BandwidthModel::None
            && let Some(meeting) = modelled.meeting_place()?
        {
            modelled.law = match options.bandwidth {
                BandwidthModel::None => BandwidthCoupling::Free,
                BandwidthModel::Simple => BandwidthCoupling::Simple,
                BandwidthModel::Loaded => BandwidthCoupling::Loaded { queueing: meeting.queueing },
                BandwidthModel::Morad
                | BandwidthModel::Stalls
                | BandwidthModel::Additive
                | BandwidthModel::ByMachine => BandwidthCoupling::Morad,
            };
            modelled.is_exact = options.bandwidth != BandwidthModel::Loaded || meeting.is_queue;
            modelled.peak_bytes_per_s = meeting.peak_bytes_per_s;
        }
        Ok(modelled)
    }

    /// The one domain that all members pass. A domain that one alone passes takes nothing from it: the
    /// most that it draws is below each peak already.
    fn meeting_place(&self) -> Result<Option<PassedDomain>, PartitionSearchError> {
        let ways: Vec<_> =
            self.members.iter().map(|member| self.model.local_domains(member.cpu)).collect();
        let users = |domain: usize| {
            ways.iter().filter(|way| way.iter().any(|d| d.domain == domain)).count()
        };
        let mut shared: Vec<PassedDomain> =
            ways.iter().flatten().filter(|one| users(one.domain) > 1).copied().collect();
        shared.sort_by_key(|one| one.domain);
        shared.dedup_by_key(|one| one.domain);
        match *shared {
            [] => Ok(None),
            [one] if users(one.domain) == self.members.len() => Ok(Some(one)),
            _ => Err(PartitionSearchError::SeveralDomains { domains: shared.len() }),
        }
    }

    /// Is the traffic of its members as many bytes as they keep the memory busy with?
    pub(crate) fn counts_bytes(&self) -> bool {
        !self.members.iter().any(|member| self.model.weighs_written_lines(member.cpu))
    }

    /// Speeds of the members' hardware threads, relative to a core of their own.
    pub(crate) fn speeds(&self) -> Vec<f64> {
        let each = self.members.iter().zip(&self.busy);
        each.map(|(member, &busy)| self.model.thread_speed(member.cpu, busy)).collect()
    }

    /// The model's outcomes of a partition, by program.
    pub(crate) fn outcomes(&self, clusters: &[(Vec<usize>, u32)]) -> Vec<Outcome> {
        let mut running = Vec::with_capacity(self.members.len());
        let mut order = Vec::with_capacity(self.members.len());
        for (id, (programs, ways)) in clusters.iter().enumerate() {
            let group = CacheGroup { id: id as u32, bytes: f64::from(*ways) * self.way_bytes };
            for &program in programs {
                let member = self.members[program];
                running.push(Running { member, home: &[], group: Some(group) });
                order.push(program);
            }
        }
        let mut outcomes = Vec::new();
        self.model.solve(&running, &mut Scratch::new(), &mut outcomes);
        let mut by_program = vec![Outcome::default(); outcomes.len()];
        for (program, outcome) in order.into_iter().zip(outcomes) {
            by_program[program] = outcome;
        }
        by_program
    }
}

/// Working memory.
#[derive(Default)]
pub(crate) struct ShareScratch {
    scratch: Scratch,
    demands: Vec<Demand>,
}

impl ClusterModel for ModelledLlc<'_> {
    type Scratch = ShareScratch;

    fn lines(
        &self,
        programs: &[usize],
        ways: u32,
        scratch: &mut ShareScratch,
        out: &mut Vec<SlowdownLine>,
    ) {
        let several: Vec<Member<'_>>;
        let members = match *programs {
            [alone] => std::slice::from_ref(&self.members[alone]),
            _ => {
                several = programs.iter().map(|&program| self.members[program]).collect();
                &several
            }
        };
        let capacity = f64::from(ways) * self.way_bytes;
        self.model.share(capacity, members, &mut scratch.scratch, &mut scratch.demands);
        let each = programs.iter().zip(members).zip(&scratch.demands);
        out.extend(each.map(|((&program, member), demand)| {
            let stretched = self.model.stretched(member, demand, self.busy[program]);
            let asked = demand.busy_bytes_per_s / self.peak_bytes_per_s;
            let counted = if self.law == BandwidthCoupling::Free {
                asked
            } else {
                asked.min(self.solo_share)
            };
            self.law.line(stretched.solo, stretched.per_ratio, asked, counted)
        }));
    }
}
