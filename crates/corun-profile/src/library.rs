//! The profile library: programs by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};

use corun_input::{FileError, read_text, similar_names};
use include_dir::{Dir, include_dir};

use crate::profile_file::command_of_recording;
use crate::{MeasuredOn, Profile, ProfileData, import_csv};

/// The profiles that come with corun, as files.
static SHIPPED: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/profiles");

/// Programs by name, in the order of their names.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Library {
    programs: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    profile: Held,
    file: String,
}

impl Entry {
    fn profile(&self) -> &Profile {
        match &self.profile {
            Held::Read(profile) => profile,
            Held::Shipped(shipped) => shipped.profile(),
        }
    }

    fn command(&self) -> Option<&[String]> {
        match &self.profile {
            Held::Read(profile) => match &profile.data {
                ProfileData::Recording(recording) => Some(&recording.origin.command),
                ProfileData::Table(_) => None,
            },
            Held::Shipped(shipped) => Some(shipped.command()),
        }
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.file == other.file && self.profile() == other.profile()
    }
}

#[derive(Debug, Clone)]
enum Held {
    Read(Box<Profile>),
    Shipped(&'static ShippedProfile),
}

/// A profile that comes with corun. It is read when it is first asked for: all of them take far longer than the few
/// that most questions are about.
#[derive(Debug)]
struct ShippedProfile {
    /// Its name, which its file has too.
    name: &'static str,
    text: &'static str,
    profile: OnceLock<Profile>,
    command: OnceLock<Vec<String>>,
}

impl ShippedProfile {
    fn file(&self) -> String {
        format!("profiles/{}.toml", self.name)
    }

    fn profile(&self) -> &Profile {
        let read =
            || Profile::from_toml(self.text, &self.file()).expect("a test reads all of them");
        self.profile.get_or_init(read)
    }

    /// The command line that was traced, without the rest of the profile.
    fn command(&self) -> &[String] {
        let read =
            || command_of_recording(self.text, &self.file()).expect("a test reads all of them");
        self.command.get_or_init(read)
    }
}

/// The shipped profiles in the order of their names.
static SHIPPED_PROFILES: LazyLock<Vec<ShippedProfile>> = LazyLock::new(|| {
    let shipped = |name| {
        let file = SHIPPED.get_file(format!("{name}.toml"));
        let text = file.and_then(|file| file.contents_utf8()).expect("a test reads all of them");
        ShippedProfile { name, text, profile: OnceLock::new(), command: OnceLock::new() }
    };
    shipped_names().into_iter().map(shipped).collect()
});

/// A name that the library does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct UnknownProgram {
    /// The name that was asked for.
    pub name: String,
    /// Names that hold it or are spelt much like it, the likeliest first.
    pub candidates: Vec<String>,
    /// Profiles of one's own that were recorded from an executable of this name, each with its file: `solver (a.toml)`.
    pub recorded_from: Vec<String>,
    /// How many programs the library holds.
    pub library_len: usize,
}

/// The most recordings that an error lists.
const MOST_RECORDINGS: usize = 8;

impl UnknownProgram {
    fn text(&self) -> String {
        if self.name.is_empty() {
            return "found an empty name, expected a program's".to_owned();
        }
        let start = format!("no program is named {:?}", self.name);
        if self.library_len == 0 {
            return format!("{start}: the library is empty");
        }
        if !self.recorded_from.is_empty() {
            return format!("{start}; recorded from it: {}", self.recorded_from.join(", "));
        }
        if self.candidates.is_empty() {
            return format!("{start} among the {} of the library", self.library_len);
        }
        format!("{start}; near it: {}", self.candidates.join(", "))
    }
}

/// The names of the programs of the shipped library, in alphabetical order, without reading their profiles.
pub fn shipped_names() -> Vec<&'static str> {
    let mut names: Vec<&str> =
        SHIPPED.files().filter_map(|file| file.path().to_str()?.strip_suffix(".toml")).collect();
    names.sort_unstable();
    names
}

impl Library {
    /// The library that comes with corun.
    ///
    /// # Errors
    /// None today: as [`Self::load`], which other libraries come from.
    pub fn shipped() -> Result<Self, FileError> {
        let entry = |shipped: &'static ShippedProfile| {
            let entry = Entry { profile: Held::Shipped(shipped), file: shipped.file() };
            (shipped.name.to_owned(), entry)
        };
        Ok(Self { programs: SHIPPED_PROFILES.iter().map(entry).collect() })
    }

    /// Reads a library: a folder of profile files (`*.toml`; others and folders in it are passed
    /// over), one profile file, or a CSV of solo figures measured on the Xeon Gold 6138, as the
    /// public one is.
    ///
    /// # Errors
    /// [`FileError`] when something cannot be read or is broken, a name stands twice, a folder
    /// holds no profile, or the path ends neither in .toml nor in .csv.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        Self::load_measured_on(path, &MeasuredOn::xeon_gold_6138())
    }

    /// [`Self::load`] with the machine that a CSV's figures were measured on.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_measured_on(path: &Path, measured_on: &MeasuredOn) -> Result<Self, FileError> {
        let file = path.display().to_string();
        let mut library = Self::default();
        if path.is_dir() {
            for one in profile_files(path)? {
                library.insert(Profile::load(&one)?, one.display().to_string())?;
            }
            if library.is_empty() {
                return Err(FileError::whole(&file, "holds no profile, expected *.toml files"));
            }
            return Ok(library);
        }
        let text = read_text(path)?;
        if is_toml(path) {
            library.insert(Profile::from_toml(&text, &file)?, file)?;
        } else if has_extension(path, "csv") {
            for profile in import_csv(&text, &file, measured_on)? {
                library.insert(profile, file.clone())?;
            }
        } else {
            let why = "is no profile: expected a folder, a .toml or a .csv file";
            return Err(FileError::whole(&file, why));
        }
        Ok(library)
    }

    /// Adds a profile that `file` holds.
    ///
    /// # Errors
    /// [`FileError`] naming both files when the library holds its name already.
    pub fn insert(&mut self, profile: Profile, file: String) -> Result<(), FileError> {
        let name = profile.name.clone();
        if let Some(before) = self.programs.get(&name) {
            let why = format!("found {name:?}, which {} holds already", before.file);
            return Err(FileError { field: "name".to_owned(), ..FileError::whole(&file, why) });
        }
        self.programs.insert(name, Entry { profile: Held::Read(Box::new(profile)), file });
        Ok(())
    }

    /// The program of exactly this name.
    ///
    /// # Errors
    /// [`UnknownProgram`] with the names near it. Part of a name is none, also where only one
    /// program has it: a later profile would change what a command means.
    pub fn get(&self, name: &str) -> Result<&Profile, UnknownProgram> {
        self.find(name).ok_or_else(|| UnknownProgram {
            name: name.to_owned(),
            candidates: self.candidates(name),
            recorded_from: self.recorded_from(name),
            library_len: self.len(),
        })
    }

    /// The program of exactly this name, where it may well be absent: nothing near it is looked for.
    pub fn find(&self, name: &str) -> Option<&Profile> {
        self.programs.get(name).map(Entry::profile)
    }

    /// The file that a program comes from, as it was named.
    pub fn file_of(&self, name: &str) -> Option<&str> {
        self.programs.get(name).map(|entry| entry.file.as_str())
    }

    /// The programs by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Profile> {
        self.programs.values().map(Entry::profile)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.programs.keys().map(String::as_str)
    }

    /// The command line that each recorded program was traced with, by the program's name, in the order of the names.
    /// Of a shipped profile only the head is read.
    pub fn commands(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.programs.iter().filter_map(|(name, entry)| Some((name.as_str(), entry.command()?)))
    }

    /// How many programs it holds.
    pub fn len(&self) -> usize {
        self.programs.len()
    }

    /// Does it hold none?
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// Of the shipped profiles none: their names are in the library already.
    fn recorded_from(&self, executable: &str) -> Vec<String> {
        let is_from = |entry: &Entry| match &entry.profile {
            Held::Read(profile) => profile.executable() == Some(executable),
            Held::Shipped(_) => false,
        };
        let found = self.programs.iter().filter(|(_, entry)| is_from(entry));
        let found = found.map(|(name, entry)| format!("{name} ({})", entry.file));
        found.take(MOST_RECORDINGS).collect()
    }

    fn candidates(&self, name: &str) -> Vec<String> {
        let known: Vec<&str> = self.names().collect();
        similar_names(name, &known).into_iter().map(str::to_owned).collect()
    }
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
}

fn is_toml(path: &Path) -> bool {
    has_extension(path, "toml")
}

/// The profile files of a folder by name.
fn profile_files(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let unreadable = |error: std::io::Error| {
        FileError::whole(&folder.display().to_string(), format!("cannot be read: {error}"))
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if is_toml(&path) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
#[path = "library_tests.rs"]
mod tests;
