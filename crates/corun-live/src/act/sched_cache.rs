//! The kernel's own scheduling by last-level caches (`SCHED_CACHE`, since Linux 7.3), by its switch in debugfs.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};

use corun_linux::Roots;

use super::ApplyMode;
use crate::{ActError, Reverted};

/// The switch, below `/sys`.
const SWITCH: &str = "kernel/debug/sched/llc_balancing/enabled";

/// Is it on?
///
/// # Errors
/// Where the kernel has no such switch, or does not show it.
pub(crate) fn is_on(roots: &Roots) -> Result<bool, ActError> {
    let text = fs::read_to_string(roots.sys.join(SWITCH)).map_err(|why| failed("reading", why))?;
    match text.trim() {
        "1" | "Y" => Ok(true),
        "0" | "N" => Ok(false),
        other => {
            let why = format!("it says `{other}`");
            Err(failed("reading", io::Error::new(io::ErrorKind::InvalidData, why)))
        }
    }
}

/// Turns it on or off, if it is as it was.
pub(super) fn apply(roots: &Roots, before: bool, after: bool) -> Result<(), ActError> {
    let found = is_on(roots)?;
    if found != before {
        return Err(ActError::ChangedByOthers {
            what: "SCHED_CACHE".to_owned(),
            found: word(found).to_owned(),
            expected: word(before).to_owned(),
        });
    }
    set(roots, after)
}

/// Turns it back. Of two states one is always that of before.
pub(super) fn revert(roots: &Roots, before: bool, mode: ApplyMode) -> Result<Reverted, ActError> {
    if is_on(roots)? == before {
        return Ok(Reverted::AsBefore);
    }
    if mode == ApplyMode::Apply {
        set(roots, before)?;
    }
    Ok(Reverted::Done)
}

fn set(roots: &Roots, on: bool) -> Result<(), ActError> {
    // The kernel's file is there, or nothing is.
    let opened = OpenOptions::new().write(true).open(roots.sys.join(SWITCH));
    let written = opened.and_then(|mut file| file.write_all(if on { b"1" } else { b"0" }));
    written.map_err(|why| failed("writing", why))
}

/// `on` or `off`.
pub(super) fn word(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn failed(attempt: &str, reason: io::Error) -> ActError {
    let advice = match reason.kind() {
        io::ErrorKind::NotFound => Some(
            "it takes Linux 7.3 with CONFIG_SCHED_CACHE, and debugfs: mount -t debugfs none /sys/kernel/debug",
        ),
        io::ErrorKind::PermissionDenied => Some("it takes root"),
        _ => None,
    };
    ActError::Kernel {
        what: format!("{attempt} the switch of SCHED_CACHE ({SWITCH})"),
        reason,
        advice: advice.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Change;

    #[test]
    fn the_switch_is_turned_and_turned_back() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::below(folder.path());
        let file = roots.sys.join(SWITCH);
        let missing = is_on(&roots).unwrap_err().to_string();
        assert!(missing.contains("CONFIG_SCHED_CACHE"), "{missing}");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "1\n").unwrap();
        let change = Change::SchedCache { before: true, after: false };
        assert_eq!(change.revert(&roots).unwrap(), Reverted::AsBefore);
        change.apply(&roots).unwrap();
        assert!(matches!(change.apply(&roots), Err(ActError::ChangedByOthers { .. })));
        assert!(!is_on(&roots).unwrap());
        assert_eq!(change.would_revert(&roots).unwrap(), Reverted::Done);
        assert!(!is_on(&roots).unwrap());
        assert_eq!(change.revert(&roots).unwrap(), Reverted::Done);
        assert!(is_on(&roots).unwrap());
        assert_eq!(change.to_string(), "SCHED_CACHE: on to off");
        fs::write(&file, "perhaps\n").unwrap();
        assert!(is_on(&roots).unwrap_err().to_string().contains("`perhaps`"));
    }
}
