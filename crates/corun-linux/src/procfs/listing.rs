//! The processes of a machine, listed again only when there may be new ones.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::process::{own_pid, pids};
use crate::Roots;

/// Lists at least every so many reads: a process that was given a number of its maker's choice (`clone3` with
/// `set_tid`, by which checkpoints are restored) moves no counter.
const MOST_READS_UNLISTED: u32 = 16;
/// So many numbers that were given out since the last read are tried one by one: each costs a microsecond at most, a
/// list of some hundred processes a hundred.
const MOST_TRIED: u32 = 128;

/// All processes, read again and again.
///
/// The kernel's `loadavg` ends in the number that was given out last (proc_loadavg(5)), and numbers are given out in
/// turn. While that number is the same no process began; where it is a little higher, the numbers between are tried. The
/// list holds all processes there are, and beside them those that ended since `/proc` was listed.
#[derive(Debug)]
pub struct ProcessList {
    roots: Roots,
    /// None where `/proc` is not the running kernel's, or shows the numbers of other namespaces.
    loadavg: Option<File>,
    newest: Option<u32>,
    pids: Vec<u32>,
    /// Numbers that were given out and no process's when they were tried: a process gets its number before it begins.
    /// They are tried once more.
    again: Vec<u32>,
    /// Processes whose numbers were tried at the last read.
    began: Vec<u32>,
    unlisted: u32,
}

impl ProcessList {
    /// Nothing is read yet.
    pub fn new(roots: &Roots) -> Self {
        let is_own = roots.proc == Path::new("/proc") && own_pid(roots) == Some(std::process::id());
        let loadavg = is_own.then(|| File::open(roots.proc.join("loadavg")).ok()).flatten();
        Self {
            roots: roots.clone(),
            loadavg,
            newest: None,
            pids: Vec::new(),
            again: Vec::new(),
            began: Vec::new(),
            unlisted: 0,
        }
    }

    /// The processes, ascending: all that are there now, and some that ended.
    ///
    /// # Errors
    /// When the kernel's list cannot be read.
    pub fn read(&mut self) -> io::Result<&[u32]> {
        self.began.clear();
        // Before the list: who comes in between is listed twice, not missed.
        let newest = self.loadavg.as_ref().and_then(newest_number);
        let given_out = self.newest.zip(newest).map(|(before, now)| before..now);
        let is_tried = given_out.is_some_and(|numbers| self.try_numbers(numbers));
        if is_tried {
            self.unlisted += 1;
        } else {
            self.pids = pids(&self.roots)?;
            self.again.clear();
            self.unlisted = 0;
        }
        self.newest = newest;
        Ok(&self.pids)
    }

    /// Of the processes of the last read those whose numbers were given out since the read before, where `/proc` was not
    /// listed for it: each is a new process, also where one of its number was on the list.
    pub fn began(&self) -> &[u32] {
        &self.began
    }

    /// Adds the processes whose numbers were given out after the first number and up to the last. False where `/proc` is
    /// to be listed: there are too many, numbers began anew, it was not listed for long, or the kernel does not tell.
    fn try_numbers(&mut self, given_out: Range<u32>) -> bool {
        let Range { start: before, end: newest } = given_out;
        let is_little = before <= newest && newest - before <= MOST_TRIED;
        if !is_little || self.unlisted >= MOST_READS_UNLISTED {
            return false;
        }
        let again = std::mem::take(&mut self.again).into_iter().map(|number| (number, false));
        let new = (before + 1..=newest).map(|number| (number, true));
        for (number, is_first_try) in again.chain(new) {
            match is_process(number) {
                Some(true) => {
                    self.began.push(number);
                    if let Err(place) = self.pids.binary_search(&number) {
                        self.pids.insert(place, number);
                    }
                }
                Some(false) if is_first_try => self.again.push(number),
                Some(false) => {}
                None => return false,
            }
        }
        true
    }

    /// A process of the list has ended: it is listed no more unless its number is given out again.
    pub fn ended(&mut self, pid: u32) {
        if let Ok(place) = self.pids.binary_search(&pid) {
            self.pids.remove(place);
        }
    }
}

/// Is the number a process's, and not that of another thread or nobody's? None where the kernel does not tell.
fn is_process(number: u32) -> Option<bool> {
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw)?;
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(_) => Some(true),
        // Of a thread that is no process's first, by kernels of before and after Linux 6.9.
        Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => Some(false),
        Err(_) => None,
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
            // Where /proc was not listed, the number was tried.
            let was_tried = list.unlisted > 0;
            assert!(!was_tried || list.began().contains(&sleeper.id()));
            // Unless its number was given out again at once.
            let again = list.read().unwrap().contains(&sleeper.id());
            assert!(!again || Path::new(&format!("/proc/{}", sleeper.id())).exists());
        }
    }

    #[test]
    fn of_numbers_that_were_given_out_those_of_processes_are_found() {
        let mut list = ProcessList::new(&Roots::default());
        let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = sleeper.id();
        assert!(list.try_numbers(pid - 2..pid + 1));
        assert!(list.pids.contains(&pid) && list.began.contains(&pid));
        list.began.clear();
        assert!(list.try_numbers(pid - 2..pid + 1));
        assert!(
            list.began.contains(&pid),
            "a number that was on the list is another process's now"
        );
        assert_eq!(list.pids.iter().filter(|&&one| one == pid).count(), 1);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    #[test]
    fn another_thread_of_a_process_is_no_process() {
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert_ne!(own, std::process::id(), "tests have threads of their own");
        assert_eq!(is_process(own), Some(false));
        assert_eq!(is_process(std::process::id()), Some(true));
        assert_eq!(is_process(1 << 25), Some(false), "above the kernel's highest number, 2^22");
    }

    #[test]
    fn a_number_is_tried_again_once_and_many_are_listed() {
        let mut list = ProcessList::new(&Roots::default());
        // Nobody's.
        let first = 1 << 25;
        assert!(list.try_numbers(first..first + 2));
        assert_eq!(list.again, [first + 1, first + 2]);
        assert!(list.try_numbers(first + 2..first + 3));
        assert_eq!(list.again, [first + 3]);
        assert!(!list.try_numbers(first..first + MOST_TRIED + 1), "too many");
        assert!(!list.try_numbers(first..first - 1), "numbers began anew");
        list.unlisted = MOST_READS_UNLISTED;
        assert!(!list.try_numbers(first..first), "not listed for long");
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
