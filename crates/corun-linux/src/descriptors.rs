//! Open files: every counter is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this process's limit of open files to the most that it may have. Programs that corun
/// starts afterwards would inherit it: give them [`Rlimit`] back, which is what it was before.
pub fn raise_descriptor_limit() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    if before.current != before.maximum {
        let raised = Rlimit { current: before.maximum, maximum: before.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit of open files stays as it is");
        }
    }
    before
}

/// Is it the limit of open files, of this process or of the machine?
pub fn is_exhausted(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let limits = [Errno::MFILE, Errno::NFILE].map(|errno| errno.raw_os_error());
    error.raw_os_error().is_some_and(|found| limits.contains(&found))
}
