//! Who wakes whom, as the scheduler in the kernel counts it: the corun whose scheduler it is reads it, and others may.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use corun_linux::{Roots, files};

use crate::layout::WAKER_PAIRS;
use crate::scheduler::NAME;
use crate::{lacks_rights, syscalls};

/// The map of pairs of threads, which there is only while some corun counts who wakes whom.
pub(crate) const MAP: &str = "wakers";
/// A hash from two numbers of threads to a count that forgets who was not counted for long (`BPF_MAP_TYPE_LRU_HASH`).
const KIND: [u32; 3] = [9, 8, 8];

/// How often one thread woke another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wakeups {
    /// The kernel's number of the thread that woke the other.
    pub waker: u32,
    /// The kernel's number of the thread that was woken.
    pub wakee: u32,
    /// How often. Up to 15 times are not yet counted of a thread that was woken by the same one within 50 ms, or was not
    /// woken since.
    pub count: u64,
}

/// Why nobody else can be asked who wakes whom.
#[derive(Debug, thiserror::Error)]
pub enum UncountedError {
    /// No scheduler of corun is in force in this kernel.
    #[error("corun's scheduler is not in force in this kernel")]
    NotInForce,
    /// It is, and nobody asked it to count that.
    #[error("corun's scheduler in the kernel does not count who wakes whom")]
    NotAsked,
    /// It takes root to read what another process counts.
    #[error("only root may read what corun's scheduler counts")]
    NoRight,
    /// The kernel said no.
    #[error("what corun's scheduler counts cannot be read: {0}")]
    Kernel(#[from] io::Error),
}

/// Who wakes whom, as the scheduler of a corun that runs somewhere on this machine counts it. Reading changes nothing.
#[derive(Debug)]
pub struct WakeupReader {
    /// Those of schedulers that are not in force have no entries.
    maps: Vec<OwnedFd>,
}

impl WakeupReader {
    /// Finds what is counted.
    ///
    /// # Errors
    /// Where nobody counts it, and without the rights.
    pub fn open(roots: &Roots) -> Result<Self, UncountedError> {
        let folder = roots.sys.join("kernel/sched_ext");
        let is_enabled = files::text(&folder.join("state")).as_deref() == Some("enabled");
        if !is_enabled || files::text(&folder.join("root/ops")).as_deref() != Some(NAME) {
            return Err(UncountedError::NotInForce);
        }
        let maps = maps_of(MAP, KIND).map_err(|error| match lacks_rights(&error) {
            true => UncountedError::NoRight,
            false => error.into(),
        })?;
        if maps.is_empty() { Err(UncountedError::NotAsked) } else { Ok(Self { maps }) }
    }

    /// Who woke whom how often so far, threads that corun's scheduler has alone; ascending. The numbers are those of the
    /// kernel's first namespace.
    ///
    /// # Errors
    /// When the kernel says no.
    pub fn read(&self) -> io::Result<Vec<Wakeups>> {
        let mut found = Vec::new();
        for map in &self.maps {
            found.extend(read(map.as_fd())?);
        }
        found.sort_unstable();
        found.dedup_by_key(|one| (one.waker, one.wakee));
        Ok(found)
    }
}

/// All maps of the kernel with this name that are made of this, to read them.
fn maps_of(name: &str, kind: [u32; 3]) -> io::Result<Vec<OwnedFd>> {
    let mut maps = Vec::new();
    let mut last = 0;
    while let Some(number) = syscalls::map_after(last)? {
        last = number;
        let map = match syscalls::open_map(number) {
            // It went meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => continue,
            other => other?,
        };
        if syscalls::describe_map(map.as_fd())? == (name.to_owned(), kind) {
            maps.push(map);
        }
    }
    Ok(maps)
}

/// The counts of a map of pairs.
pub(crate) fn read(map: BorrowedFd<'_>) -> io::Result<Vec<Wakeups>> {
    let mut found = Vec::new();
    let (mut key, mut next, mut value) = (None, [0u8; 8], [0u8; 8]);
    // A map that changes under the reading could lead in circles; it has no more entries than these.
    for _ in 0..2 * WAKER_PAIRS {
        if !syscalls::next_key(map, key.as_ref().map(<[u8; 8]>::as_slice), &mut next)? {
            break;
        }
        if syscalls::look_up(map, &next, &mut value).is_ok() {
            let number = |half: &[u8]| u32::from_ne_bytes(half.try_into().expect("4 bytes"));
            let (waker, wakee) = (number(&next[..4]), number(&next[4..]));
            found.push(Wakeups { waker, wakee, count: u64::from_ne_bytes(value) });
        }
        key = Some(next);
    }
    found.sort_unstable();
    found.dedup_by_key(|one| (one.waker, one.wakee));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::syscalls::MapAttributes;

    /// The map is found by what it is, and its counts are read, not changed.
    #[test]
    fn the_maps_of_a_name_are_found_and_read_by_others() {
        // The names of maps are the whole machine's.
        let name = format!("t{}", std::process::id());
        let [kind, key_bytes, value_bytes] = KIND;
        let attributes = MapAttributes {
            name: &name,
            kind,
            key_bytes,
            value_bytes,
            max_entries: WAKER_PAIRS,
            ..MapAttributes::default()
        };
        let Ok(made) = syscalls::create_map(attributes) else {
            eprintln!("skipped: this takes CAP_BPF");
            return;
        };
        let other = MapAttributes { value_bytes: 16, ..attributes };
        let _other = syscalls::create_map(other).unwrap();
        let found = match maps_of(&name, KIND) {
            Err(error) if lacks_rights(&error) => {
                eprintln!("skipped: this takes CAP_SYS_ADMIN");
                return;
            }
            other => other.unwrap(),
        };
        assert_eq!(found.len(), 1);
        let pair = |waker: u32, wakee: u32| [waker.to_ne_bytes(), wakee.to_ne_bytes()].concat();
        for (waker, wakee, count) in [(7, 9, 3u64), (5, 7, 40)] {
            let count = count.to_ne_bytes();
            syscalls::update(made.as_fd(), &pair(waker, wakee), &count).unwrap();
        }
        let reader = WakeupReader { maps: found };
        let woke = |waker, wakee, count| Wakeups { waker, wakee, count };
        assert_eq!(reader.read().unwrap(), [woke(5, 7, 40), woke(7, 9, 3)]);
        let change = syscalls::update(reader.maps[0].as_fd(), &pair(7, 9), &[0; 8]);
        assert_eq!(change.unwrap_err().raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn where_no_scheduler_of_ours_is_in_force_nobody_counts() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::below(folder.path());
        let opened = || WakeupReader::open(&roots).map(drop);
        assert!(matches!(opened(), Err(UncountedError::NotInForce)));
        let sched_ext = roots.sys.join("kernel/sched_ext");
        fs::create_dir_all(sched_ext.join("root")).unwrap();
        for (state, name) in [("disabled", NAME), ("enabled", "rusty")] {
            fs::write(sched_ext.join("state"), format!("{state}\n")).unwrap();
            fs::write(sched_ext.join("root/ops"), format!("{name}\n")).unwrap();
            assert!(matches!(opened(), Err(UncountedError::NotInForce)), "{state} {name}");
        }
    }
}
