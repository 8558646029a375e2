use std::io;
use std::path::PathBuf;

/// Why a program could not be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// No command was given.
    #[error("no program given: expected a command behind `--`")]
    NoCommand,
    /// Nothing of that name.
    #[error("{program}: no such program, neither as a path nor in $PATH")]
    NotFound {
        /// What was asked for.
        program: String,
    },
    /// A directory.
    #[error("{}: is a directory, expected a program", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// A file without the right to execute it.
    #[error("{}: is not executable (chmod +x makes it so)", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// Neither an ELF file nor a script.
    #[error("{}: is no Linux program: expected an ELF file or a script that begins with #!", path.display())]
    NotAProgram {
        /// The file.
        path: PathBuf,
    },
    /// An ELF file that cannot be run.
    #[error("{}: is no program that can run: {found}", path.display())]
    BrokenElf {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        found: String,
    },
    /// The dynamic loader that a program names is missing.
    #[error("{}: needs the dynamic loader {}, which is not installed", path.display(), loader.display())]
    NoLoader {
        /// The file.
        path: PathBuf,
        /// Its loader.
        loader: PathBuf,
    },
    /// A program for a machine that QEMU does not know.
    #[error("{}: is for a machine (ELF machine {machine}) that the tracer has no emulator for", path.display())]
    UnknownMachine {
        /// The file.
        path: PathBuf,
        /// The number in its header.
        machine: u16,
    },
    /// QEMU is missing.
    #[error("{qemu} is needed to trace {} and is not installed: apt-get install qemu-user", path.display())]
    NoQemu {
        /// The emulator's name.
        qemu: String,
        /// The program.
        path: PathBuf,
    },
    /// The plug-in is missing.
    #[error(
        "the tracer's plug-in {name} was not found (looked in {looked}); CORUN_PLUGIN can name it"
    )]
    NoPlugin {
        /// Its file name.
        name: String,
        /// Where it was looked for.
        looked: String,
    },
    /// A file could not be read, or the emulator not be started.
    #[error("cannot use {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The trace could not be written; there is none then.
    #[error("no trace was written to {}: {reason}", path.display())]
    NoTrace {
        /// Where it should have gone.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The plug-in left no report.
    #[error("nothing was recorded: {reason}")]
    NoRecord {
        /// Why, as far as it is known.
        reason: String,
    },
}
