//! `corun profiles`: the library.

mod class;
mod export;
mod import;
mod list;
mod show;

use crate::cli::ProfilesCommand;
use crate::failure::Outcome;

/// The machine on which a CSV of solo figures was measured, unless the user says another.
const TABLE_MACHINE: &str = "xeon-gold-6138";

pub(super) fn run(command: &ProfilesCommand) -> Outcome<String> {
    match command {
        ProfilesCommand::List(arguments) => list::run(arguments),
        ProfilesCommand::Show(arguments) => show::run(arguments),
        ProfilesCommand::Import(arguments) => import::run(arguments),
        ProfilesCommand::Export(arguments) => export::run(arguments),
    }
}

/// A count in engineering form: `150 G`.
pub(in crate::commands) fn count(value: u64) -> String {
    let units = ["", " k", " M", " G", " T", " P"];
    let mut scaled = value as f64;
    let mut unit = 0;
    while scaled >= 999.5 && unit + 1 < units.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    let decimals = if unit == 0 || scaled >= 99.95 { 0 } else { 1 };
    format!("{scaled:.decimals$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn counts_keep_three_digits() {
        assert_eq!(count(999), "999");
        assert_eq!(count(1500), "1.5 k");
        assert_eq!(count(150_000_000_000), "150 G");
        assert_eq!(count(u64::MAX), "18447 P");
    }
}
