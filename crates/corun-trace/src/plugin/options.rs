//! What the plug-in is told: `name=value` words behind its file name on QEMU's command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::settings::Settings;

/// The plug-in's options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where its report goes.
    pub report: PathBuf,
    /// Stop after this many instructions.
    pub instructions: Option<u64>,
    /// Stop after this time.
    pub duration: Option<Duration>,
    /// How it records.
    pub settings: Settings,
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
            settings: Settings::default(),
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
                "idle" => options.idle = value == "on",
                _ if options.settings.read(name, value) => {}
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
        let mut words = vec![format!("report={report}")];
        words.extend(self.settings.words());
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
        options.settings = Settings { tracked_lines: 77, window: 1000 };
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
