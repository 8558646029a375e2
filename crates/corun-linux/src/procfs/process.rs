//! One process: its first thread, its command, its user, its groups.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use corun_machine::CpuSet;

use super::stat::Stat;
use super::thread::{LINE_BYTES, is_gone, line_of};
use crate::{Roots, files};

/// To so many bytes the kernel cuts the name of a process.
const NAME_BYTES: usize = 15;

/// How much of a command line is read.
pub const COMMAND_LINE_BYTES: u64 = 4096;

/// A process by its number, which may be another's by the time that it is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pid: u32,
    folder: PathBuf,
}

impl Process {
    /// The process of a number.
    pub fn new(roots: &Roots, pid: u32) -> Self {
        Self::below(&roots.proc, pid)
    }

    /// This process, whatever its number is here.
    pub fn of_self(roots: &Roots) -> Self {
        Self { pid: std::process::id(), folder: roots.proc.join("self") }
    }

    /// As [`Self::new`], below a folder that stands for `/proc`.
    pub fn below(proc: &Path, pid: u32) -> Self {
        Self { pid, folder: proc.join(pid.to_string()) }
    }

    /// What the kernel says of the process, from its first thread, which is cheap however many it has; none
    /// when there is no such process.
    ///
    /// # Errors
    /// The kernel's answer; [`io::ErrorKind::InvalidData`] when the file is not as proc(5) describes it.
    pub fn stat(&self) -> io::Result<Option<Stat>> {
        self.thread_stat(self.pid)
    }

    /// What the kernel says of one of its threads; none when there is no such thread.
    ///
    /// # Errors
    /// As [`Self::stat`].
    pub fn thread_stat(&self, tid: u32) -> io::Result<Option<Stat>> {
        self.stat_in(&format!("task/{tid}/stat"))
    }

    fn stat_in(&self, name: &str) -> io::Result<Option<Stat>> {
        let path = self.folder.join(name);
        let mut line = [0; LINE_BYTES];
        match line_of(&path, &mut line) {
            Ok(line) => Stat::parse(line).map(Some).ok_or_else(|| {
                let what = format!("{}: not as proc(5) describes it", path.display());
                io::Error::new(io::ErrorKind::InvalidData, what)
            }),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What the kernel says of all its threads together: their time on CPUs and their page faults are added up.
    /// None when there is no such process.
    ///
    /// # Errors
    /// As [`Self::stat`].
    pub fn stat_of_all_threads(&self) -> io::Result<Option<Stat>> {
        self.stat_in("stat")
    }

    /// Bytes of its memory that are in swap; none where the kernel does not tell.
    pub fn swapped_bytes(&self) -> Option<u64> {
        let status = self.status()?;
        let kib: u64 = status_field(&status, "VmSwap:")?.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    }

    /// The first [`COMMAND_LINE_BYTES`] of the command line, word by word; none where it cannot be read, empty
    /// of a process without one. Its user decides how long the line is, up to megabytes.
    pub fn command_line(&self) -> Option<Vec<String>> {
        let mut bytes = Vec::new();
        let file = fs::File::open(self.folder.join("cmdline")).ok()?;
        file.take(COMMAND_LINE_BYTES).read_to_end(&mut bytes).ok()?;
        let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
        let words = bytes.split(|&byte| byte == 0);
        Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
    }

    /// The file that it executes, where this user may see it. The kernel's mark of a file that was replaced
    /// meanwhile, as an upgrade does, is taken off.
    pub fn executable(&self) -> Option<PathBuf> {
        let path = fs::read_link(self.folder.join("exe")).ok()?;
        let text = path.to_string_lossy();
        Some(text.strip_suffix(" (deleted)").map_or_else(|| path.clone(), PathBuf::from))
    }

    /// The folder that it works in, where this user may see it: relative names of its command line are meant from there.
    pub fn working_folder(&self) -> Option<PathBuf> {
        fs::read_link(self.folder.join("cwd")).ok()
    }

    /// The script that it executes, as its command line names it, with the arguments: of a file whose first line names an
    /// interpreter the kernel runs that, names the process after the file all the same, and puts the interpreter and at most
    /// one argument of its before the file (execve(2)). None of any other program, also of an interpreter that was itself
    /// started with a script, and where this user may not see what is executed.
    pub fn script(&self) -> Option<Vec<String>> {
        let name = fs::read_to_string(self.folder.join("comm")).ok()?;
        let is_named_after = |path: &Path| {
            let file = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
            &file[..file.len().min(NAME_BYTES)] == name.trim_end_matches('\n').as_bytes()
        };
        if is_named_after(&self.executable()?) {
            return None;
        }
        let mut words = self.command_line()?;
        let place = (1..words.len().min(3)).find(|&at| is_named_after(Path::new(&words[at])))?;
        Some(words.split_off(place))
    }

    /// The number of its effective user.
    pub fn effective_user(&self) -> Option<u32> {
        let status = self.status()?;
        status_field(&status, "Uid:")?.split_whitespace().nth(1)?.parse().ok()
    }

    /// The text of its groups, for [`crate::cgroup::lines`].
    pub fn cgroups(&self) -> Option<String> {
        fs::read_to_string(self.folder.join("cgroup")).ok()
    }

    /// The capabilities in effect, a bit each as `linux/capability.h` numbers them.
    pub fn capabilities(&self) -> Option<u64> {
        let status = self.status()?;
        u64::from_str_radix(status_field(&status, "CapEff:")?, 16).ok()
    }

    /// The process that traces a thread of it, as a debugger does.
    pub fn thread_tracer(&self, tid: u32) -> Option<u32> {
        let status = files::text(&self.folder.join(format!("task/{tid}/status")))?;
        let tracer: u32 = status_field(&status, "TracerPid:")?.parse().ok()?;
        (tracer != 0).then_some(tracer)
    }

    /// May this process send signals to it? Not where it is gone.
    pub fn may_be_signalled(&self) -> bool {
        let pid = rustix::process::Pid::from_raw(self.pid.cast_signed());
        pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
    }

    /// Does a filter say which system calls it may make (seccomp)? None where the kernel does not say.
    pub fn is_filtered(&self) -> Option<bool> {
        Some(status_field(&self.status()?, "Seccomp:")? != "0")
    }

    /// The CPUs that its first thread may use.
    pub fn allowed_cpus(&self) -> Option<CpuSet> {
        let status = self.status()?;
        status_field(&status, "Cpus_allowed_list:")?.parse().ok()
    }

    /// The NUMA nodes that its first thread may take memory from, by the kernel's numbers.
    pub(crate) fn allowed_nodes(&self) -> Option<CpuSet> {
        let status = self.status()?;
        status_field(&status, "Mems_allowed_list:")?.parse().ok()
    }

    /// The CPUs that one of its threads may use, those that are off line included, which
    /// [`crate::affinity`] leaves out; none when there is no such thread.
    ///
    /// # Errors
    /// The kernel's answer; [`io::ErrorKind::InvalidData`] when the file is not as proc(5) describes it.
    pub fn thread_allowed_cpus(&self, tid: u32) -> io::Result<Option<CpuSet>> {
        let path = self.folder.join(format!("task/{tid}/status"));
        let status = match fs::read_to_string(&path) {
            Err(error) if is_gone(&error) => return Ok(None),
            other => other?,
        };
        let list = status_field(&status, "Cpus_allowed_list:").and_then(|list| list.parse().ok());
        list.map(Some).ok_or_else(|| {
            let what = format!("{}: has no Cpus_allowed_list", path.display());
            io::Error::new(io::ErrorKind::InvalidData, what)
        })
    }

    /// The lowest nice value that its limit allows (`ulimit -e`); none where that is not told.
    pub fn lowest_nice(&self) -> Option<i32> {
        match self.limit("Max nice priority")?.as_str() {
            "unlimited" => Some(-20),
            // The kernel counts from 1, for nice 19, to 40, for -20.
            number => Some(20 - number.parse::<i32>().unwrap_or(0)),
        }
    }

    /// How many files it may have open (the soft limit); none where that is not told or there is no limit.
    pub fn most_open_files(&self) -> Option<u64> {
        self.limit("Max open files")?.parse().ok()
    }

    /// A soft limit in its line of `/proc/PID/limits`.
    fn limit(&self, name: &str) -> Option<String> {
        let limits = fs::read_to_string(self.folder.join("limits")).ok()?;
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next().map(str::to_owned)
    }

    fn status(&self) -> Option<String> {
        files::text(&self.folder.join("status"))
    }
}

/// A field of `/proc/PID/status`.
pub(super) fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// This process's number, as this `/proc` has it.
pub fn own_pid(roots: &Roots) -> Option<u32> {
    fs::read_link(roots.proc.join("self")).ok()?.to_str()?.parse().ok()
}

/// All processes, ascending.
///
/// # Errors
/// When the kernel's list cannot be read.
pub fn pids(roots: &Roots) -> io::Result<Vec<u32>> {
    numbers(&roots.proc)
}

/// The threads of a process, ascending.
///
/// # Errors
/// When the kernel's list cannot be read: the process ended.
pub fn tids(roots: &Roots, pid: u32) -> io::Result<Vec<u32>> {
    numbers(&roots.proc.join(format!("{pid}/task")))
}

/// The entries of a folder that are numbers.
fn numbers(folder: &Path) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_what_the_kernel_names_the_process_after() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("7");
        fs::create_dir(&own).unwrap();
        let script = |executable: &str, name: &str, words: &[&str]| {
            let _ = fs::remove_file(own.join("exe"));
            std::os::unix::fs::symlink(executable, own.join("exe")).unwrap();
            fs::write(own.join("comm"), format!("{name}\n")).unwrap();
            fs::write(own.join("cmdline"), words.join("\0") + "\0").unwrap();
            Process::below(folder.path(), 7).script()
        };
        let words = |words: &[&str]| Some(words.iter().map(ToString::to_string).collect());
        let bash = "/usr/bin/bash";
        let found = script(bash, "spin.sh", &["/bin/bash", "./spin.sh", "a"]);
        assert_eq!(found, words(&["./spin.sh", "a"]));
        let found = script(bash, "spin.sh", &["/bin/bash", "-eu", "/opt/spin.sh"]);
        assert_eq!(found, words(&["/opt/spin.sh"]));
        let long = "nightly-report-of-sales";
        let found = script("/usr/bin/python3.11", "nightly-report-", &["python3", long]);
        assert_eq!(found, words(&[long]));
        assert_eq!(script(bash, "bash", &["bash", "./spin.sh"]), None);
        assert_eq!(script("/opt/solver", "solver", &["solver", "solver"]), None);
        // A program that calls itself something is no script.
        assert_eq!(script("/opt/server", "worker", &["server", "--as", "x", "worker"]), None);
    }

    #[test]
    fn a_process_says_what_it_runs_and_who_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("7");
        fs::create_dir(&own).unwrap();
        fs::write(own.join("cmdline"), "sqlite3\0x.db\0").unwrap();
        let status = "Uid:\t0\t33\t0\t0\nVmSwap:\t     12 kB\nCapEff:\t0000000000800000\n";
        fs::write(own.join("status"), status).unwrap();
        fs::write(own.join("limits"), "Max nice priority         25                   25\n")
            .unwrap();
        std::os::unix::fs::symlink("/usr/bin/sqlite3 (deleted)", own.join("exe")).unwrap();
        let roots = Roots { proc: folder.path().to_owned(), ..Roots::default() };
        let process = Process::new(&roots, 7);
        assert_eq!(process.command_line().unwrap(), ["sqlite3", "x.db"]);
        assert_eq!(process.executable(), Some(PathBuf::from("/usr/bin/sqlite3")));
        assert_eq!((process.effective_user(), process.capabilities()), (Some(33), Some(1 << 23)));
        assert_eq!((process.lowest_nice(), process.swapped_bytes()), (Some(-5), Some(12 << 10)));
        let long = [&b"x "[..], &vec![b'y'; 3 << 20]].concat();
        fs::write(own.join("cmdline"), long).unwrap();
        let read = process.command_line().unwrap().concat();
        assert_eq!(read.len() as u64, COMMAND_LINE_BYTES);
        let other = Process::new(&roots, 8);
        assert_eq!(
            (other.command_line(), other.effective_user(), other.lowest_nice()),
            (None, None, None)
        );
        assert_eq!(other.stat().unwrap(), None);
        assert_eq!(pids(&roots).unwrap(), [7]);
    }
}
