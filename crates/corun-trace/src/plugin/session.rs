//! The plug-in's state behind the entry points, in safe code.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxBuildHasher;

use super::options::Options;
use super::syscalls::{Call, Numbers};
use crate::decode::{GuestCode, GuestInstruction, decode};
use crate::engine::{Engine, EngineOptions, Thread};
use crate::event::Event;
use crate::report::{Report, State};
use crate::summary;

/// Between two reports of a running program, at most; at its beginning half its age. QEMU tells a
/// plug-in nothing of a fatal signal, so the last of these reports is what a crash leaves.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Should the program go on?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Continue,
    Stop,
}

/// A translated block: its number, and which of its instructions to watch.
pub(crate) struct Watched {
    pub(crate) id: u32,
    pub(crate) touches_memory: Vec<bool>,
}

/// One traced process.
pub(crate) struct Session {
    options: Options,
    target: String,
    code: GuestCode,
    numbers: Numbers,
    /// The process that is recorded. A forked child inherits everything but is not.
    home: u32,
    /// Set in a forked child.
    dormant: AtomicBool,
    lost_threads: AtomicU64,
    inner: Mutex<Inner>,
}

struct Inner {
    engine: Engine,
    /// Blocks by address and content: QEMU translates the same code again and again.
    known: HashMap<(u64, u64), u32, FxBuildHasher>,
    started: Instant,
    reported: Instant,
    children: u64,
    /// The last report was the final one.
    closed: bool,
}

impl Session {
    pub(crate) fn new(options: Options, target: &str) -> Self {
        let now = Instant::now();
        let inner = Inner {
            engine: Engine::new(
                EngineOptions { lines: options.settings.tracked_lines, ..EngineOptions::default() },
                options.instructions,
            )
            .with_window(options.settings.window),
            known: HashMap::default(),
            started: now,
            reported: now,
            children: 0,
            closed: false,
        };
        Self {
            options,
            target: target.to_owned(),
            code: GuestCode::of_target(target),
            numbers: Numbers::of_target(target),
            home: process::id(),
            dormant: AtomicBool::new(false),
            lost_threads: AtomicU64::new(0),
            inner: Mutex::new(inner),
        }
    }

    /// Is this a forked child? Nothing of it is recorded, and its copy of the lock, which another
    /// thread may have held while forking, is left alone.
    fn is_child(&self) -> bool {
        if !self.dormant.load(Relaxed) && process::id() != self.home {
            self.dormant.store(true, Relaxed);
        }
        self.dormant.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A poisoned engine still holds what came before.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a block known that QEMU translates; `None`: do not watch it.
    pub(crate) fn translate(&self, instructions: &[GuestInstruction]) -> Option<Watched> {
        if self.is_child() {
            return None;
        }
        let decoded = decode(self.code, instructions)?;
        let content = FxBuildHasher.hash_one(instructions);
        let mut inner = self.lock();
        let Inner { engine, known, .. } = &mut *inner;
        let id = *known
            .entry((decoded.block.start, content))
            .or_insert_with(|| engine.add_block(decoded.block));
        Some(Watched { id, touches_memory: decoded.touches_memory })
    }

    /// A thread cannot be followed.
    pub(crate) fn thread_lost(&self) {
        self.lost_threads.fetch_add(1, Relaxed);
    }

    /// Takes a thread's events in.
    pub(crate) fn flush(&self, thread: &mut Thread, events: &mut Vec<Event>) -> Verdict {
        if self.is_child() {
            events.clear();
            return Verdict::Continue;
        }
        let mut inner = self.lock();
        inner.engine.process(thread, events);
        events.clear();
        if inner.closed {
            return Verdict::Stop;
        }
        let state = self.limit(&inner);
        if state != State::Running {
            self.close(&mut inner, state);
            return Verdict::Stop;
        }
        if inner.reported.elapsed() >= REPORT_INTERVAL.min(inner.started.elapsed() / 2) {
            self.report(&mut inner, State::Running);
        }
        Verdict::Continue
    }

    fn limit(&self, inner: &Inner) -> State {
        if inner.engine.is_full() {
            State::InstructionLimit
        } else if self.options.duration.is_some_and(|most| inner.started.elapsed() >= most) {
            State::TimeLimit
        } else {
            State::Running
        }
    }

    /// Does the thread have to hand in its events before this system call?
    pub(crate) fn wants_flush(&self, number: i64) -> bool {
        self.numbers.kind(number, 0).may_be_last()
    }

    /// A system call begins, its thread's events being in where they were wanted.
    pub(crate) fn syscall(&self, number: i64, first: u64) {
        let kind = self.numbers.kind(number, first);
        if matches!(kind, Call::Other | Call::Exit) || self.is_child() {
            return;
        }
        let mut inner = self.lock();
        match kind {
            Call::Fork => inner.children += 1,
            Call::Exec => self.report(&mut inner, State::Replaced),
            Call::Signal => self.report(&mut inner, State::Running),
            Call::Exit | Call::Other => {}
        }
    }

    /// A system call returned.
    pub(crate) fn syscall_returned(&self, number: i64) {
        // An execve that comes back has not replaced the program.
        if self.numbers.kind(number, 0) == Call::Exec && !self.is_child() {
            self.report(&mut self.lock(), State::Running);
        }
    }

    /// The program ends.
    pub(crate) fn ended(&self) {
        if self.is_child() {
            return;
        }
        let mut inner = self.lock();
        if !inner.closed {
            self.close(&mut inner, State::Ended);
        }
    }

    fn close(&self, inner: &mut Inner, state: State) {
        self.report(inner, state);
        inner.closed = true;
    }

    fn report(&self, inner: &mut Inner, state: State) {
        if inner.closed {
            return;
        }
        let lost_threads = self.lost_threads.load(Relaxed);
        let recorded = summary::recording(&inner.engine);
        let mut report = Report::new(&self.target, state, recorded);
        report.children = inner.children;
        report.lost_threads = lost_threads;
        // Without a report the starter says so; the program itself must not suffer.
        let _ = report.write(&self.options.report);
        inner.reported = Instant::now();
    }
}
