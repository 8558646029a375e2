//! The mixes of Tables 4.3 and 4.5, Fig. 4.11 and 4.12, Tables 4.2 and 4.4.

use corun_app::Result;
use corun_sim::Observation;
use rayon::prelude::*;

use super::best::MixBest;
use super::big_little::{BigLittle, Member, MixFigures, NEAREST};
use super::mean;
use crate::harness::{Estimate, Figure, PaperClaim, StudyInputs};
use crate::simulate::TunedPolicy;

/// Table 4.3, sorted by the number of memory-intensive programs.
const TABLE_4_3: [[&str; 6]; 24] = [
    ["GemsFDTD", "equake", "soplex", "milc", "ammp", "bzip2"],
    ["galgel", "soplex", "hmmer", "lbm", "fma3d", "bzip2"],
    ["galgel", "equake", "gamess", "lbm", "bzip2", "astar"],
    ["twolf", "bwaves", "equake", "soplex", "astar", "gobmk"],
    ["GemsFDTD", "bwaves", "equake", "povray", "fma3d", "astar"],
    ["bwaves", "equake", "gamess", "lbm", "fma3d", "bzip2"],
    ["GemsFDTD", "applu", "perlbmk", "sixtrack", "astar", "gzip"],
    ["bwaves", "perlbmk", "povray", "fma3d", "astar", "gzip"],
    ["galgel", "perlbmk", "sixtrack", "mgrid", "astar", "libquantum"],
    ["GemsFDTD", "vortex", "perlbmk", "fma3d", "astar", "gzip"],
    ["bzip2", "equake", "hmmer", "vortex", "crafty", "astar"],
    ["gamess", "hmmer", "soplex", "art", "astar", "gzip"],
    ["GemsFDTD", "bwaves", "gamess", "hmmer", "crafty", "astar"],
    ["bzip2", "bwaves", "hmmer", "lucas", "gobmk", "gzip"],
    ["soplex", "art", "vortex", "lbm", "fma3d", "gobmk"],
    ["galgel", "equake", "hmmer", "lbm", "fma3d", "h264ref"],
    ["bwaves", "equake", "gamess", "povray", "astar", "libquantum"],
    ["GemsFDTD", "galgel", "gamess", "hmmer", "astar", "libquantum"],
    ["swim", "mcf", "perlbench", "h264ref", "gobmk", "gzip"],
    ["galgel", "equake", "hmmer", "povray", "mgrid", "gobmk"],
    ["galgel", "equake", "hmmer", "bzip2", "perlbench", "h264ref"],
    ["galgel", "equake", "gamess", "hmmer", "sixtrack", "povray"],
    ["gamess", "art", "bzip2", "gobmk", "sixtrack", "vortex"],
    ["galgel", "gamess", "hmmer", "povray", "perlbench", "gobmk"],
];

/// Table 4.5, for 4 big and 4 small cores (its text; its caption names the other machine).
pub(super) const TABLE_4_5: [&[Member]; 16] = [
    &[
        ("art", 1),
        ("galgel", 1),
        ("libquantum", 1),
        ("sixtrack", 1),
        ("gamess", 1),
        ("hmmer", 1),
        ("soplex", 1),
        ("gzip", 1),
    ],
    &[
        ("galgel", 1),
        ("libquantum", 1),
        ("hmmer", 1),
        ("mcf", 1),
        ("mgrid", 1),
        ("crafty", 1),
        ("parser", 1),
        ("gzip", 1),
    ],
    &[
        ("mcf", 1),
        ("lucas", 1),
        ("galgel", 1),
        ("soplex", 1),
        ("h264ref", 1),
        ("povray", 1),
        ("perlbmk", 1),
        ("gobmk", 1),
    ],
    &[
        ("galgel", 1),
        ("mcf", 1),
        ("h264ref", 1),
        ("povray", 1),
        ("perlbmk", 1),
        ("crafty", 1),
        ("gobmk", 1),
        ("astar", 1),
    ],
    &[
        ("gamess", 1),
        ("hmmer", 1),
        ("mcf", 1),
        ("mgrid", 1),
        ("lucas", 1),
        ("applu", 1),
        ("namd", 1),
        ("gobmk", 1),
    ],
    &[
        ("art", 1),
        ("galgel", 1),
        ("gamess", 1),
        ("hmmer", 1),
        ("mgrid", 1),
        ("lucas", 1),
        ("h264ref", 1),
        ("astar", 1),
    ],
    &[
        ("hmmer", 1),
        ("mcf", 1),
        ("mgrid", 1),
        ("lucas", 1),
        ("soplex", 1),
        ("applu", 1),
        ("h264ref", 1),
        ("gzip", 1),
    ],
    &[
        ("mgrid", 1),
        ("lucas", 1),
        ("soplex", 1),
        ("fma3d", 1),
        ("applu", 1),
        ("ammp", 1),
        ("h264ref", 1),
        ("astar", 1),
    ],
    &[("art", 1), ("libquantum", 1), ("sixtrack", 1), ("h264ref", 1), ("semphy", 4)],
    &[("gamess", 1), ("applu", 1), ("povray", 1), ("crafty", 1), ("swaptions", 4)],
    &[("soplex", 1), ("povray", 1), ("namd", 1), ("gobmk", 1), ("semphy", 4)],
    &[("fma3d", 1), ("h264ref", 1), ("povray", 1), ("equake", 1), ("kmeans", 4)],
    &[("FFTW3D", 4), ("kmeans", 4)],
    &[("semphy", 4), ("EP", 4)],
    &[("blackscholes", 4), ("EP", 4)],
    &[("blackscholes", 4), ("kmeans", 4)],
];

/// The first is what figures are relative to, the last what is compared with all.
const POLICIES: [TunedPolicy; 11] = [
    TunedPolicy::plain("hsp"),
    TunedPolicy { shown: "hsp, ideal", policy: "hsp", parameters: IDEAL },
    TunedPolicy::plain("linux-default"),
    TunedPolicy::plain("rr"),
    TunedPolicy::plain("equal-progress"),
    TunedPolicy::plain("corun"),
    TunedPolicy { shown: "corun, unfairness", policy: "corun", parameters: &[("objective", 2.0)] },
    // As live no policy holds a core idle: CAMPS is this one there.
    TunedPolicy {
        shown: "camps, no idle cores",
        policy: "camps",
        parameters: &[("idle-big-cores", 0.0)],
    },
    TunedPolicy { shown: "acfs, ideal", policy: "acfs", parameters: IDEAL },
    TunedPolicy::plain("acfs"),
    TunedPolicy::plain("camps"),
];
const CAMPS: usize = POLICIES.len() - 1;
const ACFS: usize = CAMPS - 1;
const ACFS_IDEAL: usize = ACFS - 1;
const CAMPS_WITHOUT_IDLING: usize = ACFS_IDEAL - 1;
const CORUN_FAIR: usize = CAMPS_WITHOUT_IDLING - 1;
const CORUN: usize = CORUN_FAIR - 1;
/// Speedup factors of stored profiles in place of estimates.
const IDEAL: &[(&str, f64)] = &[("ideal-speedup", 1.0)];
/// Those that the drawing leaves out: the first by which it divides, and what the thesis's has not.
const DRAWN: [usize; 4] = [3, 4, ACFS, CAMPS];

/// The thesis's average reduction in unfairness and increase in throughput, in %, of CAMPS over these.
type Averages = [(&'static str, f64, f64); 4];
const TABLE_4_4: Averages = [
    ("hsp", 50.96, -12.24),
    ("rr", 17.08, 13.19),
    ("equal-progress", 23.64, 3.31),
    ("acfs", 10.71, 4.48),
];
const TABLE_4_2: Averages = [
    ("hsp", 32.75, -16.03),
    ("rr", 16.89, 16.53),
    ("equal-progress", 18.67, 12.05),
    ("acfs", 7.17, 4.51),
];

/// How long each program is alone on a big core, in s.
pub(super) const SOLO_S: f64 = 20.0;

/// A figure of a mix.
type Of = fn(&MixFigures) -> f64;

/// A set of mixes under all policies.
pub(super) struct Mixes {
    id: &'static str,
    heading: &'static str,
    mixes: Vec<(String, Vec<Member>)>,
    averages: (&'static str, Averages),
    /// By mix and policy.
    played: Vec<Vec<MixFigures>>,
    /// The same by policies that see the machine as live.
    live: Vec<Vec<MixFigures>>,
    /// By mix.
    best: Vec<MixBest>,
}

/// By mix and policy. `observation`: how the policies see the machine; none: exactly.
fn play(
    inputs: &StudyInputs,
    machine: &BigLittle,
    mixes: &[(String, Vec<Member>)],
    observation: Option<&Observation>,
) -> Result<Vec<Vec<MixFigures>>> {
    let jobs: Vec<(usize, usize)> = (0..mixes.len())
        .flat_map(|mix| (0..POLICIES.len()).map(move |policy| (mix, policy)))
        .collect();
    let run = |&(mix, policy): &(usize, usize)| {
        let apps = machine.apps(inputs, &mixes[mix].1, inputs.length_s(SOLO_S))?;
        let TunedPolicy { policy, parameters, .. } = POLICIES[policy];
        machine.play_apps(inputs, &apps, (policy, parameters), observation)
    };
    let all: Vec<MixFigures> = jobs.par_iter().map(run).collect::<Result<_>>()?;
    Ok(all.chunks(POLICIES.len()).map(<[MixFigures]>::to_vec).collect())
}

/// The step through a table's mixes, of which those of one kind stand together.
pub(super) fn some_mixes(inputs: &StudyInputs) -> usize {
    inputs.every(8, "mixes")
}

/// Fig. 4.11.
pub(super) fn juno(inputs: &StudyInputs, observation: &Observation) -> Result<Mixes> {
    let mixes: Vec<(String, Vec<Member>)> = TABLE_4_3
        .iter()
        .enumerate()
        .step_by(some_mixes(inputs))
        .map(|(place, mix)| {
            (format!("W{}", place + 1), mix.iter().map(|&name| (name, 1)).collect())
        })
        .collect();
    Mixes::new(
        inputs,
        observation,
        ("fig-4-11", "Fig. 4.11: Table 4.3's mixes on juno-2b4s"),
        ("juno-2b4s", mixes),
        ("Table 4.4", TABLE_4_4),
    )
}

/// Fig. 4.12.
pub(super) fn odroid(inputs: &StudyInputs, observation: &Observation) -> Result<Mixes> {
    let mixes: Vec<(String, Vec<Member>)> = TABLE_4_5
        .iter()
        .enumerate()
        .step_by(some_mixes(inputs))
        .map(|(place, mix)| (format!("M{}", place + 1), mix.to_vec()))
        .collect();
    Mixes::new(
        inputs,
        observation,
        ("fig-4-12", "Fig. 4.12: Table 4.5's mixes on odroid-4b4s"),
        ("odroid-4b4s", mixes),
        ("Table 4.2", TABLE_4_2),
    )
}

impl Mixes {
    fn new(
        inputs: &StudyInputs,
        observation: &Observation,
        (id, heading): (&'static str, &'static str),
        (preset, mixes): (&str, Vec<(String, Vec<Member>)>),
        averages: (&'static str, Averages),
    ) -> Result<Self> {
        let machine = BigLittle::new(preset)?;
        let played = play(inputs, &machine, &mixes, None)?;
        let live = play(inputs, &machine, &mixes, Some(observation))?;
        let best = mixes
            .iter()
            .zip(&played)
            .map(|((_, mix), played)| MixBest::of(inputs, &machine, mix, &played[CAMPS]))
            .collect::<Result<_>>()?;
        Ok(Self { id, heading, mixes, averages, played, live, best })
    }

    /// Name and members.
    pub(super) fn mixes(&self) -> &[(String, Vec<Member>)] {
        &self.mixes
    }

    /// Means of unfairness and ASP over the mixes; NaN for a policy that is not among these.
    pub(super) fn means_under(&self, policy: &str) -> (f64, f64) {
        let Some(place) = POLICIES.iter().position(|one| one.shown == policy) else {
            return (f64::NAN, f64::NAN);
        };
        let over = |of: fn(&MixFigures) -> f64| {
            mean(&self.played.iter().map(|played| of(&played[place])).collect::<Vec<f64>>())
        };
        (over(|one| one.unfairness), over(|one| one.asp))
    }

    /// CAMPS against a policy, in %, over the mixes: by how much unfairness is lower and ASP higher.
    fn against(&self, policy: usize) -> Vec<(f64, f64)> {
        let of = |played: &Vec<MixFigures>| {
            let (one, other) = (&played[CAMPS], &played[policy]);
            (100.0 * (1.0 - one.unfairness / other.unfairness), 100.0 * (one.asp / other.asp - 1.0))
        };
        self.played.iter().map(of).collect()
    }

    fn average(&self, policy: usize) -> (f64, f64) {
        let (less, more): (Vec<f64>, Vec<f64>) = self.against(policy).into_iter().unzip();
        (mean(&less), mean(&more))
    }

    pub(super) fn findings(&self) -> Vec<PaperClaim> {
        let (table, averages) = self.averages;
        let against = |&(name, unfairness, throughput): &(&str, f64, f64)| {
            let policy = POLICIES.iter().position(|one| one.shown == name).unwrap_or_default();
            let (less, more) = self.average(policy);
            let finding = PaperClaim::new(
                format!("CAMPS against {name}: unfairness lower by, ASP higher by ({table})"),
                format!("{unfairness:.1} %, {throughput:.1} %"),
                format!("{less:.1} %, {more:.1} %"),
            );
            if name != "acfs" {
                return finding;
            }
            let (less, more) = self.average(ACFS_IDEAL);
            finding.noting(format!(
                "against acfs with the true speedup factors {less:.1} % and {more:.1} %"
            ))
        };
        let worst = self.against(ACFS);
        let least = |of: fn(&(f64, f64)) -> f64| {
            let place = (0..worst.len()).min_by(|&a, &b| of(&worst[a]).total_cmp(&of(&worst[b])));
            let place = place.unwrap_or_default();
            format!("{:.1} % ({})", of(&worst[place]), self.mixes[place].0)
        };
        let worst_mix = PaperClaim::new(
            format!("The worst mix of CAMPS against acfs ({table})"),
            "similar, within a few %",
            format!(
                "unfairness lower by {}, ASP higher by {}",
                least(|one| one.0),
                least(|one| one.1)
            ),
        );
        let own = [worst_mix, self.live_finding(), self.beside_corun(), self.room()];
        averages.iter().map(against).chain(own).collect()
    }

    fn by_policy(
        &self,
        (id, what, about): (&str, &str, &str),
        of: fn(&MixFigures) -> f64,
    ) -> Figure {
        let mixes: Vec<(&str, &[MixFigures])> = self
            .mixes
            .iter()
            .zip(&self.played)
            .map(|(mix, played)| (mix.0.as_str(), &played[..]))
            .collect();
        let heading = format!("{}: {what}", self.heading);
        let mut rows =
            Figure::new(format!("{}-{id}", self.id), heading, about)
                .rows("mix", &mixes, |one| one.0.to_owned());
        for (place, policy) in POLICIES.iter().enumerate() {
            rows = rows.column(policy.shown, 3, |one| of(&one.1[place]));
            if DRAWN.contains(&place) {
                rows = rows.series(policy.shown, |one| {
                    Some(of(&one.1[place]) / of(&one.1[0])).filter(|one| one.is_finite())
                });
            }
        }
        rows.bars(1.0, &format!("{what} / that under hsp"))
    }

    pub(super) fn figures(&self) -> Vec<Figure> {
        let about = "The highest slowdown of a mix's programs over the lowest; slowdowns are against the \
                     program alone on a big core. The drawing is relative to hsp, as the thesis's. ideal: \
                     by speedup factors of stored profiles.";
        let asp =
            "The sum over a mix's programs of time alone on a small core / time in the mix - 1.";
        vec![
            self.by_policy(("unfairness", "unfairness", about), |one| one.unfairness),
            self.by_policy(("asp", "ASP", asp), |one| one.asp),
            self.means(),
            self.as_live(),
            self.beside_best(),
        ]
    }

    /// By mix, by how many % a figure of the first is above the same of the second.
    fn change(
        of: Of,
        (one, other): (&[Vec<MixFigures>], &[Vec<MixFigures>]),
        (first, second): (usize, usize),
    ) -> Estimate {
        let pairs = one.iter().zip(other);
        let ratios = pairs.map(|(one, other)| of(&one[first]) / of(&other[second]));
        Estimate::percent_above_one(&ratios.collect::<Vec<f64>>())
    }

    fn as_live(&self) -> Figure {
        let policies: Vec<usize> = (0..POLICIES.len()).collect();
        let mean_of = |played: &[Vec<MixFigures>], place: usize, of: Of| {
            mean(&played.iter().map(|played| of(&played[place])).collect::<Vec<f64>>())
        };
        let about = "The same mixes by policies that see the machine as live: with noise, readings that fail and looks that \
                     come late, and with nothing that holds a core idle. Means over the mixes; what that changes against exact \
                     counts in %, and how CAMPS as live compares with each policy as live, with half of the 95 % intervals \
                     over the mixes.";
        let heading = format!("{}: as on a real machine", self.averages.0);
        let mut rows = Figure::new(format!("{}-live", self.id), heading, about)
            .rows("policy", &policies, |&place| POLICIES[place].shown.to_owned());
        let figures: [(&str, Of); 2] = [("unfairness", |one| one.unfairness), ("ASP", |one| one.asp)];
        for (name, of) in figures {
            let change = |place: usize| Self::change(of, (&self.live, &self.played), (place, place));
            rows = rows
                .column(format!("{name}, exact"), 3, |&place| mean_of(&self.played, place, of))
                .column(format!("{name}, as live"), 3, |&place| mean_of(&self.live, place, of))
                .column(format!("{name}: change %"), 1, |&place| change(place).mean)
                .column("+-", 1, |&place| change(place).interval);
        }
        for (name, of) in figures {
            let camps = |place: usize| Self::change(of, (&self.live, &self.live), (CAMPS, place));
            rows = rows
                .column(format!("{name} of CAMPS above it %"), 1, |&place| camps(place).mean)
                .column("+-", 1, |&place| camps(place).interval);
        }
        rows.table()
    }

    fn beside_best(&self) -> Figure {
        let mixes: Vec<(&str, &MixFigures, &MixBest)> = (self.mixes.iter().zip(&self.played))
            .zip(&self.best)
            .map(|((mix, played), best)| (mix.0.as_str(), &played[CAMPS], best))
            .collect();
        let about = "Placements held throughout: of all that differ, each simulated, the fairest one and the one with the \
                     highest ASP. Then what no policy that shares the cores out over time can exceed by the model, with each \
                     program's phases as one and changes of core that cost nothing: the highest ASP when nobody is unfair to \
                     anybody (unfairness 1), when unfairness is CAMPS's, and whatever the unfairness. Bounds of the model, found \
                     as linear programs; with phases a run can be above them. A dash: no shares are so fair by the model, or programs \
                     have several threads, which end with their last one; the mean leaves that mix out.";
        let heading = format!("{}: beside the best", self.averages.0);
        Figure::new(format!("{}-best", self.id), heading, about)
            .rows("mix", &mixes, |one| one.0.to_owned())
            .column("camps: unfairness", 3, |one| one.1.unfairness)
            .column("camps: ASP", 3, |one| one.1.asp)
            .column("fairest held: unfairness", 3, |one| one.2.fairest.unfairness)
            .column("its ASP", 3, |one| one.2.fairest.asp)
            .column("most ASP held: unfairness", 3, |one| one.2.fastest.unfairness)
            .column("ASP", 3, |one| one.2.fastest.asp)
            .column("bound on ASP: unfairness 1", 3, |one| one.2.asp_all_alike)
            .column("unfairness of camps", 3, |one| one.2.asp_as_fair_as_camps)
            .column("any unfairness", 3, |one| one.2.asp_at_most)
            .summary("mean", corun_metrics::mean)
            .table()
    }

    /// What CAMPS leaves to be gained.
    fn room(&self) -> PaperClaim {
        let over = |of: &dyn Fn(&MixBest, &MixFigures) -> f64| {
            let pairs = self.best.iter().zip(&self.played);
            let ratios = pairs.map(|(best, played)| of(best, &played[CAMPS]));
            // Where no shares are so fair by the model there is no bound.
            let ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
            Estimate::percent_above_one(&ratios).in_percent()
        };
        PaperClaim::new(
            format!("What CAMPS leaves: the best above it ({})", self.averages.0),
            "not in the thesis",
            format!(
                "ASP {} by time shares as fair as CAMPS (a bound); unfairness {} in the fairest placement held throughout",
                over(&|best, camps| best.asp_as_fair_as_camps / camps.asp),
                over(&|best, camps| best.fairest.unfairness / camps.unfairness),
            ),
        )
    }

    /// What turns by the model are worth beside CAMPS, where both see the machine as live.
    fn beside_corun(&self) -> PaperClaim {
        let of = |policy: usize| {
            let against = |of: Of| {
                Self::change(of, (&self.live, &self.live), (policy, CAMPS)).in_percent()
            };
            format!("unfairness {}, ASP {}", against(|one| one.unfairness), against(|one| one.asp))
        };
        PaperClaim::new(
            format!("corun beside CAMPS, both as live ({})", self.averages.0),
            "not in the thesis",
            format!("for the mean slowdown {}; for unfairness {}", of(CORUN), of(CORUN_FAIR)),
        )
    }

    /// What seeing the machine as live costs CAMPS, and what it is worth there.
    fn live_finding(&self) -> PaperClaim {
        let (unfairness, asp): (Of, Of) = (|one| one.unfairness, |one| one.asp);
        let own = |of: Of| Self::change(of, (&self.live, &self.played), (CAMPS, CAMPS)).in_percent();
        let same = |of: Of| {
            let exact = (CAMPS, CAMPS_WITHOUT_IDLING);
            Self::change(of, (&self.live, &self.played), exact).in_percent()
        };
        let acfs = |of: Of| Self::change(of, (&self.live, &self.live), (CAMPS, ACFS)).in_percent();
        PaperClaim::new(
            format!("CAMPS as live ({})", self.averages.0),
            "on real machines",
            format!(
                "against CAMPS with exact counts unfairness {}, ASP {}, and where it holds no core idle there either {}, {}; \
                 against acfs as live unfairness {}, ASP {}",
                own(unfairness),
                own(asp),
                same(unfairness),
                same(asp),
                acfs(unfairness),
                acfs(asp)
            ),
        )
    }

    fn means(&self) -> Figure {
        let policies: Vec<usize> = (0..POLICIES.len()).collect();
        let over_mixes = |place: usize, of: fn(&MixFigures) -> f64| {
            mean(&self.played.iter().map(|played| of(&played[place])).collect::<Vec<f64>>())
        };
        let thesis =
            |place: usize| self.averages.1.iter().find(|one| one.0 == POLICIES[place].shown);
        let about = "Means over the mixes; then by how many % CAMPS's unfairness is lower and its ASP \
                     higher, the mean over mixes of the ratios, beside the thesis's.";
        let heading = format!("{}: means, and CAMPS against each", self.averages.0);
        Figure::new(format!("{}-averages", self.id), heading, about)
            .rows("policy", &policies, |&place| POLICIES[place].shown.to_owned())
            .column("unfairness", 3, |&place| over_mixes(place, |one| one.unfairness))
            .column("ASP", 3, |&place| over_mixes(place, |one| one.asp))
            .column("STP", 3, |&place| over_mixes(place, |one| one.stp))
            .column("worst slowdown", 3, |&place| over_mixes(place, |one| one.worst))
            .column("swaps/s", 2, |&place| over_mixes(place, |one| one.swaps_per_s))
            .column("unfairness lower %", 1, |&place| self.average(place).0)
            .column("thesis", 1, |&place| thesis(place).map(|one| one.1))
            .column("ASP higher %", 1, |&place| self.average(place).1)
            .column("thesis's", 1, |&place| thesis(place).map(|one| one.2))
            .table()
    }
}

/// Who stands for whom, and how much faster big cores are.
pub(super) fn programs(inputs: &StudyInputs) -> Result<Figure> {
    let machines = [BigLittle::new("juno-2b4s")?, BigLittle::new("odroid-4b4s")?];
    // By machine: the factor and the misses.
    let mut rows = Vec::new();
    for (theirs, ours, why) in NEAREST {
        let mut figures = Vec::new();
        for machine in &machines {
            let program = inputs.shipped_on(&machine.model, ours)?;
            let mpki = corun_policy::solo_figures(&program).llc_mpki;
            figures.push((program.speedup_factor, mpki));
        }
        rows.push((theirs, ours, why, figures));
    }
    let about = "The thesis's programs, the nearest of the library for each, their speedup factors \
                 (instructions a second on a big core / on a small one, alone) and misses per 1000 \
                 instructions on a big core. The thesis has factors of 1.5 to 4.4 on the Juno and 1.36 to \
                 6.63 on the Odroid.";
    Ok(Figure::new("programs", "The programs", about)
        .rows("thesis", &rows, |one| one.0.to_owned())
        .words("here", |one| one.1.to_owned())
        .words("why", |one| one.2.to_owned())
        .column("factor, juno", 2, |one| one.3[0].0)
        .column("MPKI", 1, |one| one.3[0].1)
        .column("factor, odroid", 2, |one| one.3[1].0)
        .column("MPKI, odroid", 1, |one| one.3[1].1)
        .table())
}
