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
        let share = |expected, is_share: &dyn Fn(f64) -> bool| {
            let share = number(expected)?;
            if is_share(share) { Ok(share) } else { Err(wrong(expected)) }
        };
        let milliseconds = "milliseconds from 0 to below 1e6";
        match name {
            "tick-ms" => {
                let expected = "milliseconds above 0 and below 1e6";
                let tick = Nanoseconds::from_secs_f64(number(expected)? * 1e-3);
                observation.tick_every = tick;
                if tick.0 == 0 {
                    return Err(wrong(expected));
                }
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
                let groups = value.parse().ok().filter(|&groups| groups >= 1);
                observation.groups = groups.ok_or_else(|| wrong("a whole number of 1 or more"))?;
            }
            "noise" => observation.noise = number("a share of 0 or more")?,
            "refused" => {
                observation.refused = share("a share from 0 to 1", &|share| share <= 1.0)?;
            }
            "failed" => {
                observation.failed = share("a share from 0 to below 1", &|share| share < 1.0)?;
            }
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
        for (wrong, expected) in [
            ("failed=1", "--as-live: failed: found `1`, expected a share from 0 to below 1"),
            ("refused=1.1", "--as-live: refused: found `1.1`, expected a share from 0 to 1"),
            ("tick-ms=0", "--as-live: tick-ms: found `0`, expected milliseconds above 0"),
            ("tick-ms=1e-9", "--as-live: tick-ms: found `1e-9`"),
            ("groups=0", "--as-live: groups: found `0`, expected a whole number of 1 or more"),
        ] {
            let error = parse_observation(wrong).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        assert_eq!(parse_observation("refused=1").unwrap().refused, 1.0);
        for wrong in ["tick-ms", "late-ms=-1", "missing=cycle", "groups=x", "lates-ms=1"] {
            assert!(parse_observation(wrong).is_err(), "{wrong}");
        }
    }
}
