//! How a command ends: what it prints where, and its exit code.

use std::io::Write as _;
use std::process::ExitCode;

use corun_app::Result;

/// Why parsing a command line ended without a command: help, the version, or wrong usage.
#[derive(Debug)]
pub struct UsageError(clap::Error);

impl From<clap::Error> for UsageError {
    fn from(error: clap::Error) -> Self {
        Self(error)
    }
}

impl UsageError {
    /// Says it where it belongs. The exit code is 0 for what was asked for, else 2.
    pub fn print(&self, command: &str) -> ExitCode {
        if !self.0.use_stderr() {
            let printed = self.0.print().and_then(|()| std::io::stdout().flush());
            return ended(command, printed.map_err(corun_report::stdout_failed));
        }
        let text = advised(&self.0.render().to_string());
        // Without arguments the text is the help, which is no error message.
        let _ = match text.strip_prefix("error: ") {
            Some(error) => write!(std::io::stderr(), "{command}: {error}"),
            None => write!(std::io::stderr(), "{text}"),
        };
        ExitCode::from(2)
    }
}

/// clap's text, with its advice as corun's own is written. Who mistypes an option does not want it as a value.
fn advised(text: &str) -> String {
    let text = in_words(text).replace("  tip: ", "  try: ");
    let is_of_use = |part: &&str| {
        !(part.starts_with("  try: to pass '") && part.contains("as a value, use '-- "))
    };
    let parts = text.split("\n\n").filter(is_of_use).map(|part| {
        let advice: String = advice_for(part).iter().map(|one| format!("\n  try: {one}")).collect();
        if advice.is_empty() { part.to_owned() } else { format!("{part}\n{advice}") }
    });
    parts.collect::<Vec<_>>().join("\n\n")
}

/// What the standard library says of a text that is no whole number, in the words of corun's own checks.
fn in_words(text: &str) -> String {
    let parts = [
        ("invalid digit found in string", "expected a whole number"),
        ("cannot parse integer from empty string", "expected a whole number"),
        ("number too large to fit in target type", "expected a smaller number"),
        ("number too small to fit in target type", "expected a larger number"),
    ];
    let text = parts.iter().fold(text.to_owned(), |text, (told, words)| text.replace(told, words));
    without_largest(&text).unwrap_or(text)
}

/// A range that ends with the largest number of its type has no end that a person chose; none where there is no such.
fn without_largest(text: &str) -> Option<String> {
    let (value, range) = text.split_once(" is not in ")?;
    let ends =
        [u64::MAX, u64::from(u32::MAX)].map(|most| [format!("..={most}"), format!("..{most}")]);
    let (least, rest) = ends.iter().flatten().find_map(|end| range.split_once(end.as_str()))?;
    least.parse::<u64>().ok()?;
    Some(format!("{value} is not {least} or more{rest}"))
}

/// What a part of clap's text leaves open: the names that a missing value can have, and where a program stands.
fn advice_for(part: &str) -> Vec<&'static str> {
    if part.starts_with("error: the following required arguments were not provided") {
        let is_missing =
            |(missing, _): &&(&str, &str)| part.lines().any(|line| line.trim() == *missing);
        return FOR_MISSING.iter().filter(is_missing).map(|(_, advice)| *advice).collect();
    }
    let is_word = part.starts_with("error: unexpected argument '")
        && !part.starts_with("error: unexpected argument '-");
    if is_word {
        vec!["a program and its arguments stand behind --, where a command takes one"]
    } else {
        Vec::new()
    }
}

/// What a required argument can be, by how the usage shows it.
const FOR_MISSING: [(&str, &str); 4] = [
    (
        "--machine <NAME|FILE>",
        "--machine this, the machine in use; corun topology --list names others",
    ),
    ("--apps <A,B,..>", "corun profiles list, which names the programs of --apps"),
    ("--policy <NAME>", "corun doctor, which names the policies"),
    ("<PID|UNIT>", "corun top, which lists the busiest programs with their threads' numbers"),
];

/// Prints a command's output, or why there is none, and gives the exit code.
pub fn end(command: &str, output: Result<String>) -> ExitCode {
    ended(command, output.and_then(|text| corun_report::print(&text)))
}

/// Says why a command failed, and gives the exit code. A reader that went away has seen enough.
fn ended(command: &str, result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let report = error.report();
            let report = corun_linux::escape_controls_in_lines(&report);
            if !report.is_empty() {
                // A closed stderr leaves nobody to tell.
                let _ = write!(std::io::stderr(), "{command}: {report}");
            }
            ExitCode::from(error.exit_code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_what_it_can_be() {
        let machine =
            clap::Arg::new("machine").long("machine").value_name("NAME|FILE").required(true);
        let command = clap::Command::new("a").arg(machine);
        let text = |words: &[&str]| {
            let error = command.clone().try_get_matches_from(words).unwrap_err();
            advised(&error.render().to_string())
        };
        let missing = text(&["a"]);
        assert!(missing.contains("\n\n  try: --machine this, "), "{missing}");
        assert!(!missing.contains("--apps"), "{missing}");
        let unexpected = text(&["a", "--machine", "this", "sort"]);
        assert!(unexpected.contains("stand behind --"), "{unexpected}");
        assert!(!text(&["a", "--machin", "this"]).contains("stand behind --"));
    }

    #[test]
    fn what_is_no_whole_number_is_told_in_words() {
        let number = clap::Arg::new("n").long("n").value_parser(clap::value_parser!(u64));
        let command = clap::Command::new("a").arg(number);
        for (value, words) in [
            ("x", "'--n <n>': expected a whole number"),
            ("1.5", "'--n <n>': expected a whole number"),
            ("99999999999999999999", "'--n <n>': expected a smaller number"),
        ] {
            let value = format!("--n={value}");
            let error = command.clone().try_get_matches_from(["a", value.as_str()]).unwrap_err();
            let text = advised(&error.render().to_string());
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn a_range_without_end_has_none() {
        let text = |range: std::ops::RangeFrom<u64>| {
            let number =
                clap::Arg::new("n").long("n").value_parser(clap::value_parser!(u64).range(range));
            let error = clap::Command::new("a").arg(number).try_get_matches_from(["a", "--n=0"]);
            advised(&error.unwrap_err().render().to_string())
        };
        assert!(text(64..).contains("'--n <n>': 0 is not 64 or more\n"), "{}", text(64..));
        let number = clap::value_parser!(u32).range(1..);
        let command =
            clap::Command::new("a").arg(clap::Arg::new("n").long("n").value_parser(number));
        let error = command.try_get_matches_from(["a", "--n=0"]).unwrap_err();
        let text = advised(&error.render().to_string());
        assert!(text.contains("0 is not 1 or more"), "{text}");
    }

    #[test]
    fn a_mistyped_option_is_not_advised_to_be_a_value() {
        let command = clap::Command::new("a")
            .arg(clap::Arg::new("seeds").long("seeds"))
            .arg(clap::Arg::new("rest").trailing_var_arg(true).num_args(0..));
        let wrong = |option: &str| {
            let error = command.clone().try_get_matches_from(["a", option]).unwrap_err();
            let text = error.render().to_string();
            (text.contains("as a value"), advised(&text))
        };
        let (had, text) = wrong("--duration");
        assert!(had && !text.contains("as a value"), "{text}");
        assert!(text.contains("unexpected argument '--duration' found\n\nUsage"), "{text}");
        let (_, text) = wrong("--seed");
        assert!(text.contains("  try: a similar argument exists: '--seeds'"), "{text}");
    }
}
