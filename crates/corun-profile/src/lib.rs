//! What is this program? Miss-rate curves, imported tables and mixes.
//!
//! A [`Profile`] holds what belongs to a program and not to a machine. It knows nothing of
//! machines' trees or of policies.

mod curve;
mod mix;
mod profile;

pub use curve::{CurveError, CurvePoint, MissRateCurve, Reading};
pub use mix::{App, Io, MIX_FILE_VERSION, Method, Mix};
pub use profile::{
    InstructionMix, MeasuredOn, Origin, PROFILE_FILE_VERSION, Phase, Profile, ProfileData,
    Recording, SoloRow, SoloTable,
};
