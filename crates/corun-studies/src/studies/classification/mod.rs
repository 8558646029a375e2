//! How good are classification schemes? Blagodurov, Zhuravlev and Fedorova, ACM TOCS 28(4), 2010,
//! section 2: a perfect policy (a minimum-weight matching of pairs) on each scheme's estimates,
//! over all mixes of ten programs, and how far its schedules are from the best by what the pairs
//! really do to each other.

mod figures;
mod representatives;

use std::sync::Arc;

use corun_app::{Error, Result, profile_sources};
use corun_machine::preset;
use corun_model::schemes::{AnimalClass, AnimalClasses, Scheme, StackDistances};
use corun_model::{BandwidthModel, LoadedProgram, Model, ModelOptions, Running, Scratch};
use corun_optimal::{Goal, match_pairs};
use corun_profile::{Library, Profile};

use self::representatives::representatives;
use crate::harness::{Page, Programs, Study, StudyInputs, no_options};

/// The experiment.
pub(super) const STUDY: Study = Study {
    name: "classification",
    summary: "Which classification scheme: Pain, Miss Rate, Animal classes or SDC (DIO, section 2)",
    programs: Programs::BuiltInAndSpec,
    seeds: None,
    has_quick: true,
    options: no_options,
    page,
    explained_in: "docs/studies/dio.md",
};

/// Its LLC is the paper's: 4 MB for two cores.
const MACHINE: &str = "xeon-x5365";

/// Programs of a set, as in the paper.
const PROGRAMS: usize = 10;

/// Sizes of mixes; the machine has half as many LLCs.
const SIZES: [usize; 4] = [4, 6, 8, 10];

/// The schemes, in the order in which they are shown.
const SCHEMES: [&str; 6] = ["pain", "miss-rate", "animal", "sdc", "sdc of extra misses", "pain of misses"];

/// Models by which the schemes are judged beside the default: what shows whose doing a distance is.
const MODELS: [(&str, BandwidthModel); 4] = [
    ("additive (as above)", BandwidthModel::Additive),
    ("stalls", BandwidthModel::Stalls),
    ("simple", BandwidthModel::Simple),
    ("none: cache alone", BandwidthModel::None),
];

/// Ten programs, what pairs of them suffer, and how far schemes are from the optimum.
struct Set {
    about: String,
    names: Vec<String>,
    profiles: Vec<StackDistances>,
    classes: Vec<AnimalClass>,
    /// What the row's program suffers beside the column's, by the model: slowdown - 1.
    degradation: Vec<Vec<f64>>,
    /// By size of mix.
    sizes: Vec<OfSize>,
    /// Lowest and highest mean of the animal scheme as one entry of its table changes by 1, by size.
    animal_range: Vec<(f64, f64)>,
    /// Means over the sizes where pairs suffer by another model: its name, by scheme, random.
    under: Vec<(&'static str, Vec<f64>, f64)>,
}

/// What the row's program suffers beside the column's, in a scheme's own unit.
type Estimates = Vec<Vec<f64>>;

/// Means over all mixes of a size, in % of degradation.
struct OfSize {
    mixes: usize,
    optimal: f64,
    /// Above the optimum: by scheme, then random and worst.
    schemes: Vec<f64>,
    random: f64,
    worst: f64,
}

fn page(inputs: &StudyInputs) -> Result<Page> {
    let all = |library, of: fn(&str) -> bool| {
        Library::iter(library).filter(move |profile| of(&profile.name))
    };
    let shipped = all(inputs.shipped()?, is_program).step_by(some_programs(inputs));
    let mut sets = vec![Set::new(inputs, shipped.collect())?];
    if let Some(spec) = inputs.spec_if_given() {
        sets.push(Set::new(inputs, all(spec, |name| name.ends_with("06")).collect())?);
    }
    Ok(figures::page(&sets))
}

/// Recordings of real programs with one thread: the shipped kernels are loops of ours.
pub(super) fn is_program(name: &str) -> bool {
    !name.starts_with("kernel-") && !name.ends_with("-mt")
}

/// The step through the programs of the shipped library, each of which is loaded.
pub(super) fn some_programs(inputs: &StudyInputs) -> usize {
    inputs.every(3, "programs")
}

impl Set {
    /// `candidates`: the programs that the set stands for.
    fn new(inputs: &StudyInputs, candidates: Vec<&Profile>) -> Result<Self> {
        let machine = Arc::new(preset(MACHINE)?);
        let model = Model::new(machine.clone(), ModelOptions::default())?;
        let loaded = candidates
            .iter()
            .map(|profile| Ok(model.load(profile)?))
            .collect::<Result<Vec<LoadedProgram>>>()?;
        let distances = |program| StackDistances::from_ways(&model.by_ways(program, 0));
        let all: Vec<StackDistances> = loaded.iter().map(distances).collect();
        let points: Vec<[f64; 2]> =
            all.iter().map(|one| [one.misses_pki, one.references_pki()].map(f64::ln_1p)).collect();
        let chosen = representatives(&points, PROGRAMS);
        let programs: Vec<&LoadedProgram> = chosen.iter().map(|&one| &loaded[one]).collect();
        let profiles: Vec<StackDistances> = chosen.iter().map(|&one| all[one].clone()).collect();
        let of_set: Vec<Profile> = chosen.iter().map(|&one| candidates[one].clone()).collect();
        let animals = AnimalClasses::shipped().map_err(Error::failed)?;
        let mut set = Self {
            about: profile_sources(&of_set),
            names: programs.iter().map(|program| program.name.clone()).collect(),
            classes: profiles.iter().map(|one| animals.of(one)).collect(),
            degradation: degradations(&model, &programs),
            profiles,
            sizes: Vec::new(),
            animal_range: Vec::new(),
            under: Vec::new(),
        };
        let schemes = [
            Scheme::Pain,
            Scheme::MissRate,
            Scheme::Animal(animals.clone()),
            Scheme::Sdc,
            Scheme::SdcOfExtraMisses,
            Scheme::PainOfMisses,
        ];
        let estimates: Vec<Estimates> = schemes.iter().map(|one| set.estimates(one)).collect();
        for (name, bandwidth) in MODELS {
            inputs.cancel.check()?;
            let options = ModelOptions { bandwidth, ..ModelOptions::default() };
            let other = Model::new(machine.clone(), options)?;
            let programs = of_set
                .iter()
                .map(|profile| Ok(other.load(profile)?))
                .collect::<Result<Vec<LoadedProgram>>>()?;
            set.degradation = degradations(&other, &programs.iter().collect::<Vec<_>>());
            let sizes = set.above_optimal(&estimates)?;
            let mean = |of: &dyn Fn(&OfSize) -> f64| {
                sizes.iter().map(of).sum::<f64>() / sizes.len() as f64
            };
            let by_scheme = (0..SCHEMES.len()).map(|place| mean(&|size| size.schemes[place]));
            set.under.push((name, by_scheme.collect(), mean(&|size| size.random)));
        }
        set.degradation = degradations(&model, &programs);
        set.sizes = set.above_optimal(&estimates)?;
        set.animal_range = set.animal_range(&animals)?;
        Ok(set)
    }

    /// How far the schedules that these estimates call best are from the optimum, by size of mix.
    fn above_optimal(&self, estimates: &[Estimates]) -> Result<Vec<OfSize>> {
        let of_size = |&size: &usize| {
            let mixes = subsets(self.names.len(), size);
            let bounds = self.bounds(&mixes)?;
            let above = |one: &Estimates| Ok(self.mean_of_best(one, &mixes)? - bounds.optimal);
            let schemes = estimates.iter().map(above).collect::<Result<_>>()?;
            Ok(OfSize { schemes, ..bounds })
        };
        SIZES.iter().map(of_size).collect()
    }

    /// The lowest and highest distance as one entry of the animals' table changes by 1.
    fn animal_range(&self, animals: &AnimalClasses) -> Result<Vec<(f64, f64)>> {
        let sizes = self.above_optimal(&self.changed_animals(animals))?;
        let range = |size: &OfSize| {
            let all = || size.schemes.iter().copied();
            (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max))
        };
        Ok(sizes.iter().map(range).collect())
    }

    /// What a scheme thinks that each suffers beside each.
    fn estimates(&self, scheme: &Scheme) -> Estimates {
        let suffers = |one: usize, other: usize| {
            let (first, second) = (one.min(other), one.max(other));
            let both = scheme.degradations(&self.profiles[first], &self.profiles[second]);
            if one == first { both.0 } else { both.1 }
        };
        let places = 0..self.profiles.len();
        let row = |one| places.clone().map(|other| suffers(one, other)).collect();
        places.clone().map(row).collect()
    }

    /// The animal scheme's estimates with each entry of its table one lower and one higher.
    fn changed_animals(&self, animals: &AnimalClasses) -> Vec<Estimates> {
        let mut all = Vec::new();
        for one in AnimalClass::ALL {
            for other in AnimalClass::ALL.into_iter().filter(|other| *other >= one) {
                all.extend([-1, 1].map(|by| {
                    self.estimates(&Scheme::Animal(animals.with_entry_changed(one, other, by)))
                }));
            }
        }
        all
    }

    /// Mean degradation in %, over mixes, of the schedules that these estimates call best.
    fn mean_of_best(&self, estimates: &[Vec<f64>], mixes: &[Vec<usize>]) -> Result<f64> {
        let mut sum = 0.0;
        for mix in mixes {
            let chosen = match_pairs(&among(estimates, mix), mix.len() / 2, Goal::Best)
                .map_err(Error::failed)?;
            let real: f64 = chosen
                .pairs
                .iter()
                .filter_map(|&(one, other)| Some((mix[one], mix[other?])))
                .map(|(one, other)| self.degradation[one][other] + self.degradation[other][one])
                .sum();
            sum += 100.0 * real / mix.len() as f64;
        }
        Ok(sum / mixes.len() as f64)
    }

    /// The optimum's degradation, and how far above it are random and worst schedules.
    fn bounds(&self, mixes: &[Vec<usize>]) -> Result<OfSize> {
        let (mut optimal, mut random, mut worst) = (0.0, 0.0, 0.0);
        for mix in mixes {
            let real = among(&self.degradation, mix);
            let of = |goal| match_pairs(&real, mix.len() / 2, goal).map_err(Error::failed);
            optimal += 100.0 * of(Goal::Best)?.mean;
            worst += 100.0 * of(Goal::Worst)?.mean;
            // Every other program is as likely a partner.
            let all: f64 = (0..mix.len())
                .flat_map(|i| (0..mix.len()).filter(move |&j| j != i).map(move |j| (i, j)))
                .map(|(i, j)| real[i][j])
                .sum();
            random += 100.0 * all / (mix.len() * (mix.len() - 1)) as f64;
        }
        let count = mixes.len() as f64;
        Ok(OfSize {
            mixes: mixes.len(),
            optimal: optimal / count,
            schemes: Vec::new(),
            random: (random - optimal) / count,
            worst: (worst - optimal) / count,
        })
    }
}

/// What each suffers beside each on the first LLC, nobody else on the machine.
fn degradations(model: &Model, programs: &[&LoadedProgram]) -> Vec<Vec<f64>> {
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    let cpus: Vec<usize> = model.machine().llcs()[0]
        .cpus
        .iter()
        .filter_map(|cpu| model.machine().cpu_index(cpu))
        .collect();
    let mut beside = |one: &LoadedProgram, other: &LoadedProgram| {
        let running = |program, cpu| Running::local(program, LoadedProgram::WHOLE, cpu);
        model.solve(&[running(one, cpus[0]), running(other, cpus[1])], &mut scratch, &mut out);
        out[0].slowdown - 1.0
    };
    programs.iter().map(|one| programs.iter().map(|other| beside(one, other)).collect()).collect()
}

fn among(matrix: &[Vec<f64>], mix: &[usize]) -> Vec<Vec<f64>> {
    mix.iter().map(|&i| mix.iter().map(|&j| matrix[i][j]).collect()).collect()
}

/// All subsets of `0..of` with so many members, each ascending, in lexicographic order.
fn subsets(of: usize, size: usize) -> Vec<Vec<usize>> {
    fn extend(of: usize, size: usize, chosen: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
        if chosen.len() == size {
            all.push(chosen.clone());
            return;
        }
        let next = chosen.last().map_or(0, |last| last + 1);
        for one in next..of {
            chosen.push(one);
            extend(of, size, chosen, all);
            chosen.pop();
        }
    }
    let mut all = Vec::new();
    extend(of, size, &mut Vec::new(), &mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_mixes_as_in_the_paper() {
        assert_eq!(SIZES.map(|size| subsets(PROGRAMS, size).len()), [210, 210, 45, 1]);
        assert_eq!(subsets(3, 2), [[0, 1], [0, 2], [1, 2]]);
    }

    /// DIO's Table I and Fig. 2: mcf, milc, gamess, namd.
    fn table_i() -> Set {
        let degradation = vec![
            vec![0.4801, 0.6563, 0.02, 0.0211],
            vec![0.2475, 0.4539, 0.0123, 0.0111],
            vec![0.0267, 0.0448, -0.0101, -0.0121],
            vec![0.0148, 0.0345, -0.0119, -0.0093],
        ];
        Set {
            about: String::new(),
            names: ["mcf", "milc", "gamess", "namd"].map(str::to_owned).into(),
            profiles: Vec::new(),
            classes: Vec::new(),
            degradation,
            sizes: Vec::new(),
            animal_range: Vec::new(),
            under: Vec::new(),
        }
    }

    #[test]
    fn the_papers_four_programs_give_its_figures() {
        let set = table_i();
        let mixes = subsets(4, 4);
        let bounds = set.bounds(&mixes).unwrap();
        assert!((bounds.optimal - 2.3075).abs() < 1e-9);
        assert!((bounds.optimal + bounds.worst - 21.995).abs() < 1e-9);
        // The third schedule has 2.325; random is the mean of the three.
        let random = (2.3075 + 21.995 + 2.325) / 3.0;
        assert!((bounds.optimal + bounds.random - random).abs() < 1e-9);
        // Miss rates multiplied part mcf and milc, whoever they then meet.
        let mpki: [f64; 4] = [30.0, 20.0, 0.1, 0.2];
        let estimates: Vec<Vec<f64>> =
            mpki.iter().map(|one| mpki.iter().map(|other| one * other / 2.0).collect()).collect();
        let found = set.mean_of_best(&estimates, &mixes).unwrap();
        assert!((found - 2.3075).abs() < 1e-9, "{found}");
    }
}
