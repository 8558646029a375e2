//! On which data figures stand.

use corun_model::ModelOptions;
use corun_profile::{Profile, ProfileData};
use serde::Serialize;

/// The profiles and the model behind figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DataSources {
    /// Kinds of profile and where they come from, in words.
    pub profiles: String,
    /// Law of space in a shared cache.
    pub space: String,
    /// Model of bandwidth.
    pub bandwidth_model: String,
    /// Whose choices the model makes.
    pub compat: String,
    /// Peak that was asked for instead of the machine's, MB/s.
    pub peak_mb_per_s: Option<f64>,
}

impl DataSources {
    /// Of these programs' profiles on a model with these options.
    pub fn of(profiles: &[Profile], options: ModelOptions) -> Self {
        Self {
            profiles: profile_sources(profiles),
            space: options.space.to_string(),
            bandwidth_model: options.bandwidth.to_string(),
            compat: options.compatibility.to_string(),
            peak_mb_per_s: options.peak_mb_per_s,
        }
    }
}

/// The profiles that stand behind figures, one phrase a kind; copies count once.
pub fn profile_sources(profiles: &[Profile]) -> String {
    let mut recordings = 0;
    let mut tables: Vec<(&str, usize)> = Vec::new();
    for (place, profile) in profiles.iter().enumerate() {
        if profiles[..place].iter().any(|one| one.name == profile.name) {
            continue;
        }
        match &profile.data {
            ProfileData::Recording(_) => recordings += 1,
            ProfileData::Table(table) => {
                let machine = table.measured_on().machine.as_str();
                match tables.iter_mut().find(|(known, _)| *known == machine) {
                    Some((_, count)) => *count += 1,
                    None => tables.push((machine, 1)),
                }
            }
        }
    }
    let mut phrases = Vec::new();
    if recordings > 0 {
        phrases.push(format!("{recordings} recorded from real programs by the tracer"));
    }
    phrases.extend(
        tables.iter().map(|(machine, count)| format!("{count} solo tables measured on {machine}")),
    );
    phrases.join("; ")
}
