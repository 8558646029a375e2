//! How poorly simulated policies see the machine, as it is typed: `tick-ms=200,late-ms=20,groups=2`.

use corun_policy::{CounterKind, Nanoseconds};
use corun_sim::Observation;

use crate::{Error, Result};

/// The names of the settings.
const NAMES: [&str; 7] = ["tick-ms", "late-ms", "missing", "groups", "noise", "failed", "refused"];

/// A policy's view as on a real machine ([`Observation::as_live`]) with other settings where `text` gives them:
/// `NAME=VALUE`, parted by commas. Counters in `missing` are parted by `+` and are missing beside those that
/// the preset misses.
///
/// # Errors
/// Bad input for a name that is no setting's and for a value that is none.
pub fn parse_observation(text: &str) -> Result<Observation> {
    let mut observation = Observation::as_live();
    for setting in text.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        let wrong = |expected: &str| {
            Error::input(format!("--as-live: {name}: found `{value}`, expected {expected}"))
        };
        let number = |expected| {
            let number = value.parse::<f64>().ok().filter(|number| (0.0..1e6).contains(number));
            number.ok_or_else(|| wrong(expected))
        };
        let milliseconds = "milliseconds from 0 to below 1e6";
        match name {
            "tick-ms" => {
                let tick = Nanoseconds::from_secs_f64(number(milliseconds)? * 1e-3);
                observation.tick_every = tick;
            }
            "late-ms" => {
                observation.latest = Nanoseconds::from_secs_f64(number(milliseconds)? * 1e-3);
            }
            "missing" => {
                for counter in value.split('+') {
                    let kinds = CounterKind::ALL.iter();
                    let kind = kinds.copied().find(|kind| kind.name() == counter);
                    let known = || CounterKind::ALL.iter().map(|kind| kind.name());
                    observation
                        .missing
                        .push(kind.ok_or_else(|| Error::unknown("counter", counter, known()))?);
                }
            }
            "groups" => {
                observation.groups =
                    value.parse().map_err(|_| wrong("a whole number of 1 or more"))?;
            }
            "noise" => observation.noise = number("a share of 0 or more")?,
            "refused" => observation.refused = number("a share from 0 to 1")?,
            "failed" => observation.failed = number("a share from 0 to below 1")?,
            other => return Err(Error::unknown("setting of --as-live", other, NAMES)),
        }
    }
    Ok(observation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_stand_over_the_preset() {
        assert_eq!(parse_observation("").unwrap(), Observation::as_live());
        let given = "tick-ms=200, late-ms=20,missing=branches+cycles,groups=2,noise=0.05,failed=0.1,refused=0.2";
        let expected = Observation {
            tick_every: Nanoseconds(200_000_000),
            latest: Nanoseconds(20_000_000),
            missing: vec![CounterKind::MemoryRetries, CounterKind::Branches, CounterKind::Cycles],
            groups: 2,
            noise: 0.05,
            failed: 0.1,
            refused: 0.2,
            ..Observation::as_live()
        };
        assert_eq!(parse_observation(given).unwrap(), expected);
        for wrong in ["tick-ms", "late-ms=-1", "missing=cycle", "groups=x", "lates-ms=1"] {
            assert!(parse_observation(wrong).is_err(), "{wrong}");
        }
    }
}
