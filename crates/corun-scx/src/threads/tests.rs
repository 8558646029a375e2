use std::collections::BTreeSet;
use std::process::Command;
use std::sync::mpsc;

use proptest::prelude::*;

use super::*;

/// A reader, where this process may have one.
fn reader() -> Option<ThreadReader> {
    match may_read(&Roots::default()) {
        Ok(()) => Some(ThreadReader::open(&Roots::default()).unwrap()),
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

/// What one read says of threads that stand still, and what `/proc` says of them.
fn assert_same(reader: &mut ThreadReader, pid: u32, still: &BTreeSet<u32>) {
    let online = online_cpus(&Roots::default()).unwrap();
    let followed = reader.follow(pid).unwrap();
    reader.read(&followed).unwrap();
    let stat = Process::new(&Roots::default(), pid).stat().unwrap().unwrap();
    let mut seen = BTreeSet::new();
    let read = reader.records().inspect(|one| assert_eq!(one.task.pid, pid));
    for one in read.filter(|one| still.contains(&one.task.tid)) {
        let facts = corun_linux::facts(&Roots::default(), pid, one.task.tid).unwrap();
        let affinity = one.affinity(&online);
        assert_eq!(one.facts(&affinity), facts);
        let mut other = TaskFacts { name: "other".to_owned(), cpu_ns: 1, ..facts.clone() };
        one.update(&mut other, &affinity);
        assert_eq!(other, facts);
        let waited = corun_linux::procfs::waited_for_cpu(&Roots::default(), pid, one.task.tid);
        assert_eq!(u128::from(one.wait_ns), waited.unwrap().as_nanos());
        if one.task.tid == pid {
            assert_eq!((one.group, one.session), (stat.group, stat.session));
            assert_eq!(one.threads, stat.threads);
        }
        seen.insert(one.task.tid);
    }
    assert_eq!(seen, *still, "each once");
}

/// What is changed of a thread, with what the kernel numbers.
#[derive(Debug, Clone)]
struct Wish {
    name: String,
    nice: i32,
    policy: i32,
    cpu: usize,
}

fn wish() -> impl Strategy<Value = Wish> {
    let policy = prop_oneof![Just(libc::SCHED_OTHER), Just(libc::SCHED_BATCH)];
    ("[a-zé\\\\\n\u{1b}() ]{1,12}", 0..20i32, policy, 0..64usize)
        .prop_map(|(name, nice, policy, cpu)| Wish { name, nice, policy, cpu })
}

impl Wish {
    /// Of the thread that calls.
    fn fulfil(&self) {
        use rustix::thread::{CpuSet as Mask, sched_getaffinity, sched_setaffinity, set_name};
        let mut name = self.name.clone().into_bytes();
        name.retain(|&byte| byte != 0);
        set_name(&std::ffi::CString::new(name).unwrap()).unwrap();
        let own = rustix::thread::gettid();
        crate::set_policy(own.as_raw_nonzero().get() as u32, self.policy).unwrap();
        rustix::process::setpriority_process(Some(own), self.nice).unwrap();
        let allowed = sched_getaffinity(Some(own)).unwrap();
        let cpus: Vec<usize> = (0..Mask::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
        let mut only = Mask::new();
        only.set(cpus[self.cpu % cpus.len()]);
        sched_setaffinity(Some(own), &only).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn threads_that_sleep_are_as_proc_shows_them(wishes in prop::collection::vec(wish(), 1..24)) {
        let Some(mut reader) = reader() else { return Ok(()) };
        let (tell, told) = mpsc::channel();
        let threads: Vec<_> = wishes.into_iter().map(|wish| {
            let tell = tell.clone();
            let (end, ended) = mpsc::channel::<()>();
            let thread = std::thread::spawn(move || {
                wish.fulfil();
                tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
                let _ = ended.recv();
            });
            (end, thread)
        }).collect();
        let still: BTreeSet<u32> = told.iter().take(threads.len()).collect();
        let pid = std::process::id();
        // They may still begin to wait.
        for &tid in &still {
            while corun_linux::facts(&Roots::default(), pid, tid).unwrap().wants_cpu {
                std::thread::yield_now();
            }
        }
        assert_same(&mut reader, pid, &still);
        for (end, thread) in threads {
            drop(end);
            thread.join().unwrap();
        }
    }

    #[test]
    fn any_record_is_read(bytes in prop::collection::vec(any::<u8>(), THREAD_BYTES + 16)) {
        let one = record(&bytes, 10_000_000);
        let online: CpuSet = "0-127".parse().unwrap();
        let facts = one.facts(&one.affinity(&online));
        prop_assert!(facts.affinity.is_subset(&online));
        prop_assert_eq!(facts.task, one.task);
    }
}

#[test]
fn a_stopped_process_is_as_proc_shows_it_and_one_that_ended_is_over() {
    let Some(mut reader) = reader() else { return };
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = child.id();
    let send = |signal| {
        let to = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(to, signal).unwrap();
    };
    let state = || Process::new(&Roots::default(), pid).stat().unwrap().unwrap().state;
    send(rustix::process::Signal::STOP);
    while state() != 'T' {
        std::thread::yield_now();
    }
    assert_same(&mut reader, pid, &BTreeSet::from([pid]));
    let followed = reader.follow(pid).unwrap();
    send(rustix::process::Signal::KILL);
    while state() != 'Z' {
        std::thread::yield_now();
    }
    reader.read(&followed).unwrap();
    let over: Vec<bool> = reader.records().map(|one| one.is_over).collect();
    assert_eq!(over, [true]);
    child.wait().unwrap();
    reader.read(&followed).unwrap();
    assert_eq!(reader.records().count(), 0);
}

#[test]
fn a_record_is_what_the_program_wrote() {
    let mut bytes = vec![0u8; THREAD_BYTES + 16];
    let words = [9u32, 7, 1, 5, 6, 3, 0x2001, 0, 4, 115, 3, 0];
    for (index, word) in words.iter().enumerate() {
        bytes[index * 4..index * 4 + 4].copy_from_slice(&word.to_ne_bytes());
    }
    for (index, long) in [25_000_000u64, 12, 13].iter().enumerate() {
        bytes[48 + index * 8..56 + index * 8].copy_from_slice(&long.to_ne_bytes());
    }
    bytes[72..76].copy_from_slice(b"abc\0");
    (bytes[THREAD_BYTES], bytes[THREAD_BYTES + 8]) = (0b101, 1);
    let one = record(&bytes, 10_000_000);
    assert_eq!(one.task, Task { pid: 7, tid: 9, start_ticks: 2 });
    assert_eq!((one.parent, one.group, one.session, one.threads), (1, 5, 6, 3));
    assert_eq!(
        (one.wants_cpu, one.is_over, one.cpu, one.nice, one.policy),
        (false, false, 4, -5, 3)
    );
    assert_eq!((one.cpu_ns, one.wait_ns, one.name), (12, 13, &b"abc"[..]));
    let affinity = |online: &str| one.affinity(&online.parse().unwrap()).to_string();
    assert_eq!((affinity("0-127"), affinity("1-2")), ("0,2,64".to_owned(), "2".to_owned()));
    let with = |state: u32, exit: u32| {
        let mut bytes = bytes.clone();
        bytes[24..28].copy_from_slice(&state.to_ne_bytes());
        bytes[28..32].copy_from_slice(&exit.to_ne_bytes());
        let one = record(&bytes, 1);
        (one.wants_cpu, one.is_over)
    };
    assert_eq!(with(0, 0), (true, false));
    assert_eq!(with(0x8000, 0), (false, false), "frozen");
    assert_eq!((with(0x80, 0x20), with(0x80, 0x10)), ((false, true), (false, true)));
}
