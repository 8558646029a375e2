//! Values with a fixed set of names or a range.

use clap::ValueEnum;
use corun_cli::number_within;
use corun_hosting::LEAST_INTERVAL_S;
use corun_optimal::Objective;
use corun_optimal::partition::PartitionObjective;
use corun_trace::engine::SamplingRate;

/// In which order programs are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortBy {
    /// By name
    Name,
    /// Streaming, sensitive, light sharing
    Class,
    /// By LLC misses per 1000 instructions
    Intensity,
    /// By slowdown with one way of the LLC
    Sensitivity,
}

/// How a tree leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TreeFormat {
    /// An indented tree for people
    Text,
    /// One JSON document
    Json,
    /// A machine file
    Toml,
}

/// How a single program's profile leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DocumentFormat {
    /// Text for people
    Text,
    /// One JSON document
    Json,
}

/// What the optimum optimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectiveName {
    /// Least mean slowdown
    Antt,
    /// Highest sum of 1 / slowdown
    Stp,
    /// Least slowdown of the program that suffers most
    MaxSlowdown,
    /// Least largest / smallest slowdown
    Unfairness,
    /// Least energy above idle for the work done; of machines with power figures
    Energy,
    /// Least energy x delay for the work done; of machines with power figures
    EnergyDelay,
}

impl ObjectiveName {
    /// The objective.
    pub(crate) fn objective(self) -> Objective {
        match self {
            Self::Antt => Objective::MeanSlowdown,
            Self::Stp => Objective::Stp,
            Self::MaxSlowdown => Objective::MaxSlowdown,
            Self::Unfairness => Objective::Unfairness,
            Self::Energy => Objective::Energy,
            Self::EnergyDelay => Objective::EnergyDelay,
        }
    }
}

/// What a partition is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PartitionObjectiveName {
    /// Highest sum of 1 / slowdown
    Stp,
    /// Least largest / smallest slowdown
    Unfairness,
    /// Least mean slowdown
    #[value(alias = "mean-slowdown")]
    Antt,
    /// Least slowdown of the program that suffers most
    MaxSlowdown,
    /// Highest Jain's index of the slowdowns
    Jain,
    /// Least memory traffic of all together, in MB/s
    Bandwidth,
}

impl PartitionObjectiveName {
    /// The objective.
    pub(crate) fn objective(self) -> PartitionObjective {
        match self {
            Self::Stp => PartitionObjective::Stp,
            Self::Unfairness => PartitionObjective::Unfairness,
            Self::Antt => PartitionObjective::MeanSlowdown,
            Self::MaxSlowdown => PartitionObjective::MaxSlowdown,
            Self::Jain => PartitionObjective::Jain,
            Self::Bandwidth => PartitionObjective::Bandwidth,
        }
    }
}

/// Which set of a cache a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IndexName {
    /// By a hash
    Hashed,
    /// Line modulo sets
    Modulo,
}

/// When a replay ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UntilName {
    /// When the first program has ended
    First,
    /// When all programs have ended; the figures are of whole passes
    Longest,
}

/// How lines that come one after another are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LineFormat {
    /// A table for people
    Text,
    /// Comma-separated values with a header
    Csv,
    /// One JSON object a line
    Json,
}

/// What counts are put in relation to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PerName {
    /// The time between samples
    Second,
    /// Instructions
    #[value(name = "1000-instructions")]
    Instructions,
    /// Cycles
    #[value(name = "1000-cycles")]
    Cycles,
}

/// Seconds of a number with a unit: `1s`, `200ms`, `0.5`.
fn seconds_of(text: &str) -> Option<f64> {
    let (number, unit_s) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    number.trim().parse::<f64>().ok().map(|number| number * unit_s)
}

/// A time between samples in seconds: `1s`, `200ms`, `0.5`.
pub(in crate::cli) fn interval(text: &str) -> Result<f64, String> {
    let seconds =
        seconds_of(text).filter(|seconds| (LEAST_INTERVAL_S..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "expected a time such as 1s or 200ms, from 10ms to a day".to_owned())
}

/// A time to wait in seconds: `20ms`, `0`; infinite for `never`.
pub(in crate::cli) fn spill_after(text: &str) -> Result<f64, String> {
    if text.trim() == "never" {
        return Ok(f64::INFINITY);
    }
    let seconds = seconds_of(text).filter(|seconds| (0.0..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "expected a time such as 20ms or 1s, or never".to_owned())
}

/// A number of instructions: whole, or with a unit as `corun profile` prints them: `200M`, `1.5G`.
pub(in crate::cli) fn instructions(text: &str) -> Result<u64, String> {
    let wrong = || "expected a number of instructions such as 200000000, 200M or 1.5G".to_owned();
    let text = text.trim();
    let unit = match text.chars().last() {
        Some('k') => 1e3,
        Some('M') => 1e6,
        Some('G') => 1e9,
        Some('T') => 1e12,
        _ => return text.parse().ok().filter(|&count| count > 0).ok_or_else(wrong),
    };
    let count = text[..text.len() - 1].trim().parse::<f64>().ok().map(|number| number * unit);
    // Up to here each whole number is one of f64's.
    let count = count.filter(|count| (1.0..=9e15).contains(count));
    count.map(|count| count.round() as u64).ok_or_else(wrong)
}

/// A number of instructions of a simulated run.
pub(in crate::cli) fn instructions_of_a_run(text: &str) -> Result<u64, String> {
    let most = 1_000_000_000_000_000;
    let count = instructions(text)?;
    if count > most { Err(format!("expected at most {most} instructions")) } else { Ok(count) }
}

/// A number of instructions of a window.
pub(in crate::cli) fn instructions_of_a_window(text: &str) -> Result<u64, String> {
    let count = instructions(text)?;
    if count < 1000 { Err("expected at least 1000 instructions".to_owned()) } else { Ok(count) }
}

/// An event and how often it is to happen: `page-faults=100`. An event's own parts may have `=`.
pub(in crate::cli) fn event_count(text: &str) -> Result<(String, u64), String> {
    let wrong = || "expected an event, `=` and a whole number above 0".to_owned();
    let (event, count) = text.rsplit_once('=').ok_or_else(wrong)?;
    let count = count.trim().parse::<u64>().ok().filter(|&count| count > 0).ok_or_else(wrong)?;
    let event = event.trim();
    // Else the number is one of the event's parts.
    let whole = !event.is_empty() && event.matches('/').count() != 1;
    if whole { Ok((event.to_owned(), count)) } else { Err(wrong()) }
}

/// A share of the cache lines.
pub(super) fn sampling_rate(text: &str) -> Result<SamplingRate, String> {
    let rate = text.parse().ok().and_then(SamplingRate::new);
    rate.ok_or_else(|| "expected a share above 0 and at most 1".to_owned())
}

/// A number of nanoseconds, 0 to 1e6.
pub(super) fn nanoseconds(text: &str) -> Result<f64, String> {
    number_within(text, 0.0..=1e6, "expected a number of nanoseconds from 0 to 1e6")
}

/// Cycles an instruction.
pub(super) fn cpi(text: &str) -> Result<f64, String> {
    number_within(text, 0.01..=1000.0, "expected cycles an instruction from 0.01 to 1000")
}

/// A slowdown.
pub(super) fn slowdown(text: &str) -> Result<f64, String> {
    number_within(text, 1.0..=1e6, "expected a slowdown from 1 to 1e6")
}

/// A clock in MHz.
pub(super) fn megahertz(text: &str) -> Result<f64, String> {
    number_within(text, 1.0..=1e5, "expected a clock from 1 to 1e5 MHz")
}

/// A set of ways: hexadecimal, with or without `0x`.
pub(super) fn way_mask(text: &str) -> Result<u64, String> {
    let wrong = || "expected a hexadecimal number such as 0xff00".to_owned();
    corun_app::parse_way_mask(text).ok_or_else(wrong)
}

/// A policy's parameter: `name=value`.
pub(super) fn parameter(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), corun_policy::parse_parameter(name, value)?))
}

/// `NAME=TEXT`, neither of them empty.
pub(super) fn named(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, rest)) if !name.trim().is_empty() && !rest.trim().is_empty() => {
            Ok((name.trim().to_owned(), rest.to_owned()))
        }
        _ => Err("expected a name, `=` and what gives its number".to_owned()),
    }
}

/// A loss.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    number_within(text, 0.1..=100.0, "expected a percentage from 0.1 to 100")
}

/// The half width of an interval.
pub(super) fn precision(text: &str) -> Result<f64, String> {
    number_within(text, 0.01..=100.0, "expected a percentage from 0.01 to 100")
}

/// How sure an interval is.
pub(super) fn confidence(text: &str) -> Result<f64, String> {
    number_within(text, 50.0..=99.99, "expected a percentage from 50 to 99.99")
}

#[cfg(test)]
mod tests {
    use super::{
        cpi, event_count, instructions, instructions_of_a_run, instructions_of_a_window, interval,
        nanoseconds, spill_after, way_mask,
    };

    #[test]
    fn intervals_have_units() {
        assert_eq!(["1s", "200ms", "0.5"].map(interval), [Ok(1.0), Ok(0.2), Ok(0.5)]);
        for text in ["0", "5ms", "-1s", "1m", "ms", "NaN", "1e9"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }

    #[test]
    fn instructions_have_the_units_that_a_profile_prints() {
        for (text, count) in
            [("1", 1), ("200M", 200_000_000), ("1.5 G", 1_500_000_000), ("3k", 3000)]
        {
            assert_eq!(instructions(text), Ok(count), "{text}");
        }
        for text in ["", "0", "-1", "M", "0M", "1.5", "2X", "NaNG", "1e300T", "infM", "µ"] {
            assert!(instructions(text).is_err(), "{text}");
        }
        assert_eq!(instructions_of_a_run("1000T"), Ok(1_000_000_000_000_000));
        assert!(instructions_of_a_run("1001T").is_err());
        assert!(instructions_of_a_window("999").is_err() && instructions_of_a_window("1k").is_ok());
    }

    #[test]
    fn a_wait_may_be_none_and_may_be_for_ever() {
        assert_eq!(["20ms", "0", "1s"].map(spill_after), [Ok(0.02), Ok(0.0), Ok(1.0)]);
        assert_eq!(spill_after("never"), Ok(f64::INFINITY));
        for text in ["-1ms", "ms", "NaN", "inf", "1e9", "forever"] {
            assert!(spill_after(text).is_err(), "{text}");
        }
    }

    #[test]
    fn events_have_counts() {
        let read = |text: &str| event_count(text).ok();
        assert_eq!(read("page-faults=100"), Some(("page-faults".to_owned(), 100)));
        let parts = "cpu/event=0xc0,umask=1/";
        assert_eq!(read(&format!("{parts}=7")), Some((parts.to_owned(), 7)));
        for text in ["page-faults", "=3", "a=0", "a=-1", "a=", "a=1e6", "cpu/event=1"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn masks_are_hexadecimal_and_times_bounded() {
        assert_eq!((way_mask("0xff00"), way_mask("3")), (Ok(0xff00), Ok(3)));
        assert!(way_mask("0xg").is_err() && way_mask("").is_err());
        assert_eq!(nanoseconds("0"), Ok(0.0));
        assert!(nanoseconds("-1").is_err() && nanoseconds("NaN").is_err());
        assert!(cpi("0").is_err() && cpi("0.25").is_ok());
    }
}
