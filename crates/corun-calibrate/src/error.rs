//! Why a machine was not measured.

use std::io;

/// What stops a calibration.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// The caller wants to stop.
    #[error("interrupted")]
    Stopped,
    /// There is no machine code for this processor.
    #[error("the processor is neither x86-64 nor AArch64: there are no kernels to measure it with")]
    NoKernels,
    /// The kernel does not give the memory that the measurement runs over.
    #[error("{mib} MiB of memory for the measurement: {source}")]
    Memory {
        /// How much was asked for, in MiB.
        mib: usize,
        /// What the operating system says.
        source: io::Error,
    },
    /// The machine may use none of the CPUs that it has.
    #[error("found no CPU that this process may use among {cpus}")]
    NoCpu {
        /// The CPUs of the machine.
        cpus: String,
    },
    /// A thread cannot be held on a CPU.
    #[error("a thread cannot be held on CPU {cpu}: {source}")]
    Pin {
        /// The CPU.
        cpu: u32,
        /// What the operating system says.
        source: io::Error,
    },
    /// What was measured gives no machine.
    #[error("what was measured contradicts itself: {0}")]
    Contradiction(#[from] corun_machine::SpecError),
}
