//! What the plug-ins tell the process that started them: a private folder, with a file a program.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use corun_profile::{Profile, ProfileData, Recording};
use serde::{Deserialize, Serialize};

use crate::control::Control;

/// Version of this file. Plug-in and starter must agree.
pub(crate) const REPORT_VERSION: u32 = 3;

/// Name of the file of the numbers that all processes share.
pub(crate) const CONTROL: &str = "control";

/// How reports' names end.
const EXTENSION: &str = "report";

/// Bytes of a command line that a report keeps, at most.
const MOST_COMMAND_BYTES: usize = 1024;

/// The plug-in's report, rewritten while the program runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Report {
    /// [`REPORT_VERSION`].
    pub(crate) version: u32,
    /// QEMU's name of the guest's instruction set.
    pub(crate) target: String,
    /// How far it had come.
    pub(crate) state: RunState,
    /// The program's words, the name it was called by first.
    pub(crate) command: Vec<String>,
    /// The process's number.
    pub(crate) process: u32,
    /// When the process started, in nanoseconds of the monotonic clock.
    pub(crate) process_started_ns: u64,
    /// When this program of the process started.
    pub(crate) started_ns: u64,
    /// Threads that could not be followed.
    pub(crate) lost_threads: u64,
    /// The recording as a profile file's text; none when nothing ran.
    profile: Option<String>,
}

/// How far the program had come when a report was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RunState {
    /// It was running; so it was killed if nothing followed.
    Running,
    /// It was about to replace itself by another program, which has a report of its own.
    Replaced,
    /// It was about to replace itself by a program that runs natively, unrecorded.
    Untraced,
    /// It ended.
    Ended,
    /// A signal ended it. What it did until then is in the report.
    Signalled,
    /// The instruction limit of all processes was reached, and it was stopped.
    InstructionLimit,
    /// The time limit of all processes was reached, and it was stopped.
    TimeLimit,
}

impl Report {
    /// A report of what was recorded, if anything ran, with everything else at its beginning.
    pub(crate) fn new(target: &str, state: RunState, recorded: Option<Recording>) -> Self {
        let profile = recorded.map(|recording| {
            let data = ProfileData::Recording(recording);
            Profile { name: "report".to_owned(), data }.to_toml()
        });
        let target = target.to_owned();
        Self {
            version: REPORT_VERSION,
            target,
            state,
            command: Vec::new(),
            process: 0,
            process_started_ns: 0,
            started_ns: 0,
            lost_threads: 0,
            profile,
        }
    }

    /// What was recorded; `None` when nothing ran.
    ///
    /// # Errors
    /// The profile's text is none.
    pub(crate) fn recording(&self) -> io::Result<Option<Recording>> {
        let Some(text) = &self.profile else { return Ok(None) };
        let profile = Profile::from_toml(text, "report").map_err(io::Error::other)?;
        match profile.data {
            ProfileData::Recording(recording) => Ok(Some(recording)),
            ProfileData::Table(_) => Ok(None),
        }
    }

    /// Writes it into a folder, whole or not at all. Its name is this program's alone: no process
    /// starts two at one moment, and no number is two processes' then. A failure is told to whoever
    /// started the recording as well.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        self.write_file(folder).inspect_err(|error| {
            if let Ok(control) = Control::open(&folder.join(CONTROL)) {
                control.set_unwritten(error);
            }
        })
    }

    fn write_file(&self, folder: &Path) -> io::Result<()> {
        let text = toml::to_string(self).map_err(io::Error::other)?;
        // The names sort by process, in the order of their start, then by program.
        let name =
            format!("{:020}-{}-{:020}", self.process_started_ns, self.process, self.started_ns);
        let path = folder.join(name);
        let fresh = path.with_extension("new");
        fs::write(&fresh, text)?;
        fs::rename(&fresh, path.with_extension(EXTENSION))
    }

    /// The reports of a folder: processes in the order of their start, the programs of each in
    /// theirs.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }

    /// Reads one.
    ///
    /// # Errors
    /// What the file system says, or that it is no report.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        toml::from_str(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

/// A command line for people, cut off where it is very long.
pub(crate) fn shortened(command: &[OsString]) -> Vec<String> {
    let mut words = Vec::new();
    let mut left = MOST_COMMAND_BYTES;
    for word in command {
        let mut word = word.to_string_lossy().into_owned();
        let cut = word.len() > left;
        if cut {
            let end = (0..=left).rev().find(|&end| word.is_char_boundary(end));
            word.truncate(end.unwrap_or(0));
            word.push('…');
        }
        left = left.saturating_sub(word.len());
        words.push(word);
        if cut {
            break;
        }
    }
    words
}
