//! What "as on a real machine" means in every study, and the option that changes it.

use clap::Args;
use corun_app::{Result, parse_observation};
use corun_sim::Observation;
use serde::Serialize;

/// Beside what [`Observation::as_live`] sets (a look a second, up to 2 ms late, no counter that `perf` has no event for):
/// counts are off by 5 % in standard deviation, and one reading in twenty fails.
pub(crate) const AS_LIVE: &str = "noise=0.05,failed=0.05";

/// The option of a study whose policies see the machine as a real one shows itself.
#[derive(Debug, Clone, Args, Serialize)]
pub(crate) struct AsLiveArgs {
    /// How poorly policies see the machine as live, as for `corun compare --as-live`
    #[arg(long = "as-live", value_name = "SETTINGS", default_value = AS_LIVE)]
    #[serde(rename = "as_live")]
    settings: String,
}

impl AsLiveArgs {
    /// The settings as they were typed.
    pub(crate) fn settings(&self) -> &str {
        &self.settings
    }

    /// # Errors
    /// Bad input for settings that are none.
    pub(crate) fn observation(&self) -> Result<Observation> {
        parse_observation(&self.settings)
    }
}

impl Default for AsLiveArgs {
    /// The settings of a study without the option.
    fn default() -> Self {
        Self { settings: AS_LIVE.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_live_is_noisy_fails_and_comes_late() {
        let observation = AsLiveArgs::default().observation().unwrap();
        assert_eq!((observation.noise, observation.failed), (0.05, 0.05));
        assert!(observation.latest.0 > 0 && observation.tick_every.0 > 0);
        let wrong = AsLiveArgs { settings: "noise=loud".to_owned() };
        assert!(wrong.observation().is_err());
    }
}
