//! On which data figures stand.

use corun_machine::{Machine, PredictionError};
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
    /// How far predictions were off on the machine itself, where `corun validate` measured it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prediction_error: Option<PredictionError>,
    /// What the machine's file lacks of what `corun calibrate` measures, where that wrote it; an older one measured less.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unmeasured: Vec<&'static str>,
}

impl DataSources {
    /// Of these programs' profiles on a model of a machine with these options.
    pub fn of(profiles: &[Profile], machine: &Machine, options: ModelOptions) -> Self {
        Self {
            profiles: profile_sources(profiles),
            space: options.space.to_string(),
            bandwidth_model: options.bandwidth.on(machine).to_string(),
            compat: options.compatibility.to_string(),
            peak_mb_per_s: options.peak_mb_per_s,
            prediction_error: machine.spec().prediction_error.clone(),
            unmeasured: match machine.spec().measurement {
                Some(_) => machine.unmeasured(),
                None => Vec::new(),
            },
        }
    }

    /// How far predictions were off on the machine, in words.
    pub fn prediction_error_words(&self) -> Option<String> {
        let found = self.prediction_error.as_ref()?;
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let mut words = format!(
            "times of {} programs alone off by {} in the mean",
            found.programs,
            percent(found.mean_error)
        );
        if let Some(rank) = found.rank_correlation {
            words.push_str(&format!(" (rank correlation of cycles an instruction {rank:.2})"));
        }
        match found.mean_slowdown_error {
            Some(error) => words.push_str(&format!(
                ", {} clear slowdowns by {}",
                found.slowdowns,
                percent(error)
            )),
            None => words.push_str(", no slowdown measured clearly"),
        }
        let day = found.finished.split('T').next().unwrap_or_default();
        Some(format!("{words}; {}, {day}", found.by))
    }

    /// What the machine's file lacks, in words.
    pub fn unmeasured_words(&self) -> Option<String> {
        let lacking = self.unmeasured.join(", ");
        (!lacking.is_empty()).then(|| format!("{lacking}; corun calibrate writes the file anew"))
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
