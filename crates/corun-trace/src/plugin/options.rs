//! What the plug-in is told: `name=value` words behind its file name on QEMU's command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::engine::{DEFAULT_TRACKED_LINES, DEFAULT_WINDOW};

/// The plug-in's options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where its report goes.
    pub report: PathBuf,
    /// Stop after this many instructions.
    pub instructions: Option<u64>,
    /// Stop after this time.
    pub duration: Option<Duration>,
    /// Lines followed at most.
    pub tracked_lines: usize,
    /// Instructions of a window, by which phases are told apart.
    pub window: u64,
    /// Watch nothing: every instruction gets a memory callback that returns at once. The
    /// baseline that the tracer's cost is measured against.
    pub idle: bool,
}

/// An option that is none, or whose value cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the plug-in does not understand '{0}'")]
pub struct BadOption(String);

impl Options {
    /// Options with this report and no limits.
    pub fn new(report: PathBuf) -> Self {
        Self {
            report,
            instructions: None,
            duration: None,
            tracked_lines: DEFAULT_TRACKED_LINES,
            window: DEFAULT_WINDOW,
            idle: false,
        }
    }

    /// Reads the words.
    ///
    /// # Errors
    /// [`BadOption`] for the first that is wrong, or when `report` is missing.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, BadOption> {
        let mut options = Self::new(PathBuf::new());
        for word in words {
            let bad = || BadOption(word.to_owned());
            let (name, value) = word.split_once('=').ok_or_else(bad)?;
            let number = || value.parse::<u64>().map_err(|_| bad());
            match name {
                "report" => options.report = PathBuf::from(value),
                "instructions" => options.instructions = Some(number()?),
                "milliseconds" => options.duration = Some(Duration::from_millis(number()?)),
                "window" => options.window = number()?,
                "lines" => options.tracked_lines = number()? as usize,
                "idle" => options.idle = value == "on",
                _ => return Err(bad()),
            }
        }
        if options.report.as_os_str().is_empty() && !options.idle {
            return Err(BadOption("no report=FILE".to_owned()));
        }
        Ok(options)
    }

    /// The words, each to be put behind a comma.
    pub fn words(&self) -> Vec<String> {
        // QEMU reads two commas as one inside a value.
        let report = self.report.display().to_string().replace(',', ",,");
        let mut words = vec![format!("report={report}"), format!("lines={}", self.tracked_lines)];
        words.push(format!("window={}", self.window));
        words.extend(self.instructions.map(|count| format!("instructions={count}")));
        words.extend(self.duration.map(|time| format!("milliseconds={}", time.as_millis())));
        if self.idle {
            words.push("idle=on".to_owned());
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back() {
        let mut options = Options::new(PathBuf::from("/tmp/a b/report"));
        options.instructions = Some(12);
        options.duration = Some(Duration::from_millis(2500));
        options.tracked_lines = 77;
        options.window = 1000;
        let words = options.words();
        assert_eq!(Options::parse(words.iter().map(String::as_str)), Ok(options));
    }

    #[test]
    fn bad_words_are_named() {
        let error = Options::parse(["report=x", "lines=many"]).unwrap_err();
        assert_eq!(error.to_string(), "the plug-in does not understand 'lines=many'");
        assert!(Options::parse(["report=x", "colour=red"]).is_err());
        assert!(Options::parse([]).is_err());
    }
}
