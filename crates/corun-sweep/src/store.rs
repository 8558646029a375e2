//! The results on disk: parts while a sweep runs, one file at its end.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use corun_profile::write_atomically;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::plan::SweepPlan;
use crate::row::SweepRow;
use crate::runner::TaskRows;
use crate::table;
use crate::task::SweepTask;

/// The file with all rows, in the order of the tasks.
pub const RESULTS: &str = "results.parquet";

/// Rows of tasks that the sweep no longer has; they are taken up again when it has them.
const EARLIER: &str = "earlier.parquet";

/// Where parts are kept until the end.
const PARTS: &str = "parts";

/// Rows of a part at most.
const PART_ROWS: usize = 20_000;

/// A part is written at least so often, which is what a power cut may cost.
const PART_EVERY: Duration = Duration::from_secs(10);

/// Results that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system refuses.
    #[error("{path}: cannot be {done}", path = path.display())]
    File {
        /// Which file or folder.
        path: PathBuf,
        /// `read` or `written`.
        done: &'static str,
        /// What it says.
        source: std::io::Error,
    },
    /// Another sweep has it.
    #[error("{path}: another sweep writes its results there; wait for its end, or name another folder", path = path.display())]
    InUse {
        /// Which folder.
        path: PathBuf,
    },
    /// No Parquet file of a sweep.
    #[error("{path}: no results of a sweep: {why}; expected the folder of an earlier sweep or an \
             empty one", path = path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// The folder of a sweep's results.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// Of each hash its rows, whole tasks alone.
    done: HashMap<String, Vec<SweepRow>>,
    /// Hashes whose rows are in no file yet.
    fresh: Vec<String>,
    /// Rows of tasks that failed in this run: no task is done by failing.
    failed: HashMap<String, Vec<SweepRow>>,
    written: Instant,
    next_part: u64,
}

/// A folder of results that is one command's, until this is dropped.
#[derive(Debug)]
pub struct LockedFolder {
    _file: File,
}

impl LockedFolder {
    /// Locks a folder, and makes it where it is not. Where the file system knows no locks, nobody is kept out.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be made or read, or is locked.
    pub fn new(folder: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(folder).map_err(|source| written(folder, source))?;
        let file = File::open(folder).map_err(|source| read(folder, source))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(StoreError::InUse { path: folder.to_owned() }),
            _ => Ok(Self { _file: file }),
        }
    }
}

impl Store {
    /// Opens a folder, and reads what is there from earlier; makes it where it is not.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be made or read, or holds something else by these names.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let parts = folder.join(PARTS);
        fs::create_dir_all(&parts).map_err(|source| written(&parts, source))?;
        let mut store = Self {
            folder: folder.to_owned(),
            done: HashMap::new(),
            fresh: Vec::new(),
            failed: HashMap::new(),
            written: Instant::now(),
            next_part: 0,
        };
        let mut files = vec![folder.join(EARLIER), folder.join(RESULTS)];
        files.extend(store.parts()?);
        for path in files {
            store.load(&path)?;
        }
        Ok(store)
    }

    /// The parts that are there, by name.
    fn parts(&mut self) -> Result<Vec<PathBuf>, StoreError> {
        let folder = self.folder.join(PARTS);
        let entries = fs::read_dir(&folder).map_err(|source| read(&folder, source))?;
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(|source| read(&folder, source))?.path();
            let name = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
            let number = name.as_deref().and_then(|name| name.strip_prefix("part-")?.parse().ok());
            if let Some(number) = number {
                self.next_part = self.next_part.max(u64::saturating_add(number, 1));
                found.push(path);
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    fn load(&mut self, path: &Path) -> Result<(), StoreError> {
        let rows = match rows_of(path) {
            Err(StoreError::File { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                return Ok(());
            }
            rows => rows?,
        };
        let mut by_hash: HashMap<String, Vec<SweepRow>> = HashMap::new();
        for row in rows.into_iter().filter(|row| row.error.is_none()) {
            by_hash.entry(row.hash.clone()).or_default().push(row);
        }
        self.done.extend(by_hash);
        Ok(())
    }

    /// The tasks of a plan that are still to be done.
    pub fn pending(&self, plan: &SweepPlan, tasks: &[SweepTask]) -> Vec<usize> {
        let is_pending = |&index: &usize| !self.done.contains_key(&plan.hash(&tasks[index]));
        (0..tasks.len()).filter(is_pending).collect()
    }

    /// Takes answers, and writes a part where it is time.
    ///
    /// # Errors
    /// [`StoreError`] when a part cannot be written.
    pub fn add(&mut self, answers: Vec<TaskRows>) -> Result<(), StoreError> {
        for TaskRows { rows, .. } in answers {
            let Some(hash) = rows.first().map(|row| row.hash.clone()) else { continue };
            if rows.iter().any(|row| row.error.is_some()) {
                self.failed.insert(hash, rows);
            } else if self.done.insert(hash.clone(), rows).is_none() {
                self.failed.remove(&hash);
                self.fresh.push(hash);
            }
        }
        if self.fresh.len() >= PART_ROWS || self.written.elapsed() >= PART_EVERY {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes what is in no file yet, whole or not at all.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be written.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.written = Instant::now();
        if self.fresh.is_empty() {
            return Ok(());
        }
        let rows: Vec<SweepRow> =
            self.fresh.iter().flat_map(|hash| self.done[hash].clone()).collect();
        let path = self.folder.join(PARTS).join(format!("part-{:06}.parquet", self.next_part));
        save(&path, &rows)?;
        self.next_part += 1;
        self.fresh.clear();
        Ok(())
    }

    /// Writes the one file with all rows in the order of the plan's tasks, and takes the parts away.
    /// Tasks that failed are in it with the reason, and those never tried are not. Gives its rows.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be written; the parts stay then.
    pub fn finish(
        &mut self,
        plan: &SweepPlan,
        tasks: &[SweepTask],
    ) -> Result<Vec<SweepRow>, StoreError> {
        let mut rows = Vec::new();
        let mut earlier = self.done.clone();
        for task in tasks {
            let hash = plan.hash(task);
            earlier.remove(&hash);
            let found = self.done.get(&hash).or_else(|| self.failed.get(&hash));
            rows.extend(found.into_iter().flatten().cloned());
        }
        let mut earlier: Vec<SweepRow> = earlier.into_values().flatten().collect();
        earlier.sort_by(|a, b| (&a.hash, &a.kind).cmp(&(&b.hash, &b.kind)));
        let kept = self.folder.join(EARLIER);
        if !earlier.is_empty() {
            save(&kept, &earlier)?;
        } else if kept.exists() {
            fs::remove_file(&kept).map_err(|source| written(&kept, source))?;
        }
        save(&self.folder.join(RESULTS), &rows)?;
        self.fresh.clear();
        for part in self.parts()? {
            fs::remove_file(&part).map_err(|source| written(&part, source))?;
        }
        // Somebody may have put something of his own there.
        let _ = fs::remove_dir(self.folder.join(PARTS));
        Ok(rows)
    }
}

/// The rows of a folder's [`RESULTS`].
///
/// # Errors
/// [`StoreError`] when they cannot be read.
pub fn stored_rows(folder: &Path) -> Result<Vec<SweepRow>, StoreError> {
    rows_of(&folder.join(RESULTS))
}

/// The rows of a file that [`Store`] wrote, from its bytes.
///
/// # Errors
/// Bad input where they are no results of a sweep.
pub fn rows_of_bytes(bytes: Vec<u8>) -> corun_app::Result<Vec<SweepRow>> {
    table::read(bytes).map_err(|error| {
        corun_app::Error::input(format!("no results of a sweep: {error}"))
            .hint("the file results.parquet of the folder that corun sweep wrote")
    })
}

fn rows_of(path: &Path) -> Result<Vec<SweepRow>, StoreError> {
    let bytes = fs::read(path).map_err(|source| read(path, source))?;
    table::read(bytes)
        .map_err(|error| StoreError::Content { path: path.to_owned(), why: error.to_string() })
}

fn save(path: &Path, rows: &[SweepRow]) -> Result<(), StoreError> {
    let bytes = table::write(rows).map_err(|error| written(path, std::io::Error::other(error)))?;
    write_atomically(path, &bytes).map_err(|source| written(path, source))
}

fn written(path: &Path, source: std::io::Error) -> StoreError {
    StoreError::File { path: path.to_owned(), done: "written", source }
}

fn read(path: &Path, source: std::io::Error) -> StoreError {
    StoreError::File { path: path.to_owned(), done: "read", source }
}

impl From<StoreError> for corun_app::Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Content { .. } | StoreError::InUse { .. } => Self::input(error),
            StoreError::File { .. } => Self::failed(error),
        }
    }
}
