//! Replays that this process has made before.
//!
//! Replaying a program's micro-traces is most of what loading a program takes, and depends on nothing but the program and
//! the site. A server that answers question after question, a Python process and a run of many studies load the same programs
//! on the same machines again and again, each time for a model of its own.
//!
//! Replays are made of phases and sites without what replays do not read, so that phases and sites that differ in nothing
//! else share them: two machines with one core and one LLC but different memory controllers, or a program with and without
//! a share of misses that is foreseen.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use corun_profile::{InstructionMix, MicroTrace, MicroTraces, Phase, Recording};
use rayon::prelude::*;

use crate::ModelError;
use crate::core::SampledPhase;
use crate::kept_replays::KeptReplays;
use crate::replayed::{self, Point};
use crate::site::Site;

/// Phases that are kept at most, each with its sites: some 10 KiB, and 2 KiB a site. All are forgotten beyond.
const MOST_PHASES: usize = 1024;

/// Sites of a phase that are kept at most.
const MOST_SITES: usize = 32;

/// A phase of a recording ([`for_replays`]) and what its replays found, by site ([`Site::for_replays`]).
struct Known {
    traces: MicroTraces,
    /// As in [`Replays`].
    most_pages: f32,
    phase: Phase,
    by_site: Vec<(Site, Arc<[Point]>)>,
}

/// Misses of the smallest cache of a phase's curve and its mispredicted branches, as bits: few phases share both.
type Key = (u64, u64);

static KNOWN: LazyLock<Mutex<HashMap<Key, Vec<Known>>>> = LazyLock::new(Mutex::default);

fn key(phase: &Phase) -> Key {
    let mispredicted = phase.core.as_ref().map_or(0.0, |core| core.mispredicted_large_pki);
    (phase.curve.points()[0].mpki.to_bits(), mispredicted.to_bits())
}

/// A phase without what no replay reads: two phases that replays cannot tell apart are equal.
fn for_replays(phase: &Phase) -> Phase {
    Phase {
        instructions: 0,
        threads: 0,
        data_accesses_pki: 0.0,
        mix: InstructionMix {
            mispredicted_pki: phase.mix.mispredicted_pki,
            ..InstructionMix::default()
        },
        prefetchable: 0.0,
        memory_level_parallelism: 0.0,
        dirty_share: 0.0,
        footprint_bytes: 0,
        curve: phase.curve.clone(),
        core: phase.core.clone(),
    }
}

impl Known {
    fn is_of(&self, phase: &Phase, of: &Replays<'_>) -> bool {
        self.phase == *phase && self.most_pages == of.most_pages && self.traces == *of.packed
    }
}

/// The replays of a recording's phases.
pub(crate) struct Replays<'a> {
    program: &'a str,
    packed: &'a MicroTraces,
    /// Of [`SampledPhase::with_most_pages`]; infinite where it is not known.
    most_pages: f32,
    unpacked: OnceLock<Result<Vec<MicroTrace>, ModelError>>,
}

impl<'a> Replays<'a> {
    /// Of a program with this recording, whose micro-traces are unpacked when a replay is not known.
    pub(crate) fn of(program: &'a str, recording: &'a Recording) -> Self {
        let most_pages = recording.most_pages().map_or(f32::INFINITY, |pages| pages as f32);
        Self { program, packed: &recording.micro_traces, most_pages, unpacked: OnceLock::new() }
    }

    /// What replays of a phase find at each site, in their order; none where no traces stand for the phase.
    ///
    /// # Errors
    /// [`ModelError::MicroTraces`] when the traces cannot be unpacked.
    pub(crate) fn points(
        &self,
        phase: &Phase,
        sites: &[Site],
    ) -> Result<Option<Vec<Arc<[Point]>>>, ModelError> {
        let phase = &for_replays(phase);
        let mut different: Vec<Site> = Vec::new();
        let mut place_of = Vec::with_capacity(sites.len());
        for site in sites.iter().map(Site::for_replays) {
            let known = different.iter().position(|one| *one == site);
            place_of.push(known.unwrap_or(different.len()));
            if known.is_none() {
                different.push(site);
            }
        }
        let found = self.points_of_different(phase, &different)?;
        Ok(found.map(|all| place_of.into_iter().map(|place| all[place].clone()).collect()))
    }

    fn points_of_different(
        &self,
        phase: &Phase,
        sites: &[Site],
    ) -> Result<Option<Vec<Arc<[Point]>>>, ModelError> {
        let mut known: Vec<_> = sites.iter().map(|site| self.known(phase, site)).collect();
        if let Some(all) = known.iter().cloned().collect() {
            return Ok(Some(all));
        }
        let kept = KeptReplays::of(phase, self.packed, self.most_pages);
        if let Some(kept) = &kept {
            for (known, site) in known.iter_mut().zip(sites).filter(|one| one.0.is_none()) {
                *known = kept.points(site).map(|points| self.remember(phase, site, points.into()));
            }
        }
        if let Some(all) = known.iter().cloned().collect() {
            return Ok(Some(all));
        }
        let traces = self.unpacked()?;
        let core = phase.core.as_ref();
        let sampled = core.and_then(|core| SampledPhase::new(phase, core, traces));
        let Some(sampled) = sampled.map(|one| one.with_most_pages(self.most_pages)) else {
            return Ok(None);
        };
        let replayed = |site| {
            let points = replayed::points(phase, &sampled, site).into();
            self.remember(phase, site, points)
        };
        let all: Vec<_> = known
            .par_iter()
            .zip(sites)
            .map(|(known, site)| known.clone().unwrap_or_else(|| replayed(site)))
            .collect();
        if let Some(kept) = kept {
            let made = known.iter().zip(sites.iter().zip(&all)).filter(|one| one.0.is_none());
            kept.add(made.map(|(_, (site, points))| (site, &points[..])));
        }
        Ok(Some(all))
    }

    fn unpacked(&self) -> Result<&[MicroTrace], ModelError> {
        let unpacked = self.unpacked.get_or_init(|| crate::core::unpack(self.program, self.packed));
        unpacked.as_deref().map_err(Clone::clone)
    }

    fn known(&self, phase: &Phase, site: &Site) -> Option<Arc<[Point]>> {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let one = known.get(&key(phase))?.iter().find(|one| one.is_of(phase, self))?;
        let (_, points) = one.by_site.iter().find(|(at, _)| at == site)?;
        Some(points.clone())
    }

    /// From now on these replays of a phase at a site are known.
    fn remember(&self, phase: &Phase, site: &Site, points: Arc<[Point]>) -> Arc<[Point]> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if known.values().map(Vec::len).sum::<usize>() >= MOST_PHASES {
            known.clear();
        }
        let of_key = known.entry(key(phase)).or_default();
        let place = of_key.iter().position(|one| one.is_of(phase, self));
        let place = place.unwrap_or_else(|| {
            let (traces, phase) = (self.packed.clone(), phase.clone());
            of_key.push(Known { traces, most_pages: self.most_pages, phase, by_site: Vec::new() });
            of_key.len() - 1
        });
        let by_site = &mut of_key[place].by_site;
        if by_site.len() >= MOST_SITES {
            by_site.clear();
        }
        by_site.push((site.clone(), points.clone()));
        points
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use corun_machine::preset;
    use corun_profile::{CoreDetail, Library, ProfileData, Recording};

    use super::*;
    use crate::{Model, ModelOptions};

    pub(crate) fn recording(name: &str) -> Recording {
        let library = Library::shipped().unwrap();
        let ProfileData::Recording(recording) = &library.get(name).unwrap().data else {
            panic!("{name} is a table")
        };
        recording.clone()
    }

    /// The first CPU's.
    pub(crate) fn site(machine: &str) -> Site {
        let machine = Arc::new(preset(machine).unwrap());
        Model::new(machine, ModelOptions::default()).unwrap().site(0).clone()
    }

    /// The points at the first site.
    fn points(recording: &Recording, phase: &Phase, sites: &[Site]) -> Arc<[Point]> {
        let found = Replays::of("a", recording).points(phase, sites).unwrap().unwrap();
        found[0].clone()
    }

    #[test]
    fn what_was_replayed_is_known_for_this_phase_these_traces_and_this_site_alone() {
        let [one, other] = ["gawk", "lua"].map(recording);
        let (phase, traces) = (&one.phases[0], &one.micro_traces);
        let here = &[site("xeon-x5365")];
        let first = points(&one, phase, here);
        let fresh = |site: &Site| {
            let all = traces.unpack().unwrap();
            let sampled = SampledPhase::new(phase, phase.core.as_ref().unwrap(), &all).unwrap();
            let sampled = sampled.with_most_pages(one.most_pages().unwrap() as f32);
            replayed::points(phase, &sampled, site)
        };
        assert!(Arc::ptr_eq(&first, &points(&one, phase, here)));
        assert_eq!(first[..], fresh(&here[0]));

        let there = &[site("xeon-gold-6138")];
        let elsewhere = points(&one, phase, there);
        assert_eq!(elsewhere[..], fresh(&there[0]));
        assert_ne!(first, elsewhere);

        let more = Phase {
            core: phase.core.clone().map(|core| CoreDetail {
                mispredicted_large_pki: core.mispredicted_large_pki + 5.0,
                ..core
            }),
            ..phase.clone()
        };
        assert_ne!(first, points(&one, &more, here));
        assert!(!Arc::ptr_eq(&first, &points(&other, phase, here)));
        let mut larger = one.clone();
        larger.phases[0].core.as_mut().unwrap().page_faults_pki *= 2.0;
        assert!(!Arc::ptr_eq(&first, &points(&larger, phase, here)), "of more pages");
        // Both are still known.
        let both = points(&one, phase, &[here[0].clone(), there[0].clone()]);
        assert!(Arc::ptr_eq(&first, &both));
    }

    /// On both sides of [`for_replays`] and [`Site::for_replays`] replays find the same, so that what is left out is not read.
    #[test]
    fn what_replays_do_not_read_makes_no_new_ones() {
        let recording = recording("xz");
        let (phase, traces) = (&recording.phases[0], &recording.micro_traces);
        let all = traces.unpack().unwrap();
        for machine in ["xeon-gold-6138", "cmt-2x4", "core-i9-12900k"] {
            let site = site(machine);
            let fresh = |phase: &Phase, site: &Site| {
                let sampled = SampledPhase::new(phase, phase.core.as_ref().unwrap(), &all).unwrap();
                replayed::points(phase, &sampled, site)
            };
            let mut between_predictors = site.clone();
            between_predictors.core.large_predictor_share = Some(0.5);
            for site in [site, between_predictors] {
                assert_eq!(
                    fresh(phase, &site),
                    fresh(&for_replays(phase), &site.for_replays()),
                    "{machine}"
                );
            }
        }
        let unforeseen = Phase { prefetchable: 0.0, dirty_share: 0.5, ..phase.clone() };
        let here = site("xeon-gold-6138");
        let there = Site { peak_bytes_per_s: 1e9, ..here.clone() };
        let first = points(&recording, phase, &[here]);
        assert!(Arc::ptr_eq(&first, &points(&recording, &unforeseen, &[there])));
    }
}
