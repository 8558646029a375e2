//! What the kernel knows of each thread of a process, all threads in one read: the program `bpf/threads.bpf.c`, an iterator
//! over tasks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};

use corun_linux::procfs::{Process, is_real_time, shown_name};
use corun_linux::sysfs::{online_cpus, possible_cpus};
use corun_linux::{Roots, Task, TaskFacts};
use corun_machine::{CpuId, CpuSet};

use crate::btf::{Btf, Kind};
use crate::load::{PROGRAM_TRACING, linked, load_program};
use crate::object_file::ObjectFile;
use crate::scheduler::kernel_description;
use crate::syscalls::{self, ProgramAttributes};
use crate::{LoadError, THREADS_OBJECT};

/// The programs, and the CPUs that the affinity that each hands on has room for.
const PROGRAMS: [(&str, usize); 2] = [("few_cpus", 128), ("many_cpus", 1024)];
/// Bytes of `struct thread` of the program.
const THREAD_BYTES: usize = 88;
/// As many bytes as the kernel hands on at once (`bpf_seq_read`).
const READ_BYTES: usize = 1 << 15;
/// Capabilities: to do anything, to read what programs measure, to load programs.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Why threads cannot be read all at once.
#[derive(Debug, thiserror::Error)]
pub enum ReaderError {
    /// The caller may not load programs, which was not tried.
    #[error("it takes CAP_BPF and CAP_PERFMON, or root")]
    NoRight,
    /// The caller's system calls are filtered, and one that the filter does not allow may end the caller.
    #[error("system calls are filtered here (seccomp), and bpf(2) may not be among the allowed")]
    Filtered,
    /// There are more CPUs than the program has room for.
    #[error("this machine may have more than 1024 CPUs")]
    TooManyCpus,
    /// The program cannot be loaded.
    #[error("{0}")]
    Load(#[from] LoadError),
    /// What the program says of this process is not what `/proc` shows.
    #[error(
        "a BPF program and /proc differ in this process (a namespace of processes or of times)"
    )]
    Differs,
}

/// Reads all threads of a process at once.
#[derive(Debug)]
pub struct ThreadReader {
    program: OwnedFd,
    /// Bytes that the program hands on of a thread.
    record_bytes: usize,
    /// Nanoseconds of a clock tick.
    tick_ns: u64,
    bytes: Vec<u8>,
    /// Of what was read last: where the thread's record begins, by ascending thread.
    order: Vec<(u32, usize)>,
}

/// A process whose threads are read.
#[derive(Debug)]
pub struct FollowedThreads(OwnedFd);

/// What the kernel says of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadRecord<'a> {
    /// The thread.
    pub task: Task,
    /// The process that made its process; 1 or a reaper once that ended.
    pub parent: u32,
    /// The process group and the session of a process's first thread; 0 of others.
    pub group: u32,
    /// As [`Self::group`].
    pub session: u32,
    /// Threads of its process.
    pub threads: u32,
    /// Does it run or want to?
    pub wants_cpu: bool,
    /// Has it ended, and is not yet waited for?
    pub is_over: bool,
    /// The CPU where it runs, or ran last.
    pub cpu: u32,
    /// Its nice value, -20 to 19.
    pub nice: i32,
    /// As the kernel numbers scheduling policies (sched(7)).
    pub policy: u32,
    /// Time on CPUs since it started, in nanoseconds.
    pub cpu_ns: u64,
    /// Time in which it could run and waited for a CPU, up to the end of its last wait, in nanoseconds.
    pub wait_ns: u64,
    /// Its name, as the kernel cuts it.
    pub name: &'a [u8],
    /// Where it may run, CPUs that are off line included: a bit a CPU, the lowest first.
    pub allowed: &'a [u8],
}

/// May a reader be tried without a risk? One system call that a filter does not allow can end the caller.
///
/// # Errors
/// Why not.
pub fn may_read(roots: &Roots) -> Result<(), ReaderError> {
    let own = Process::of_self(roots);
    let held = own.capabilities().unwrap_or(0);
    let has = |capability: u32| held >> capability & 1 == 1;
    if !(has(CAP_SYS_ADMIN) || has(CAP_BPF) && has(CAP_PERFMON)) {
        return Err(ReaderError::NoRight);
    }
    if own.is_filtered() != Some(false) { Err(ReaderError::Filtered) } else { Ok(()) }
}

impl ThreadReader {
    /// Loads the program, and holds what it says of this process against `/proc`.
    ///
    /// # Errors
    /// When the kernel is too old or does not allow it, and in a namespace of processes or time.
    pub fn open(roots: &Roots) -> Result<Self, ReaderError> {
        let possible = possible_cpus(roots);
        let possible = possible.map_err(LoadError::kernel("the possible CPUs".to_owned()))?;
        let highest =
            possible.and_then(|cpus| cpus.iter().last()).map_or(usize::MAX, |cpu| cpu.0 as usize);
        let fits = PROGRAMS.into_iter().find(|&(_, room)| highest < room);
        let (name, room) = fits.ok_or(ReaderError::TooManyCpus)?;
        let program = load(roots, name)?;
        let mut own = Self {
            program,
            record_bytes: THREAD_BYTES + room / 8,
            tick_ns: 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1),
            bytes: Vec::new(),
            order: Vec::new(),
        };
        let agrees = own.agrees(roots);
        let agrees = agrees.map_err(LoadError::kernel("this process's threads".to_owned()))?;
        if agrees { Ok(own) } else { Err(ReaderError::Differs) }
    }

    /// Does it say of this process what `/proc` shows?
    fn agrees(&mut self, roots: &Roots) -> io::Result<bool> {
        let pid = std::process::id();
        let (shown, online) = (|| corun_linux::facts(roots, pid, pid), online_cpus(roots)?);
        let before = shown()?;
        self.read(&self.follow(pid)?)?;
        let after = shown()?;
        let first = self.records().find(|one| one.task.tid == pid);
        Ok(first.is_some_and(|one| {
            let facts = one.facts(&one.affinity(&online));
            let TaskFacts { wants_cpu, cpu, cpu_ns, .. } = facts;
            // These may have changed meanwhile.
            let still = TaskFacts { wants_cpu, cpu, cpu_ns, ..after.clone() };
            facts == still && (before.cpu_ns..=after.cpu_ns).contains(&cpu_ns)
        }))
    }

    /// A process whose threads are to be read again and again: that of this number at the time of each read.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn follow(&self, pid: u32) -> io::Result<FollowedThreads> {
        syscalls::attach_iterator(self.program.as_fd(), pid).map(FollowedThreads)
    }

    /// Reads all threads of a process; none where there is no process of this number.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn read(&mut self, followed: &FollowedThreads) -> io::Result<()> {
        self.order.clear();
        let mut file = File::from(syscalls::iterate(followed.0.as_fd())?);
        let mut length = 0;
        loop {
            self.bytes.resize(self.bytes.len().max(length + READ_BYTES), 0);
            match file.read(&mut self.bytes[length..]) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let records = self.bytes[..length].chunks_exact(self.record_bytes);
        let numbered = records.enumerate().map(|(index, bytes)| (word(bytes, 0), index));
        self.order.extend(numbered.map(|(tid, index)| (tid, index * self.record_bytes)));
        if !self.order.is_sorted() {
            self.order.sort_unstable();
        }
        Ok(())
    }

    /// What was read last, by ascending thread.
    pub fn records(&self) -> impl Iterator<Item = ThreadRecord<'_>> {
        let bytes = |&(_, at): &(u32, usize)| &self.bytes[at..at + self.record_bytes];
        self.order.iter().map(bytes).map(|bytes| record(bytes, self.tick_ns))
    }
}

impl ThreadRecord<'_> {
    /// Where it may run, of the CPUs that are on line.
    pub fn affinity(&self, online: &CpuSet) -> CpuSet {
        let is_set = |cpu: CpuId| {
            let byte = self.allowed.get(cpu.0 as usize / 8);
            byte.is_some_and(|byte| byte >> (cpu.0 % 8) & 1 == 1)
        };
        online.iter().filter(|&cpu| is_set(cpu)).collect()
    }

    /// The same facts as [`corun_linux::facts`] gives. `affinity`: what [`Self::affinity`] says.
    pub fn facts(&self, affinity: &CpuSet) -> TaskFacts {
        TaskFacts {
            task: self.task,
            parent: self.parent,
            name: shown_name(self.name),
            wants_cpu: self.wants_cpu,
            cpu: CpuId(self.cpu),
            cpu_ns: self.cpu_ns,
            nice: self.nice,
            is_real_time: is_real_time(self.policy),
            affinity: affinity.clone(),
        }
    }

    /// Makes of a thread's facts what they are now. Name and affinity, which have memory of their own, are made anew where
    /// they differ.
    pub fn update(&self, facts: &mut TaskFacts, affinity: &CpuSet) {
        (facts.task, facts.parent, facts.wants_cpu) = (self.task, self.parent, self.wants_cpu);
        (facts.cpu, facts.cpu_ns, facts.nice) = (CpuId(self.cpu), self.cpu_ns, self.nice);
        facts.is_real_time = is_real_time(self.policy);
        if facts.name.as_bytes() != self.name {
            facts.name = shown_name(self.name);
        }
        if facts.affinity != *affinity {
            facts.affinity.clone_from(affinity);
        }
    }
}

fn load(roots: &Roots, name: &str) -> Result<OwnedFd, LoadError> {
    let types = kernel_description(roots)?;
    let (object, kernel) = (ObjectFile::parse(THREADS_OBJECT)?, Btf::parse(&types)?);
    let program = object.programs.iter().find(|program| program.name == name);
    let program = program.ok_or_else(|| LoadError::Object(format!("it has no program {name}")))?;
    load_program(ProgramAttributes {
        name,
        kind: PROGRAM_TRACING,
        instructions: &linked(program, &kernel, &BTreeMap::new())?,
        license: &object.license,
        flags: 0,
        member: (kernel.id_of(Kind::Function, "bpf_iter_task")?, syscalls::ITERATOR),
    })
}

fn record(bytes: &[u8], tick_ns: u64) -> ThreadRecord<'_> {
    /// What the kernel makes a state's letter of (`TASK_REPORT`), and states that it shows as others: a frozen thread, and one
    /// that waits for a lock of a real-time kernel.
    const NO_RUNNING_STATE: u32 = 0x7f | 0x1000 | 0x8000;
    const DEFAULT_PRIORITY: i32 = 120;
    let [tid, pid, parent, group, session, threads] =
        [0, 4, 8, 12, 16, 20].map(|offset| word(bytes, offset));
    let [state, exit_state, cpu, priority, policy] =
        [24, 28, 32, 36, 40].map(|offset| word(bytes, offset));
    let [start_ns, cpu_ns, wait_ns] = [48, 56, 64].map(|offset| long(bytes, offset));
    let name = &bytes[72..THREAD_BYTES];
    ThreadRecord {
        task: Task { pid, tid, start_ticks: start_ns / tick_ns },
        parent,
        group,
        session,
        threads,
        wants_cpu: (state | exit_state) & NO_RUNNING_STATE == 0,
        is_over: exit_state != 0,
        cpu,
        nice: priority.cast_signed() - DEFAULT_PRIORITY,
        policy,
        cpu_ns,
        wait_ns,
        name: name.split(|&byte| byte == 0).next().unwrap_or_default(),
        allowed: &bytes[THREAD_BYTES..],
    }
}

fn word(bytes: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], offset: usize) -> u64 {
    u64::from_ne_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests;
