//! CASC's own experiments (Fedorova et al., "CASC: A cache-aware scheduling algorithm for
//! multithreaded chip multiprocessors"), on its processor of two cores with four contexts each.

mod chip;
mod figures;
mod shaped;

use clap::Args as _;
use corun_app::Result;
use corun_policy::{BuildOptions, CascFindings};
use corun_profile::{Profile, ProfileData};
use corun_sim::Observation;
use rayon::prelude::*;

use self::chip::{Chip, Scheduling, Window};
use crate::harness::{AsLiveArgs, Estimate, Page, Programs, Study, StudyInputs};

/// The experiment.
pub(super) const STUDY: Study = Study {
    name: "casc",
    summary: "CASC on a multithreaded chip: miss ratio, throughput, fairness, accuracy (CASC, section 5)",
    programs: Programs::BuiltIn,
    seeds: Some(3),
    has_quick: true,
    options: AsLiveArgs::augment_args,
    page,
    explained_in: "docs/studies/casc.md",
};

const MACHINE: &str = "cmt-2x4";

/// The paper's sizes of the L2.
const L2_KIB: [u64; 5] = [48, 96, 192, 384, 768];

/// Copies of each program.
const COPIES: usize = 6;

/// Simulated seconds before the window; all threads are measured by then.
const SETTLE_S: f64 = 5.0;
/// Length of the window in simulated seconds (the paper's: 2e9 steps).
const WINDOW_S: f64 = 4.0;

/// Three programs: two of good locality, then one of poor.
struct Cast {
    id: &'static str,
    programs: [&'static str; 3],
}

/// Which of a cast's programs has poor locality.
const POOR: usize = 2;

/// An embedded database for the paper's Berkeley DB and a compressor of small working set for
/// 300.twolf. For 179.art, whose locality is poor in all of the paper's caches, first a recorded
/// kernel that misses in all of them, then an application. Last, programs that are nothing but curves of the paper's
/// shapes ([`shaped`]).
const CASTS: [Cast; 3] = [
    Cast { id: "join", programs: ["sqlite3", "xz", "kernel-hash-join"] },
    Cast { id: "zstd", programs: ["sqlite3", "xz", "zstd"] },
    Cast { id: "shaped", programs: shaped::NAMES },
];

/// A cast on one size of the L2.
struct AtSize {
    l2_kib: u64,
    /// By seed: the default scheduler's window and CASC's.
    runs: Vec<(Window, Window)>,
    /// By seed, CASC that sees the machine as live.
    live: Vec<Window>,
    /// By seed, with the threads of poor locality on a CPU of their own.
    apart: Vec<Window>,
    /// By program, what PCMR stands for by the model.
    partial: Vec<f64>,
    /// What the pipelines of all cores could issue, in 1e9 instructions a second.
    peak: f64,
}

/// A cast on all sizes.
struct OnAllSizes {
    cast: &'static Cast,
    sizes: Vec<AtSize>,
}

/// Throughput and misses against a cache's size.
struct BySize {
    /// Size in KiB, instructions per cycle of a core, misses (L1: per 1000 instructions; L2: per 100
    /// references).
    points: Vec<(u64, f64, f64)>,
}

/// The overhead test: seconds to complete all programs, by seed.
struct Overhead {
    default_s: Vec<f64>,
    casc_s: Vec<f64>,
    programs: usize,
}

fn page(inputs: &StudyInputs) -> Result<Page> {
    let shaped = shaped::profiles();
    let mut casts = Vec::new();
    let as_live: AsLiveArgs = inputs.options()?;
    let observation = as_live.observation()?;
    for cast in &CASTS {
        casts.push(on_all_sizes(inputs, cast, &shaped, &observation)?);
    }
    let profiles = profiles(inputs, &CASTS[0], &shaped)?;
    let (fig_2, fig_3) = (by_l1(inputs, &profiles)?, by_l2(inputs, &profiles)?);
    let overhead = overhead(inputs)?;
    Ok(figures::page((inputs.seeds, as_live.settings()), &casts, &fig_2, &fig_3, &overhead))
}

/// A cast's programs: of the study's own curves, else of the shipped library.
fn profiles<'a>(
    inputs: &'a StudyInputs,
    cast: &Cast,
    shaped: &'a [Profile],
) -> Result<Vec<&'a Profile>> {
    let shipped = inputs.shipped()?;
    let of_name = |name: &&str| match shaped.iter().find(|one| one.name == *name) {
        Some(own) => Ok(own),
        None => Ok(shipped.get(name)?),
    };
    cast.programs.iter().map(of_name).collect()
}

/// The step through the sizes of a cache, for each of which programs are loaded.
fn some_sizes(inputs: &StudyInputs) -> usize {
    inputs.every(2, "sizes of a cache")
}

fn on_all_sizes(
    inputs: &StudyInputs,
    cast: &'static Cast,
    shaped: &[Profile],
    observation: &Observation,
) -> Result<OnAllSizes> {
    let profiles = profiles(inputs, cast, shaped)?;
    let sizes_kib: Vec<u64> = L2_KIB.into_iter().step_by(some_sizes(inputs)).collect();
    let chips =
        sizes_kib.iter().map(|&l2| Chip::new(&profiles, l2, 16)).collect::<Result<Vec<Chip>>>()?;
    let seeds = u64::from(inputs.seeds);
    let jobs: Vec<(usize, u64)> =
        (0..chips.len()).flat_map(|size| (1..=seeds).map(move |seed| (size, seed))).collect();
    let cancel = &inputs.cancel;
    let run = |&(size, seed): &(usize, u64)| {
        let chip: &Chip = &chips[size];
        let window = |scheduling| chip.window(seed, scheduling, cancel);
        let both = (window(Scheduling::Default)?, window(Scheduling::Casc)?);
        let live = window(Scheduling::CascAsLive(observation))?;
        Ok((both, (live, window(Scheduling::Apart)?)))
    };
    let mut runs = jobs.par_iter().map(run).collect::<Vec<Result<_>>>().into_iter();
    let mut sizes = Vec::new();
    for (chip, &l2_kib) in chips.iter().zip(&sizes_kib) {
        let of_size: Vec<_> = runs.by_ref().take(seeds as usize).collect::<Result<_>>()?;
        let (of_size, others): (_, Vec<_>) = of_size.into_iter().unzip();
        let (live, apart) = others.into_iter().unzip();
        let partial = (0..profiles.len()).map(|one| chip.partial_cache_miss_ratio(one, l2_kib));
        let partial = partial.collect();
        sizes.push(AtSize { l2_kib, runs: of_size, live, apart, partial, peak: chip.peak() });
    }
    Ok(OnAllSizes { cast, sizes })
}

/// Fig. 2: one core, all its contexts busy, its L1s from a quarter to four times their size.
fn by_l1(inputs: &StudyInputs, profiles: &[&Profile]) -> Result<BySize> {
    let point = |sixteenths: u64| {
        let chip = Chip::new(profiles, L2_KIB[4], sixteenths)?;
        let out = chip.together(&[0, 1, 2, 0]);
        let ipc: f64 = out.iter().map(|one| one.ipc).sum();
        let misses: f64 = out.iter().map(|one| one.llc_apki * one.ipc).sum();
        Ok((24 * sixteenths / 16, ipc, misses / ipc))
    };
    let sixteenths = [4, 8, 16, 32, 64].into_iter().step_by(some_sizes(inputs));
    let points = sixteenths.map(point).collect::<Result<_>>()?;
    Ok(BySize { points })
}

/// Fig. 3: both cores, all contexts busy, by the size of the L2.
fn by_l2(inputs: &StudyInputs, profiles: &[&Profile]) -> Result<BySize> {
    let point = |&l2_kib: &u64| {
        let chip = Chip::new(profiles, l2_kib, 16)?;
        let out = chip.together(&[0, 1, 2, 0, 1, 2, 0, 1]);
        let ipc: f64 = out.iter().map(|one| one.ipc).sum();
        let misses: f64 = out.iter().map(|one| one.llc_mpki * one.ipc).sum();
        let references: f64 = out.iter().map(|one| one.llc_apki * one.ipc).sum();
        Ok((l2_kib, ipc / 2.0, 100.0 * misses / references))
    };
    let sizes_kib = L2_KIB.iter().chain(&[1536, 3072]).step_by(some_sizes(inputs));
    let points = sizes_kib.map(point).collect::<Result<_>>()?;
    Ok(BySize { points })
}

/// Section 5.3.4: what measuring costs where nothing can be gained. Twelve programs on four
/// processors with caches of their own, any miss ratio allowed, a thread measured anew every 250 ms.
fn overhead(inputs: &StudyInputs) -> Result<Overhead> {
    let shipped = inputs.shipped()?;
    let one_thread = |profile: &&Profile| match &profile.data {
        ProfileData::Recording(recording) => {
            recording.phases.iter().all(|phase| phase.threads == 1)
        }
        ProfileData::Table(_) => false,
    };
    let programs: Vec<&Profile> = shipped
        .iter()
        .filter(|profile| super::classification::is_program(&profile.name))
        .filter(one_thread)
        .take(12)
        .collect();
    let chip = Chip::four_processors(&programs)?;
    let parameters = [("threshold-percent", 100.0), ("remeasure-every-ms", 250.0)];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value));
    let (mut default_s, mut casc_s) = (Vec::new(), Vec::new());
    for seed in 1..=u64::from(inputs.seeds) {
        let options = BuildOptions { seed, parameters: parameters.clone().into() };
        default_s.push(chip.makespan_s(seed, None, &inputs.cancel)?);
        casc_s.push(chip.makespan_s(seed, Some(&options), &inputs.cancel)?);
    }
    Ok(Overhead { default_s, casc_s, programs: programs.len() })
}

impl AtSize {
    fn size(&self) -> String {
        format!("{} KB", self.l2_kib)
    }

    /// The mean over the seeds of a figure of the default's window and of CASC's.
    fn means(&self, of: impl Fn(&Window) -> f64) -> (f64, f64) {
        let count = self.runs.len() as f64;
        let default: f64 = self.runs.iter().map(|run| of(&run.0)).sum();
        (default / count, self.runs.iter().map(|run| of(&run.1)).sum::<f64>() / count)
    }

    /// By how many % CASC's figure is above the default's.
    fn change_percent(&self, of: impl Fn(&Window) -> f64) -> f64 {
        let (default, casc) = self.means(of);
        100.0 * (casc / default - 1.0)
    }

    /// By how many % a figure of other runs is above the default's.
    fn change_percent_in(&self, runs: &[Window], of: impl Fn(&Window) -> f64) -> f64 {
        let sum: f64 = runs.iter().map(&of).sum();
        100.0 * (sum / runs.len() as f64 / self.means(of).0 - 1.0)
    }

    /// Half of the 95 % interval of such a change, over seeds.
    fn interval_in<'w>(
        &self,
        runs: impl Iterator<Item = &'w Window>,
        of: impl Fn(&Window) -> f64,
    ) -> Option<f64> {
        let ratios = runs.zip(&self.runs).map(|(run, (default, _))| of(run) / of(default));
        Estimate::percent_above_one(&ratios.collect::<Vec<f64>>()).interval
    }

    fn findings(&self) -> impl Iterator<Item = &CascFindings> + Clone {
        self.runs.iter().filter_map(|run| run.1.findings.as_ref())
    }

    fn findings_as_live(&self) -> impl Iterator<Item = &CascFindings> + Clone {
        self.live.iter().filter_map(|window| window.findings.as_ref())
    }

    /// The PCMRs that were measured, by thread; the first seed's.
    fn pcmrs(findings: &CascFindings) -> Vec<(usize, f64)> {
        // Threads come in the order of the programs and do not end.
        findings.pcmr.iter().map(|(id, &pcmr)| (id.0 as usize, pcmr)).collect()
    }

    /// Threads rightly categorised with exact counts.
    fn right(&self) -> f64 {
        Self::right_in(self.findings())
    }

    /// Threads rightly categorised, the mean over the seeds: a PCMR above the mean of all is poor
    /// locality.
    fn right_in<'f>(findings: impl Iterator<Item = &'f CascFindings>) -> f64 {
        let of = |findings: &CascFindings| {
            let pcmrs = Self::pcmrs(findings);
            let mean = pcmrs.iter().map(|one| one.1).sum::<f64>() / pcmrs.len().max(1) as f64;
            let right = |(thread, pcmr): &&(usize, f64)| (*pcmr > mean) == (thread % 3 == POOR);
            pcmrs.iter().filter(right).count() as f64
        };
        corun_metrics::mean(&findings.map(of).collect::<Vec<f64>>()).unwrap_or(f64::NAN)
    }

    /// How far predicted group miss ratios are from observed ones, in % of these: the mean by time and
    /// the largest that all but 5 % of the time keep to.
    fn group_errors(&self) -> Option<(f64, f64)> {
        let mut errors: Vec<(f64, f64)> = self
            .findings()
            .flat_map(|found| &found.groups)
            .map(|&(seconds, predicted, observed)| {
                (100.0 * (predicted - observed).abs() / observed.max(1e-9), seconds)
            })
            .collect();
        errors.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all: f64 = errors.iter().map(|one| one.1).sum();
        let mean = errors.iter().map(|one| one.0 * one.1).sum::<f64>() / all;
        let mut seen = 0.0;
        let most = errors.iter().find(|one| {
            seen += one.1;
            seen >= 0.95 * all
        });
        Some((mean, most?.0))
    }

    /// When the initial measurement and all of the measuring were over, in seconds: means.
    fn measured_s<'f>(
        findings: impl Iterator<Item = &'f CascFindings> + Clone,
    ) -> (Option<f64>, Option<f64>) {
        let mean = |of: fn(&CascFindings) -> Option<corun_policy::Nanoseconds>| {
            let all: Option<Vec<f64>> =
                findings.clone().map(|found| Some(of(found)?.as_secs_f64())).collect();
            all.and_then(|all| corun_metrics::mean(&all))
        };
        (mean(|found| found.initial_end), mean(|found| found.all_known))
    }
}
