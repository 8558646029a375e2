//! What the reference cache says.

use std::path::{Path, PathBuf};

use corun_cache::{
    CacheShape, Figures, Geometry, Indexing, Memory, Program, Replacement, Setup, TraceFile, Until,
    replay,
};

use super::{CLOCK_MHZ, CPI, LATENCY_NS};
use crate::failure::{Failure, Outcome};

/// A program with its trace.
pub(super) struct Traced {
    pub(super) name: String,
    pub(super) trace: PathBuf,
}

/// The traces of a folder by name: `NAME.trace`.
pub(super) fn traces(folder: &Path) -> Outcome<Vec<Traced>> {
    let broken = |error: std::io::Error| Failure::input(format!("{}: {error}", folder.display()));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(broken)? {
        let trace = entry.map_err(broken)?.path();
        if trace.extension().is_some_and(|ending| ending == "trace") {
            let name = trace.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            found.push(Traced { name, trace });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    if found.len() < 2 {
        let (folder, count) = (folder.display(), found.len());
        return Err(Failure::input(format!("{folder}: {count} traces, expected two at least")));
    }
    Ok(found)
}

/// A form of the reference cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) name: &'static str,
    ways: Option<u32>,
    replacement: Replacement,
}

/// The law's own cache first, then what is built.
pub(super) const FORMS: [Form; 3] = [
    Form { name: "fully associative LRU", ways: None, replacement: Replacement::Lru },
    Form { name: "16 ways, LRU", ways: Some(16), replacement: Replacement::Lru },
    Form { name: "16 ways, tree-PLRU", ways: Some(16), replacement: Replacement::TreePlru },
];

/// Replays programs together until each has been through once.
pub(super) fn together(form: &Form, bytes: u64, programs: &[&Traced]) -> Outcome<Vec<Figures>> {
    let geometry = Geometry { bytes, line_bytes: 64, ways: form.ways };
    let shared = CacheShape { geometry, replacement: form.replacement, indexing: Indexing::Hashed };
    let setup = Setup {
        shared,
        memory: Memory { latency_ns: LATENCY_NS, service_ns: 0.0 },
        until: Until::Longest,
        warm_up: 0,
        same_process: false,
    };
    let programs = programs.iter().map(|program| {
        let source = TraceFile::open(&program.trace).map_err(Failure::input)?;
        let line_bytes = source.header().line_bytes;
        if line_bytes != geometry.line_bytes {
            let path = program.trace.display();
            return Err(Failure::input(format!("{path}: lines of {line_bytes} bytes, not 64")));
        }
        let ns_per_instruction = CPI * 1000.0 / CLOCK_MHZ;
        Ok(Program { source, ns_per_instruction, mask: None, private: Vec::new() })
    });
    replay(&setup, programs.collect::<Outcome<_>>()?).map_err(Failure::input)
}
