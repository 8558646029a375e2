//! What can be wrong with what the model is given.

use corun_input::Fault;

/// Why a machine or a profile cannot be modelled.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A figure of the machine is not usable.
    #[error("machine `{machine}`: {figure} is {found}, expected {expected}")]
    Machine {
        /// The machine's name.
        machine: String,
        /// The figure, with its unit.
        figure: String,
        /// What was found.
        found: String,
        /// What is expected.
        expected: &'static str,
    },
    /// The peak bandwidth that was asked for is not usable.
    #[error("peak bandwidth is {found} MB/s, expected a number above 0")]
    Peak {
        /// What was found.
        found: f64,
    },
    /// The share of the peak that a program may draw alone is not usable.
    #[error("the solo share of the peak is {found}, expected a number above 0, at most 0.999")]
    SoloPeakShare {
        /// What was found.
        found: f64,
    },
    /// A figure of a profile cannot be.
    #[error("program `{program}`: {fault}")]
    Profile {
        /// The program's name.
        program: String,
        /// The figure, what was found and what is expected.
        fault: Fault,
    },
    /// The micro-traces of a profile are damaged.
    #[error("program `{program}`: its micro-traces are damaged: {error}")]
    MicroTraces {
        /// The program's name.
        program: String,
        /// What is wrong with them.
        error: corun_profile::MicroTraceError,
    },
    /// A program drew more alone than the peak, on the machine it was measured on.
    #[error(
        "program `{program}` drew {measured_mb_per_s} MB/s alone on this machine, and the peak is \
         {peak_mb_per_s} MB/s: expected a higher peak"
    )]
    PeakTooLow {
        /// The program's name.
        program: String,
        /// Its solo bandwidth with the whole cache, in MB/s.
        measured_mb_per_s: f64,
        /// The peak, in MB/s.
        peak_mb_per_s: f64,
    },
}
