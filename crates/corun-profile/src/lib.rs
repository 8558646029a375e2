//! What is this program? Miss-rate curves, imported tables and mixes.
//!
//! A [`Profile`] holds what belongs to a program and not to a machine. It knows nothing of
//! machines' trees or of policies.

mod atomic_file;
mod curve;
#[cfg(test)]
mod docs_tests;
mod figures;
mod library;
mod micro_trace;
mod mix;
mod profile;
mod profile_document;
mod profile_file;
mod recording;
mod service;
mod solo_csv;
mod solo_table;

pub use atomic_file::{behind_links, check_writable, is_special, write_atomically};
pub use curve::{CurveError, CurvePoint, MissRateCurve, Reading};
pub use library::{Library, UnknownProgram, shipped_names};
pub use micro_trace::{
    MOST_MICRO_TRACES, MOST_TRACED_INSTRUCTIONS, Marks, MicroOp, MicroTrace, MicroTraceError,
    MicroTraces, OPERATIONS, Operation, Reconvergence, Reuse, pack_quickly, unpack_quickly,
};
pub use mix::{App, Barrier, Io, MAX_MIX_THREADS, MIX_FILE_VERSION, Method, Mix, Waiting};
pub use profile::{
    CoreDetail, InstructionMix, Phase, Profile, ProfileData, TABLE_INSTRUCTIONS, check_name,
};
pub use profile_document::{DEFAULT_PRIVATE_CACHE_BYTES, DocumentPoint, ProfileDocument};
pub use recording::{
    BadEngineKind, EngineKind, Origin, ProcessRecord, Recording, StackDistanceProfile, Stretch,
    ThreadRecord,
};
pub use service::Service;
pub use solo_csv::{export_csv, import_csv};
pub use solo_table::{Extension, MeasuredOn, SoloReading, SoloRow, SoloTable, TableFigures};
