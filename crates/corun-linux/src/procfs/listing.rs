//! The processes of a machine, listed again only when there may be new ones.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::process::{own_pid, pids};
use crate::Roots;

/// Lists at least every so many reads: a process that was given a number of its maker's choice (`clone3` with
/// `set_tid`, by which checkpoints are restored) moves no counter.
const MOST_READS_UNLISTED: u32 = 16;

/// All processes, read again and again.
///
/// The kernel's `loadavg` ends in the number that was given out last (proc_loadavg(5)). While that number is the same no
/// process began, and the list holds all there are, and beside them those that ended since.
#[derive(Debug)]
pub struct ProcessList {
    roots: Roots,
    /// None where `/proc` is not the running kernel's, or shows the numbers of other namespaces.
    loadavg: Option<File>,
    newest: Option<u32>,
    pids: Vec<u32>,
    unlisted: u32,
}

impl ProcessList {
    /// Nothing is read yet.
    pub fn new(roots: &Roots) -> Self {
        let is_own = roots.proc == Path::new("/proc") && own_pid(roots) == Some(std::process::id());
        let loadavg = is_own.then(|| File::open(roots.proc.join("loadavg")).ok()).flatten();
        let (newest, pids) = (None, Vec::new());
        Self { roots: roots.clone(), loadavg, newest, pids, unlisted: 0 }
    }

    /// The processes, ascending: all that are there now, and some that ended.
    ///
    /// # Errors
    /// When the kernel's list cannot be read.
    pub fn read(&mut self) -> io::Result<&[u32]> {
        // Before the list: who comes in between is listed twice, not missed.
        let newest = self.loadavg.as_ref().and_then(newest_number);
        let is_known = newest.is_some() && newest == self.newest;
        if is_known && self.unlisted < MOST_READS_UNLISTED {
            self.unlisted += 1;
        } else {
            self.pids = pids(&self.roots)?;
            (self.newest, self.unlisted) = (newest, 0);
        }
        Ok(&self.pids)
    }

    /// A process of the list has ended: it is listed no more unless its number is given out again.
    pub fn ended(&mut self, pid: u32) {
        if let Ok(place) = self.pids.binary_search(&pid) {
            self.pids.remove(place);
        }
    }
}

/// The number of the process or thread that began last.
fn newest_number(loadavg: &File) -> Option<u32> {
    let mut line = [0; 128];
    let length = loadavg.read_at(&mut line, 0).ok()?;
    std::str::from_utf8(&line[..length]).ok()?.split_ascii_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_began_is_on_the_list_at_the_next_read() {
        let mut list = ProcessList::new(&Roots::default());
        assert!(list.read().unwrap().contains(&std::process::id()));
        for _ in 0..20 {
            let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
            assert!(list.read().unwrap().contains(&sleeper.id()));
            sleeper.kill().unwrap();
            sleeper.wait().unwrap();
            list.ended(sleeper.id());
            // Unless its number was given out again at once.
            let again = list.read().unwrap().contains(&sleeper.id());
            assert!(!again || Path::new(&format!("/proc/{}", sleeper.id())).exists());
        }
    }

    #[test]
    fn a_folder_that_stands_for_proc_is_listed_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots { proc: folder.path().into(), ..Roots::default() };
        let mut list = ProcessList::new(&roots);
        assert_eq!(list.read().unwrap(), [0; 0]);
        std::fs::create_dir(folder.path().join("7")).unwrap();
        assert_eq!(list.read().unwrap(), [7]);
    }
}
