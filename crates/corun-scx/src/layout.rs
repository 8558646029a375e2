//! What the scheduler and user space hand to each other: the numbers and structures of `bpf/layout.h`.

use std::time::Duration;

use corun_machine::{CpuId, CpuSet};

/// Words of 64 CPUs in a set.
const WORDS: usize = 16;
/// CPUs that there can be.
pub(crate) const CPUS: u32 = WORDS as u32 * 64;
/// Sets that there can be at a time; number 0 is none.
pub(crate) const SETS: u32 = 128;
/// Sets that a CPU can be in.
pub(crate) const SETS_OF_CPU: usize = 16;
/// Cgroups that can have a plan.
pub(crate) const GROUPS: usize = 128;
/// Pairs of threads, of which one woke the other, that are counted at a time.
pub(crate) const WAKER_PAIRS: u32 = 16384;
/// Stints that are kept for user space.
pub(crate) const STINTS: usize = 16384;
/// A bound that never ends.
const NEVER: u64 = u64::MAX;

fn words_of(cpus: &CpuSet) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for cpu in cpus.iter().filter(|cpu| cpu.0 < CPUS) {
        words[cpu.0 as usize / 64] |= 1 << (cpu.0 % 64);
    }
    words
}

fn bytes_of(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers.into_iter().flat_map(u64::to_ne_bytes).collect()
}

/// Bytes of `struct set`.
pub(crate) const SET_BYTES: usize = (WORDS + 3) * 8;

/// `struct set` with the virtual time of the set that had this number before: who waits there is behind nobody.
pub(crate) fn set(cpus: &CpuSet, before: &[u8; SET_BYTES]) -> Vec<u8> {
    let words = words_of(cpus);
    let used = words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
    let mut all = cpus.iter();
    let only = match (all.next(), all.next()) {
        (Some(cpu), None) => u64::from(cpu.0) + 1,
        _ => 0,
    };
    let vtime = &before[WORDS * 8..(WORDS + 1) * 8];
    let vtime = u64::from_ne_bytes(vtime.try_into().expect("8 bytes"));
    bytes_of(words.into_iter().chain([vtime, used as u64, only]))
}

/// `struct cpu`.
pub(crate) fn cpu(sets: &[u32]) -> Vec<u8> {
    let mut numbers = vec![sets.len() as u32];
    numbers.extend_from_slice(sets);
    numbers.resize(SETS_OF_CPU + 3, 0);
    numbers.into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// `struct group`.
pub(crate) fn group(set: u32, spill_after: Option<Duration>) -> Vec<u8> {
    bytes_of([bound(spill_after), u64::from(set)])
}

/// `struct leave`.
pub(crate) fn leave(set: u32, cpu: CpuId) -> Vec<u8> {
    [set, cpu.0].into_iter().flat_map(u32::to_ne_bytes).collect()
}

fn bound(spill_after: Option<Duration>) -> u64 {
    spill_after.map_or(NEVER, |bound| bound.as_nanos() as u64)
}

/// `struct settings`.
pub(crate) fn settings(sets: u32) -> Vec<u8> {
    u64::from(sets).to_ne_bytes().to_vec()
}

/// `struct online`.
pub(crate) fn online(cpus: &CpuSet) -> Vec<u8> {
    bytes_of(words_of(cpus))
}

/// Where a thread is to run, and what it takes for it to run elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) tid: u32,
    pub(crate) set: u32,
    pub(crate) spill_after: Option<Duration>,
}

impl Request {
    /// `struct request`.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        // The answer, and what the structure ends with.
        let numbers = [self.tid, self.set, 0, 0];
        bound(self.spill_after)
            .to_ne_bytes()
            .into_iter()
            .chain(numbers.into_iter().flat_map(u32::to_ne_bytes))
            .collect()
    }

    /// What the program answered: 0, or an error number.
    pub(crate) fn answer(bytes: &[u8]) -> i32 {
        i32::from_ne_bytes(bytes[16..20].try_into().expect("four bytes"))
    }
}

/// What the kernel's side counted of a thread since it was first given a plan, or was born in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadCounts {
    /// The number of its set of CPUs; 0: none.
    pub(crate) set: u32,
    /// How often it was switched to.
    pub switches: u64,
    /// How often it was woken.
    pub wakeups: u64,
    /// Time for which it could have run and did not.
    pub wait: Duration,
    /// The longest of these times.
    pub longest_wait: Duration,
    /// How often it woke and an idle CPU of its set took it at once.
    pub took_idle: u64,
    /// How often it was queued, because no CPU of its set was idle or because its slice ended.
    pub queued: u64,
    /// How often it waited for longer than its bound and ran elsewhere.
    pub spilled: u64,
    /// How often no CPU of its set was on line and allowed to it.
    pub homeless: u64,
    /// How many ticks of the kernel found it on a CPU outside of its set although one of the set was there for it: it
    /// spilled, or its plan changed while it ran.
    pub ticks_outside: u64,
    /// Since when it is on a CPU, in the clock `CLOCK_MONOTONIC`; 0: it is on none, or stints are not kept.
    pub(crate) runs_since_ns: u64,
}

/// Bytes of `struct thread`.
pub(crate) const THREAD_BYTES: usize = 136;

impl ThreadCounts {
    /// The sum of two threads' counts; the longest wait is that of either.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            set: 0,
            switches: self.switches + other.switches,
            wakeups: self.wakeups + other.wakeups,
            wait: self.wait + other.wait,
            longest_wait: self.longest_wait.max(other.longest_wait),
            took_idle: self.took_idle + other.took_idle,
            queued: self.queued + other.queued,
            spilled: self.spilled + other.spilled,
            homeless: self.homeless + other.homeless,
            ticks_outside: self.ticks_outside + other.ticks_outside,
            runs_since_ns: 0,
        }
    }

    /// From `struct thread`.
    pub(crate) fn parse(bytes: &[u8; THREAD_BYTES]) -> Self {
        let number =
            |at: usize| u64::from_ne_bytes(bytes[at * 8..at * 8 + 8].try_into().expect("8 bytes"));
        Self {
            set: u32::from_ne_bytes(bytes[8..12].try_into().expect("4 bytes")),
            switches: number(2),
            wakeups: number(3),
            wait: Duration::from_nanos(number(4)),
            longest_wait: Duration::from_nanos(number(5)),
            took_idle: number(6),
            queued: number(7),
            spilled: number(8),
            homeless: number(9),
            ticks_outside: number(10),
            runs_since_ns: number(12),
        }
    }
}

/// A time for which a thread was on a CPU, in the clock `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stint {
    /// When it came onto the CPU, in nanoseconds.
    pub since_ns: u64,
    /// When it left, in nanoseconds; none: it is still there.
    pub until_ns: Option<u64>,
    /// The kernel's number of the thread, of the kernel's first namespace.
    pub tid: u32,
    /// The CPU; none where it is still there, which `/proc` tells.
    pub cpu: Option<CpuId>,
}

/// Bytes of `struct stint`.
pub(crate) const STINT_BYTES: usize = 24;

impl Stint {
    /// From `struct stint`.
    pub(crate) fn parse(bytes: &[u8; STINT_BYTES]) -> Self {
        let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        Self {
            since_ns: long(0),
            until_ns: Some(long(8)),
            tid: word(16),
            cpu: Some(CpuId(word(20))),
        }
    }
}

/// Bytes of `struct exit`.
pub(crate) const EXIT_BYTES: usize = 264;

/// Why the kernel detached the scheduler, from `struct exit`; none while it is in force.
pub(crate) fn exit(bytes: &[u8; EXIT_BYTES]) -> Option<String> {
    let kind = u64::from_ne_bytes(bytes[..8].try_into().expect("8 bytes"));
    let text = |bytes: &[u8]| {
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    };
    let (reason, message) = (text(&bytes[8..72]), text(&bytes[72..]));
    let whole = if message.is_empty() { reason } else { format!("{reason} ({message})") };
    (kind != 0).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_those_of_the_program() {
        let cpus: CpuSet = "1,64".parse().unwrap();
        let mut before = [0; SET_BYTES];
        before[16 * 8 + 1] = 7;
        let bytes = set(&cpus, &before);
        assert_eq!((bytes[0], bytes[8], bytes.len()), (2, 1, SET_BYTES));
        // The virtual time, the words that count, and the only CPU.
        assert_eq!((bytes[16 * 8], bytes[16 * 8 + 1], bytes[17 * 8], bytes[18 * 8]), (0, 7, 2, 0));
        assert_eq!(set(&"64".parse().unwrap(), &before)[18 * 8], 65);
        let bytes = group(3, Some(Duration::from_nanos(5)));
        assert_eq!((bytes[0], bytes[8], bytes.len()), (5, 3, 16));
        assert_eq!(group(3, None)[..8], [0xff; 8]);
        assert_eq!(leave(3, CpuId(9)), [3, 0, 0, 0, 9, 0, 0, 0]);
        let bytes = cpu(&[3, 9]);
        assert_eq!((bytes[0], bytes[4], bytes[8], bytes.len()), (2, 3, 9, 19 * 4));
        assert_eq!(settings(5), [5, 0, 0, 0, 0, 0, 0, 0]);
        let bytes = online(&cpus);
        assert_eq!((bytes[0], bytes[8], bytes.len()), (2, 1, 16 * 8));
        let request = Request { tid: 7, set: 2, spill_after: None };
        let bytes = request.bytes();
        assert_eq!((&bytes[..8], bytes[8], bytes[12]), (&[0xff; 8][..], 7, 2));
        assert_eq!((bytes.len(), Request::answer(&bytes)), (24, 0));
    }

    #[test]
    fn stints_and_counts_are_read_as_they_are_written() {
        let mut bytes = [0; STINT_BYTES];
        (bytes[0], bytes[9], bytes[16], bytes[20]) = (5, 1, 77, 3);
        let read = Stint { since_ns: 5, until_ns: Some(256), tid: 77, cpu: Some(CpuId(3)) };
        assert_eq!(Stint::parse(&bytes), read);
        let mut thread = [0; THREAD_BYTES];
        (thread[8], thread[9 * 8], thread[10 * 8], thread[12 * 8]) = (4, 6, 7, 8);
        let counts = ThreadCounts::parse(&thread);
        assert_eq!((counts.set, counts.homeless, counts.ticks_outside), (4, 6, 7));
        assert_eq!(counts.runs_since_ns, 8);
    }

    #[test]
    fn an_end_is_told_with_its_message() {
        let mut bytes = [0; EXIT_BYTES];
        assert_eq!(exit(&bytes), None);
        bytes[0] = 65;
        bytes[8..15].copy_from_slice(b"stalled");
        assert_eq!(exit(&bytes).unwrap(), "stalled");
        bytes[72..75].copy_from_slice(b"7 s");
        assert_eq!(exit(&bytes).unwrap(), "stalled (7 s)");
    }
}
