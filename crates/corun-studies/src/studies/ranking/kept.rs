//! Runs that are kept in a folder, so that a long ranking can be made in pieces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use corun_app::{Error, Result};
use corun_report::{json, write_file};
use serde::{Deserialize, Serialize};

use super::runs::{Best, Suffered};

/// The folder, and by what settings its runs were made.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    path: PathBuf,
    settings: String,
}

/// What is known of a mix on a machine: one file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct KeptMix {
    settings: String,
    pub(super) programs: Vec<String>,
    /// None where the best placements were not searched yet.
    pub(super) best: Option<Best>,
    /// By policy; none where a policy is not for the machine.
    pub(super) by_policy: BTreeMap<String, Option<Suffered>>,
}

impl Folder {
    /// A folder that is there, or is made. `settings`: all that decides on a run beside machine, mix and policy.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub(super) fn new(path: PathBuf, settings: String) -> Result<Self> {
        std::fs::create_dir_all(&path).map_err(|error| {
            Error::input(format!("--keep {}: cannot be made: {error}", path.display()))
        })?;
        Ok(Self { path, settings })
    }

    fn file(&self, machine: &str, seed: u64) -> PathBuf {
        self.path.join(format!("{machine}-{seed}.json"))
    }

    /// What is known of a mix already.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged or was made by other settings.
    pub(super) fn read(&self, machine: &str, seed: u64, programs: &[&str]) -> Result<KeptMix> {
        let path = self.file(machine, seed);
        let wrong = |why: &dyn std::fmt::Display| {
            Error::input(format!("{}: {why}", path.display())).hint("give --keep another folder")
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let programs = programs.iter().map(|&name| name.to_owned()).collect();
                return Ok(KeptMix {
                    settings: self.settings.clone(),
                    programs,
                    ..KeptMix::default()
                });
            }
            Err(error) => return Err(wrong(&error)),
        };
        let kept: KeptMix = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        if kept.settings != self.settings || kept.programs != programs {
            let of = if kept.settings == self.settings { "programs" } else { "settings" };
            return Err(wrong(&format!("the runs in it are of other {of}")));
        }
        Ok(kept)
    }

    /// Keeps what is known of a mix.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn write(&self, machine: &str, seed: u64, kept: &KeptMix) -> Result<()> {
        write_file(Path::new(&self.file(machine, seed)), json(kept)?.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::ranking::moments::Moments;

    /// What is written is read again, to the last bit; runs of other settings or programs are refused by name.
    #[test]
    fn runs_are_kept_and_those_of_other_settings_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        let own = Folder::new(path.clone(), "seconds 15".to_owned()).unwrap();
        let mut kept = own.read("m", 7, &["p", "q"]).unwrap();
        assert_eq!((kept.best, kept.by_policy.len()), (None, 0));
        let suffered = Suffered { mean: 1.1, worst: 4.0 / 3.0, unfairness: 0.1 + 0.2 };
        let moments = Moments { held: 1.1, best: 1.0 / 3.0, is_proven: false };
        kept.best = Some(Best { held: suffered, is_proven: true, moments });
        kept.by_policy = BTreeMap::from([("x".to_owned(), Some(suffered)), ("y".to_owned(), None)]);
        own.write("m", 7, &kept).unwrap();
        assert_eq!(own.read("m", 7, &["p", "q"]).unwrap(), kept);
        assert_eq!(own.read("m", 8, &["p", "q"]).unwrap().best, None);
        let other = Folder::new(path, "seconds 16".to_owned()).unwrap();
        let failure = other.read("m", 7, &["p", "q"]).unwrap_err().report();
        assert!(failure.contains("m-7.json: the runs in it are of other settings"), "{failure}");
        let failure = own.read("m", 7, &["q", "p"]).unwrap_err().report();
        assert!(failure.contains("of other programs"), "{failure}");
        std::fs::write(folder.path().join("kept/m-7.json"), "{").unwrap();
        assert!(own.read("m", 7, &["p", "q"]).unwrap_err().report().contains("m-7.json"));
    }
}
