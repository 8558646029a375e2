//! What the plug-in tells the process that started it: a private file.

use std::fs;
use std::io;
use std::path::Path;

use corun_profile::{Profile, ProfileData, Recording};
use serde::{Deserialize, Serialize};

/// Version of this file. Plug-in and starter must agree.
pub const REPORT_VERSION: u32 = 1;

/// The plug-in's report, rewritten while the program runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`REPORT_VERSION`].
    pub version: u32,
    /// QEMU's name of the guest's instruction set.
    pub target: String,
    /// How far it had come.
    pub state: State,
    /// Processes that the program started and that are not in the figures.
    pub children: u64,
    /// Threads that could not be followed.
    pub lost_threads: u64,
    /// The recording as a profile file's text; none when nothing ran.
    profile: Option<String>,
}

/// How far the program had come when a report was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It was running; so it was killed if nothing followed.
    Running,
    /// It was about to replace itself by another program, which QEMU starts natively.
    Replaced,
    /// It ended.
    Ended,
    /// The instruction limit was reached, and it was stopped.
    InstructionLimit,
    /// The time limit was reached, and it was stopped.
    TimeLimit,
}

impl Report {
    /// A report of what was recorded, if anything ran, with everything else at its beginning.
    pub fn new(target: &str, state: State, recorded: Option<Recording>) -> Self {
        let profile = recorded.map(|recording| {
            let data = ProfileData::Recording(recording);
            Profile { name: "report".to_owned(), data }.to_toml()
        });
        let target = target.to_owned();
        Self { version: REPORT_VERSION, target, state, children: 0, lost_threads: 0, profile }
    }

    /// What was recorded; `None` when nothing ran.
    ///
    /// # Errors
    /// The profile's text is none.
    pub fn recording(&self) -> io::Result<Option<Recording>> {
        let Some(text) = &self.profile else { return Ok(None) };
        let profile = Profile::from_toml(text, "report").map_err(io::Error::other)?;
        match profile.data {
            ProfileData::Recording(recording) => Ok(Some(recording)),
            ProfileData::Table(_) => Ok(None),
        }
    }

    /// Writes it whole or not at all.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let text = toml::to_string(self).map_err(io::Error::other)?;
        let fresh = path.with_extension("new");
        fs::write(&fresh, text)?;
        fs::rename(&fresh, path)
    }

    /// Reads one.
    ///
    /// # Errors
    /// What the file system says, or that it is no report.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        toml::from_str(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}
