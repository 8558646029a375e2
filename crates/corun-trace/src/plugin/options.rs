//! What the plug-in is told: `name=value` words behind its file name on QEMU's command line.

use std::path::{Path, PathBuf};

use crate::settings::Settings;

/// The plug-in's options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PluginOptions {
    /// Where the folder of all processes' reports is, with the file of the numbers they share.
    pub(crate) report: PathBuf,
    /// The name of the folder within that in which the reports are; no word tells it.
    pub(crate) key: String,
    /// Stop after this many instructions of all processes.
    pub(crate) instructions: Option<u64>,
    /// Leave out so many instructions of this program.
    pub(crate) skip: Option<u64>,
    /// When the process started that executed this program, in nanoseconds of the monotonic
    /// clock; else it is a process's first program.
    pub(crate) process_started_ns: Option<u64>,
    /// The blocked signals, one bit each, where whoever executed this program held all back.
    pub(crate) blocked_signals: Option<u64>,
    /// How it records.
    pub(crate) settings: Settings,
    /// A trace file with its header, to which this program's accesses are added.
    pub(crate) trace: Option<PathBuf>,
    /// A file to which the instructions of this program's first thread are added.
    pub(crate) instruction_trace: Option<PathBuf>,
    /// Watch nothing: every instruction gets a memory callback that returns at once. The
    /// baseline that the tracer's cost is measured against.
    pub(crate) idle: bool,
}

/// An option that is none, or whose value cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the plug-in does not understand '{0}'")]
pub(crate) struct BadOption(String);

impl PluginOptions {
    /// PluginOptions with this folder and no limits.
    pub(crate) fn new(report: PathBuf) -> Self {
        Self { report, ..Self::default() }
    }

    /// Reads the words.
    ///
    /// # Errors
    /// [`BadOption`] for the first that is wrong, or when `report` is missing.
    pub(crate) fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, BadOption> {
        let mut options = Self::new(PathBuf::new());
        for word in words {
            let bad = || BadOption(word.to_owned());
            let (name, value) = word.split_once('=').ok_or_else(bad)?;
            let number = || value.parse::<u64>().map_err(|_| bad());
            match name {
                "report" => options.report = PathBuf::from(value),
                "instructions" => options.instructions = Some(number()?),
                "skip" => options.skip = Some(number()?),
                "process" => options.process_started_ns = Some(number()?),
                "blocked" => options.blocked_signals = Some(number()?),
                "trace" => options.trace = Some(PathBuf::from(value)),
                "instruction_trace" => options.instruction_trace = Some(PathBuf::from(value)),
                "idle" => options.idle = value == "on",
                _ if options.settings.read(name, value) => {}
                _ => return Err(bad()),
            }
        }
        if options.report.as_os_str().is_empty() && !options.idle {
            return Err(BadOption("no report=FOLDER".to_owned()));
        }
        Ok(options)
    }

    /// The folder in which the reports are.
    pub(crate) fn reports(&self) -> PathBuf {
        self.report.join(&self.key)
    }

    /// The words, each to be put behind a comma.
    pub(crate) fn words(&self) -> Vec<String> {
        let report = escaped(&self.report);
        let mut words = vec![format!("report={report}")];
        words.extend(self.settings.words());
        words.extend(self.instructions.map(|count| format!("instructions={count}")));
        words.extend(self.skip.map(|count| format!("skip={count}")));
        words.extend(self.process_started_ns.map(|moment| format!("process={moment}")));
        words.extend(self.blocked_signals.map(|signals| format!("blocked={signals}")));
        words.extend(self.trace.iter().map(|file| format!("trace={}", escaped(file))));
        let instructions = self.instruction_trace.iter();
        words.extend(instructions.map(|file| format!("instruction_trace={}", escaped(file))));
        if self.idle {
            words.push("idle=on".to_owned());
        }
        words
    }
}

/// QEMU reads two commas as one inside a value.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use corun_profile::EngineKind;

    use super::*;
    use crate::engine::{EngineOptions, SamplingRate, SetCaches};

    #[test]
    fn words_read_back() {
        let mut options = PluginOptions::new(PathBuf::from("/tmp/a b/report"));
        options.instructions = Some(12);
        options.skip = Some(13);
        options.process_started_ns = Some(34);
        options.trace = Some(PathBuf::from("/tmp/trace"));
        options.instruction_trace = Some(PathBuf::from("/tmp/instructions"));
        options.blocked_signals = Some(u64::MAX);
        let engine = EngineOptions {
            kind: EngineKind::FixedRate,
            rate: SamplingRate::new(0.013).unwrap(),
            lines: 77,
            fetches: false,
            kernel: false,
        };
        let shape = |text: &str| text.parse().unwrap();
        let caches = SetCaches {
            llcs: vec![shape("16MiB/16"), shape("4MiB/8")],
            private: vec![shape("32KiB/8"), shape("256KiB/8")],
        };
        options.settings = Settings { engine, window: 1000, main_only: true, caches };
        let words = options.words();
        assert_eq!(PluginOptions::parse(words.iter().map(String::as_str)), Ok(options));
    }

    #[test]
    fn bad_words_are_named() {
        let error = PluginOptions::parse(["report=x", "lines=many"]).unwrap_err();
        assert_eq!(error.to_string(), "the plug-in does not understand 'lines=many'");
        assert!(PluginOptions::parse(["report=x", "colour=red"]).is_err());
        assert!(PluginOptions::parse([]).is_err());
    }
}
