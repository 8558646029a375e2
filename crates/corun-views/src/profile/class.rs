//! A program's class, intensity and sensitivity on a machine.

use std::sync::Arc;

use anyhow::anyhow;
use corun_app::{DEFAULT_MACHINE, find_machine};
use corun_model::{Model, ModelOptions};
use corun_policy::{CacheClass, ClassLimits, classify, ways_curve};
use corun_profile::Profile;
use serde::{Serialize, Serializer};

use corun_app::Result;
use corun_report::round;

/// How a program does alone on a machine, on the CPU where it is fastest.
#[derive(Debug, Serialize)]
pub struct Classified {
    /// The machine's name.
    pub machine: String,
    /// `streaming`, `sensitive` or `light-sharing`.
    #[serde(serialize_with = "by_name")]
    pub class: CacheClass,
    /// LLC misses per 1000 instructions with the whole LLC.
    pub llc_mpki: f64,
    /// LLC misses per 1000 cycles with the whole LLC.
    pub llc_mpkc: f64,
    /// Speed with all ways of the LLC / speed with one.
    pub one_way_slowdown: f64,
    /// Ways of the LLC.
    pub ways: u32,
    /// Bytes of a way.
    pub way_bytes: f64,
    /// Was a figure of the curve by ways read outside the profile's measured range?
    pub extrapolated: bool,
}

fn by_name<S: Serializer>(class: &CacheClass, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(class.name())
}

/// Classifies programs on a machine.
pub struct Classifier {
    model: Model,
}

impl Classifier {
    /// On the machine of that name; none: the one that `corun compare` takes.
    ///
    /// # Errors
    /// Where there is no such machine.
    pub fn on(name: Option<&str>) -> Result<Self> {
        let machine = find_machine(name.unwrap_or(DEFAULT_MACHINE))?;
        Ok(Self { model: Model::new(Arc::new(machine), ModelOptions::default())? })
    }

    /// The machine's name.
    pub fn machine(&self) -> &str {
        self.model.machine().name()
    }

    /// The program's class on the machine.
    ///
    /// # Errors
    /// Where the model cannot load the profile.
    pub fn classify(&self, profile: &Profile) -> Result<Classified> {
        let program = self.model.load(profile)?;
        let cpu = self.model.fastest_cpu(&program);
        let curve = self.model.by_ways(&program, cpu);
        let by_ways = ways_curve(&self.model, &program, cpu)
            .ok_or_else(|| anyhow!("the LLC of {} has no way", self.machine()))?;
        let class = classify(&by_ways, &ClassLimits::default());
        // An LLC has one way at least.
        let (one, all) = (curve[0], curve[curve.len() - 1]);
        let llc = self.model.machine().cpus()[cpu].llc;
        let bytes = self.model.machine().llcs()[llc].cache.map_or(0, |cache| cache.size_bytes);
        Ok(Classified {
            machine: self.machine().to_owned(),
            class,
            llc_mpki: round(all.llc_mpki, 6),
            llc_mpkc: round(all.llc_mpkc, 6),
            one_way_slowdown: round(one.slowdown, 6),
            ways: all.ways,
            way_bytes: bytes as f64 / f64::from(all.ways),
            extrapolated: curve.iter().any(|one| one.extrapolated),
        })
    }
}
