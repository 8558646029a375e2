//! What stands in the way of counters, and what to do about it.

use std::{fs, io};

use crate::Roots;

/// What would make counters work after this error; none where nothing is known to.
pub fn counter_advice(roots: &Roots, error: &io::Error) -> Option<String> {
    if error.kind() == io::ErrorKind::PermissionDenied {
        let setting = fs::read_to_string(roots.proc.join("sys/kernel/perf_event_paranoid"));
        let setting = setting.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned());
        return Some(format!(
            "kernel.perf_event_paranoid is {setting}: run as root, give corun CAP_PERFMON, or set \
             it to 1 or less (sysctl kernel.perf_event_paranoid=1); other users' programs need \
             root or CAP_PERFMON in any case"
        ));
    }
    if crate::descriptors::is_exhausted(error) {
        return Some("raise the limit of open files (ulimit -n, LimitNOFILE=)".to_owned());
    }
    let errno = error.raw_os_error()?;
    let is = |one: rustix::io::Errno| errno == one.raw_os_error();
    if is(rustix::io::Errno::SRCH) {
        return Some("the thread has ended".to_owned());
    }
    if is(rustix::io::Errno::NOENT)
        || is(rustix::io::Errno::OPNOTSUPP)
        || is(rustix::io::Errno::NODEV)
    {
        return Some("this processor does not have that event".to_owned());
    }
    is(rustix::io::Errno::NOSYS).then(|| "the kernel was built without perf events".to_owned())
}
