//! Mixes from generators.

use std::collections::BTreeMap;
use std::path::Path;

use corun_app::{Error, Result, fingerprint};
use corun_input::FileError;
use corun_machine::Machine;
use corun_model::{Model, ModelOptions};
use corun_policy::{CacheClass, ClassLimits, classify, ways_curve};
use corun_profile::{App, Library, MIX_FILE_VERSION, Mix};
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::description::{
    Combinations, Description, DrawnByClass, DrawnMixes, ListedMix, WorkloadFile,
};
use crate::plan::once;

/// A mix and the name shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NamedMix {
    pub(crate) name: String,
    pub(crate) mix: Mix,
}

/// Where generators look things up.
pub(crate) struct Sources<'a> {
    pub(crate) description: &'a Description,
    /// Paths are relative to it.
    pub(crate) folder: &'a Path,
    pub(crate) library: &'a Library,
    pub(crate) most: usize,
}

impl Sources<'_> {
    /// All mixes in the order of the description, each once.
    ///
    /// # Errors
    /// A file that cannot be read, a generator that has too few programs to choose from, more than
    /// `most` mixes.
    pub(crate) fn mixes(&self, first_machine: &Machine) -> Result<Vec<NamedMix>> {
        let description = self.description;
        let mut mixes = Vec::new();
        for listed in &description.mix {
            mixes.push(self.listed(listed)?);
        }
        for all in &description.combinations {
            self.combinations(all, &mut mixes)?;
        }
        for drawn in &description.random {
            self.drawn(drawn, &mut mixes)?;
        }
        for drawn in &description.classes {
            self.by_class(drawn, first_machine, &mut mixes)?;
        }
        for file in &description.workloads {
            self.workloads(file, &mut mixes)?;
        }
        once(&mut mixes, |named| fingerprint(&named.mix));
        Ok(mixes)
    }

    fn of_apps(&self, name: Option<&str>, apps: Vec<String>) -> Result<NamedMix> {
        let apps: Vec<App> = apps
            .iter()
            .map(|app| App {
                instructions: Some(
                    self.description.instructions.unwrap_or(corun_profile::TABLE_INSTRUCTIONS),
                ),
                ..App::of_profile(app.trim())
            })
            .collect();
        let shown: Vec<&str> = apps.iter().map(App::shown_name).collect();
        let name = name.map_or_else(|| shown.join("+"), str::to_owned);
        let mix = Mix {
            version: MIX_FILE_VERSION,
            machine: None,
            seeds: None,
            method: self.description.method,
            apps,
        };
        mix.check().map_err(|fault| Error::input(format!("mix `{name}`: {fault}")))?;
        Ok(NamedMix { name, mix })
    }

    fn listed(&self, listed: &ListedMix) -> Result<NamedMix> {
        let Some(file) = &listed.file else {
            return self.of_apps(listed.name.as_deref(), listed.apps.clone());
        };
        let path = self.folder.join(file);
        let mut mix = Mix::load(&path)?;
        for app in &mut mix.apps {
            app.instructions = app.instructions.or(self.description.instructions);
        }
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = listed.name.clone().or(stem).unwrap_or_default();
        Ok(NamedMix { name, mix })
    }

    fn pool(&self, from: Option<&[String]>) -> Result<Vec<String>> {
        let Some(from) = from else {
            return Ok(self.library.names().map(str::to_owned).collect());
        };
        from.iter().map(|name| Ok(self.library.get(name.trim())?.name.clone())).collect()
    }

    /// Before mixes are made: a generator may ask for more than memory holds.
    fn has_room(&self, mixes: &[NamedMix], more: usize) -> Result {
        if mixes.len().saturating_add(more) <= self.most {
            return Ok(());
        }
        Err(Error::input(format!("found more than {} mixes: expected fewer", self.most))
            .hint("[[random]] with a count and a seed, instead of all combinations"))
    }

    fn combinations(&self, all: &Combinations, mixes: &mut Vec<NamedMix>) -> Result {
        let pool = self.pool(all.from.as_deref())?;
        enough(&pool, all.size, "[[combinations]]")?;
        self.has_room(mixes, combinations_up_to(self.most, pool.len(), all.size))?;
        let mut places: Vec<usize> = (0..all.size).collect();
        loop {
            let apps = places.iter().map(|&place| pool[place].clone()).collect();
            mixes.push(self.of_apps(None, apps)?);
            // The last place that can move on.
            let Some(moves) =
                (0..all.size).rev().find(|&at| places[at] + all.size - at < pool.len())
            else {
                return Ok(());
            };
            let next = places[moves] + 1;
            for (offset, place) in places[moves..].iter_mut().enumerate() {
                *place = next + offset;
            }
        }
    }

    fn drawn(&self, drawn: &DrawnMixes, mixes: &mut Vec<NamedMix>) -> Result {
        let pool = self.pool(drawn.from.as_deref())?;
        let needed = if drawn.repeats { 1 } else { drawn.size };
        enough(&pool, needed, "[[random]]")?;
        self.has_room(mixes, drawn.count)?;
        let mut random = Pcg64::seed_from_u64(drawn.seed);
        for _ in 0..drawn.count {
            let apps: Vec<String> = if drawn.repeats {
                (0..drawn.size).map(|_| pool[random.random_range(0..pool.len())].clone()).collect()
            } else {
                pool.sample(&mut random, drawn.size).cloned().collect()
            };
            mixes.push(self.of_apps(None, apps)?);
        }
        Ok(())
    }

    fn by_class(
        &self,
        drawn: &DrawnByClass,
        first_machine: &Machine,
        mixes: &mut Vec<NamedMix>,
    ) -> Result {
        self.has_room(mixes, drawn.count)?;
        let machine = match &drawn.machine {
            Some(name) => machine_at(self.folder, name)?,
            None => first_machine.clone(),
        };
        let model = Model::new(std::sync::Arc::new(machine), ModelOptions::default())?;
        let mut by_class: BTreeMap<CacheClass, Vec<String>> = BTreeMap::new();
        for profile in self.library.iter() {
            let program = model.load(profile)?;
            let curve = ways_curve(&model, &program, model.fastest_cpu(&program));
            let curve = curve.ok_or_else(|| {
                let machine = model.machine().name();
                Error::input(format!("[[classes]]: the LLC of {machine} has no ways"))
            })?;
            let class = classify(&curve, &ClassLimits::default());
            by_class.entry(class).or_default().push(profile.name.clone());
        }
        let wanted = [
            (CacheClass::Streaming, drawn.streaming),
            (CacheClass::Sensitive, drawn.sensitive),
            (CacheClass::LightSharing, drawn.light_sharing),
        ];
        let mut random = Pcg64::seed_from_u64(drawn.seed);
        for _ in 0..drawn.count {
            let mut apps: Vec<String> = Vec::new();
            for (class, count) in wanted {
                let pool = by_class.get(&class).map_or(&[][..], Vec::as_slice);
                enough(pool, count, &format!("[[classes]] {} programs", class.name()))?;
                apps.extend(pool.sample(&mut random, count).cloned());
            }
            apps.shuffle(&mut random);
            mixes.push(self.of_apps(None, apps)?);
        }
        Ok(())
    }

    fn workloads(&self, file: &WorkloadFile, mixes: &mut Vec<NamedMix>) -> Result {
        let path = self.folder.join(&file.file);
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(&path)
            .map_err(|error| FileError::whole(&shown, format!("cannot be read: {error}")))?;
        let before = mixes.len();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let apps = line.split(',').map(|app| app.trim().to_owned()).collect();
            let named = self.of_apps(None, apps).map_err(|error| {
                error.at(|why| FileError::at(&shown, number as u64 + 1, "", why))
            })?;
            self.has_room(mixes, 1)?;
            mixes.push(named);
        }
        if mixes.len() == before {
            let why = "found no mix, expected lines of programs with commas between";
            return Err(FileError::whole(&shown, why).into());
        }
        Ok(())
    }
}

/// How many sets of `size` there are among `among`, or some number above `most` where there are more.
fn combinations_up_to(most: usize, among: usize, size: usize) -> usize {
    let mut found: usize = 1;
    for taken in 0..size.min(among - size) {
        // Exact: a product of n consecutive numbers is a multiple of n!.
        found = found.saturating_mul(among - taken) / (taken + 1);
        if found > most {
            break;
        }
    }
    found
}

fn enough(pool: &[String], needed: usize, who: &str) -> Result {
    if pool.len() >= needed {
        return Ok(());
    }
    let found = pool.len();
    Err(Error::input(format!("{who}: found {found} to choose from, expected at least {needed}")))
}

/// A machine by its name, a file beside the description first.
pub(crate) fn machine_at(folder: &Path, name: &str) -> Result<Machine> {
    let path = folder.join(name);
    if name != "this" && path.is_file() {
        return Ok(Machine::load(&path)?);
    }
    corun_app::find_machine(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_counted_without_being_made() {
        assert_eq!(combinations_up_to(1000, 4, 2), 6);
        assert_eq!(combinations_up_to(1000, 4, 4), 1);
        assert_eq!(combinations_up_to(1000, 20, 17), 1140);
        assert!(combinations_up_to(1000, 50, 9) > 1000);
        assert!(combinations_up_to(1000, usize::MAX, 9) > 1000);
        assert!(combinations_up_to(1_000_000, 1_000_000, 500_000) > 1_000_000);
    }

    #[test]
    fn too_few_programs_are_said() {
        let pool = vec!["a".to_owned()];
        assert!(enough(&pool, 1, "[[random]]").is_ok());
        let error = enough(&pool, 2, "[[random]]").unwrap_err().to_string();
        assert_eq!(error, "[[random]]: found 1 to choose from, expected at least 2");
    }
}
