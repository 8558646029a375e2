//! What the reference cache says.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use corun_app::{Error, Result};
use corun_cache::{
    AccessSource, CacheConfig, Geometry, Indexing, LoadedTrace, MemoryTiming, Replacement, ReplayFigures,
    ReplaySetup, ReplayedProgram, Until, replay,
};
use rayon::prelude::*;

use super::{CLOCK_MHZ, CPI, CacheForm, LATENCY_NS};

const LINE_BYTES: u64 = 64;

/// A program with its trace.
pub(super) struct Traced {
    pub(super) name: String,
    pub(super) path: PathBuf,
    trace: LoadedTrace,
}

/// The traces of a folder by name: `NAME.trace`.
pub(super) fn traces(folder: &Path) -> Result<Vec<Traced>> {
    let broken = |error: std::io::Error| Error::input(format!("{}: {error}", folder.display()));
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(broken)? {
        let path = entry.map_err(broken)?.path();
        if path.extension().is_some_and(|ending| ending == "trace") {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.len() < 2 {
        let (folder, count) = (folder.display(), paths.len());
        return Err(Error::input(format!("{folder}: {count} traces, expected two at least")));
    }
    paths.into_par_iter().map(Traced::read).collect()
}

impl Traced {
    fn read(path: PathBuf) -> Result<Self> {
        let trace = LoadedTrace::read(&path).map_err(Error::input)?;
        let line_bytes = trace.header().line_bytes;
        if line_bytes != LINE_BYTES {
            let path = path.display();
            let reason = format!("{path}: lines of {line_bytes} bytes, not {LINE_BYTES}");
            return Err(Error::input(reason));
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, path, trace })
    }

    /// How many lines it touches in all.
    pub(super) fn lines(&self) -> u64 {
        let mut accesses = self.trace.accesses();
        let mut lines = HashSet::new();
        while let Ok(Some(access)) = accesses.next_access() {
            lines.insert(access.line);
        }
        lines.len() as u64
    }
}

impl CacheForm {
    /// As it is shown.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Full => "fully associative LRU",
            Self::Lru16 => "16 ways, LRU",
            Self::Plru16 => "16 ways, tree-PLRU",
        }
    }

    fn shape(self, mib: u64) -> CacheConfig {
        let (ways, replacement) = match self {
            Self::Full => (None, Replacement::Lru),
            Self::Lru16 => (Some(16), Replacement::Lru),
            Self::Plru16 => (Some(16), Replacement::TreePlru),
        };
        let geometry = Geometry { bytes: mib << 20, line_bytes: LINE_BYTES, ways };
        CacheConfig { geometry, replacement, indexing: Indexing::Hashed }
    }
}

/// Replays programs together until each has been through once.
pub(super) fn together(
    form: CacheForm,
    mib: u64,
    programs: &[&Traced],
) -> Result<Vec<ReplayFigures>> {
    let setup = ReplaySetup {
        shared: form.shape(mib),
        memory: MemoryTiming { latency_ns: LATENCY_NS, service_ns: 0.0 },
        until: Until::Longest,
        warm_up: 0,
        same_process: false,
    };
    let programs = programs.iter().map(|program| ReplayedProgram {
        source: program.trace.accesses(),
        ns_per_instruction: CPI * 1000.0 / CLOCK_MHZ,
        mask: None,
        private: Vec::new(),
    });
    replay(&setup, programs.collect()).map_err(Error::input)
}
