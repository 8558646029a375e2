//! What the plug-ins tell the process that started them: a private folder, with a file a program.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use corun_profile::{Profile, ProfileData, Recording};
use rustix::fs::{AtFlags, statat};
use serde::{Deserialize, Serialize};

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

    /// Is nothing recorded in it?
    pub(crate) fn is_empty(&self) -> bool {
        self.profile.is_none()
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

    /// Its file's name, this program's alone: no process starts two at one moment, and no number is two processes' then. The
    /// names sort by process, in the order of their start, then by program, then by generation.
    pub(crate) fn name(&self, generation: u32) -> String {
        let (process, number) = (self.process_started_ns, self.process);
        format!("{process:020}-{number}-{:020}-{generation:02}.{EXTENSION}", self.started_ns)
    }

    /// Is there such a file?
    pub(crate) fn is_there(&self, folder: &OwnedFd, generation: u32) -> bool {
        statat(folder, self.name(generation), AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// The reports of a folder: processes in the order of their start, the programs of each in
    /// theirs. Of a program that wrote as several users, the last one's.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION)
                && entry.file_type()?.is_file()
            {
                paths.push(path);
            }
        }
        paths.sort();
        let program = |path: &PathBuf| {
            let name = path.file_stem().and_then(OsStr::to_str)?;
            name.rsplit_once('-').map(|(program, _)| program.to_owned())
        };
        paths.reverse();
        paths.dedup_by_key(|path| program(path));
        paths.reverse();
        Ok(paths)
    }

    /// Reads one.
    ///
    /// # Errors
    /// What the file system says, or that it is no report.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let mut text = String::new();
        let mut file = File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
        file.read_to_string(&mut text)?;
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
