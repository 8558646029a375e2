//! The plug-in's state behind the entry points, in safe code.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs;
use std::hash::BuildHasher;
use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use rustc_hash::FxBuildHasher;

use super::exec::{Follower, GuestMemory, Plan};
use super::host::HeldSignals;
use super::kernel_work_sums::KernelWorkSums;
use super::options::PluginOptions;
use super::syscalls::{Call, Numbers, Work};
use super::tap::{AccessTap, InstructionTap};
use crate::control::{Control, Stop, Tally, now_ns};
use crate::decode::{GuestCode, GuestInstruction, Touch, decode};
use crate::engine::{BlockTag, Engine, Pace, Sieve, Thread};
use crate::report::{self, Report, RunState};
use crate::report_folder::ReportFolder;
use crate::summary;
use crate::trace_file::Position;

/// Between two reports of a running program, at most; at its beginning half its age. The last of these reports is what
/// SIGKILL leaves.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The longest that a program which a signal ends waits for its last report.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Should the program go on?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Continue,
    Stop,
}

/// A translated block: what to know of it when it runs, and which of its instructions to watch.
pub(crate) struct Watched {
    pub(crate) tag: BlockTag,
    pub(crate) touches_memory: Vec<Touch>,
}

/// One traced program of one process.
pub(crate) struct Session {
    options: PluginOptions,
    target: String,
    code: GuestCode,
    numbers: Numbers,
    /// What all processes share.
    control: Arc<Control>,
    /// `None` where nothing is recorded.
    reports: Option<ReportFolder>,
    follower: Option<Follower>,
    /// Where the guest's address 0 lies, once code was seen.
    guest_base: OnceLock<u64>,
    /// This process is not recorded, or no longer.
    dormant: AtomicBool,
    lost_threads: AtomicU64,
    kernel_work: KernelWorkSums,
    /// Where the heap ended last; 0 while that is not known.
    heap_end: AtomicU64,
    inner: Mutex<Inner>,
}

struct Inner {
    engine: Engine,
    /// Instructions to pass over before anything is recorded.
    skip: Option<u64>,
    /// Of the program that was started, not of those that it starts.
    trace: Option<AccessTap>,
    instruction_trace: Option<InstructionTap>,
    /// Blocks by address and content: QEMU translates the same code again and again.
    known: HashMap<(u64, u64), BlockTag, FxBuildHasher>,
    process_started_ns: u64,
    started_ns: u64,
    started: Instant,
    reported: Instant,
    /// What the last report told.
    tally: Tally,
    /// Users who wrote this program's reports, but one.
    generation: u32,
    /// The last report could not be handed in, by whoever the process is now.
    cut_off: bool,
    /// The last report was the final one.
    closed: bool,
}

impl Inner {
    fn flush_traces(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.flush();
        }
        if let Some(trace) = &mut self.instruction_trace {
            trace.flush();
        }
    }
}

thread_local! {
    /// The lock, while this thread forks, and when it began to: children start in the order in which
    /// their parent made them, whichever runs first.
    static FORKING: RefCell<Option<(MutexGuard<'static, Inner>, u64)>> =
        const { RefCell::new(None) };
    /// This thread is executing another program natively.
    static LEAVING: Cell<bool> = const { Cell::new(false) };
}

/// Where files are mapped, from the text of `/proc/PID/maps`.
fn mapped_files(maps: &str) -> impl Iterator<Item = (u64, u64)> + '_ {
    maps.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (begin, end) = fields.next()?.split_once('-')?;
        // Rights, offset and device stand between.
        let inode = fields.nth(3)?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        (inode != "0").then_some((number(begin)?, number(end)?))
    })
}

/// Is an open descriptor of this process a file, and no pipe, socket or device?
fn is_file(descriptor: u64) -> bool {
    let link = format!("/proc/self/fd/{}", descriptor as i32);
    std::fs::metadata(link).is_ok_and(|found| found.is_file())
}

impl Session {
    pub(crate) fn new(options: PluginOptions, target: &str) -> io::Result<Self> {
        let (control, reports) = if options.idle {
            (Control::private()?, None)
        } else {
            let folder = options.reports();
            (Control::open(&folder.join(report::CONTROL))?, Some(ReportFolder::open(&folder)?))
        };
        let control = Arc::new(control);
        control.add_started();
        let now = Instant::now();
        let started_ns = now_ns();
        let engine = Engine::new(options.settings.engine, None)
            .with_window(options.settings.window)
            .with_set_profiles(&options.settings.caches);
        // A trace and the profiles of sets need every access.
        let traced = options.trace.is_some() || options.instruction_trace.is_some();
        let partial = !traced && options.settings.caches.llcs.is_empty();
        let instructions = options.instruction_trace.as_deref();
        let inner = Inner {
            skip: options.skip,
            engine: if partial { engine.with_gaps() } else { engine },
            trace: options.trace.as_deref().map(|path| AccessTap::new(path, &control)),
            instruction_trace: instructions.map(|path| InstructionTap::new(path, &control)),
            known: HashMap::default(),
            process_started_ns: options.process_started_ns.unwrap_or(started_ns),
            started_ns,
            started: now,
            reported: now,
            tally: Tally::default(),
            generation: 0,
            cut_off: false,
            closed: false,
        };
        Ok(Self {
            options,
            target: target.to_owned(),
            code: GuestCode::of_target(target),
            numbers: Numbers::of_target(target),
            control,
            reports,
            follower: Follower::of_this_process(),
            guest_base: OnceLock::new(),
            dormant: AtomicBool::new(false),
            lost_threads: AtomicU64::new(0),
            kernel_work: KernelWorkSums::default(),
            heap_end: AtomicU64::new(0),
            inner: Mutex::new(inner),
        })
    }

    fn is_dormant(&self) -> bool {
        self.dormant.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A poisoned engine still holds what came before.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a block known that QEMU translates; `None`: do not watch it. `base` is where the
    /// guest's address 0 lies in this process.
    pub(crate) fn translate(
        &self,
        instructions: &[GuestInstruction],
        base: Option<u64>,
    ) -> Option<Watched> {
        if self.is_dormant() {
            return None;
        }
        if let Some(base) = base
            && self.guest_base.set(base).is_ok()
        {
            // The program and its loader, which QEMU maps itself.
            let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
            let mut inner = self.lock();
            for (begin, end) in mapped_files(&maps) {
                let (begin, end) = (begin.wrapping_sub(base), end.wrapping_sub(base));
                inner.engine.file_was_mapped(begin, end);
            }
        }
        let decoded = decode(self.code, instructions)?;
        let content = FxBuildHasher.hash_one(instructions);
        let mut inner = self.lock();
        let Inner { engine, known, .. } = &mut *inner;
        let tag = *known.entry((decoded.block.start, content)).or_insert_with(|| {
            let id = engine.add_block(decoded.block);
            engine.tag(id)
        });
        Some(Watched { tag, touches_memory: decoded.touches_memory })
    }

    /// Are accesses to be counted as they happen, as the code is not decoded?
    pub(crate) fn counts_accesses(&self) -> bool {
        self.code == GuestCode::Other
    }

    /// How a thread that begins is to collect events.
    pub(crate) fn pace(&self) -> Pace {
        if self.is_dormant() { Pace::NOTHING } else { self.lock().engine.pace() }
    }

    /// A thread cannot be followed.
    pub(crate) fn thread_lost(&self) {
        self.lost_threads.fetch_add(1, Relaxed);
    }

    /// Takes in what a thread has collected, and sets the pace at which it goes on.
    pub(crate) fn flush(
        &self,
        thread: &mut Thread,
        position: &mut Position,
        sieve: &mut Sieve,
    ) -> Verdict {
        if self.is_dormant() {
            sieve.set_pace(Pace::NOTHING);
            return Verdict::Continue;
        }
        let mut guard = self.lock();
        let inner = &mut *guard;
        if let Some(skip) = inner.skip {
            inner.engine.take(thread, sieve);
            if inner.engine.instructions() >= skip {
                inner.skip = None;
                inner.engine.forget(self.options.settings.engine);
                self.kernel_work.take();
            }
            sieve.set_pace(inner.engine.pace());
            return self.verdict(inner);
        }
        let before = inner.engine.instructions();
        if let Some(limit) = self.options.instructions {
            let left = limit.saturating_sub(self.control.instructions());
            inner.engine.set_limit(before + left);
        }
        inner.engine.take(thread, sieve);
        inner.engine.add_kernel_work(&self.kernel_work.take());
        if let Some(trace) = &mut inner.trace {
            trace.record(position, sieve.events(), &inner.engine);
        }
        if let Some(trace) = &mut inner.instruction_trace
            && thread.is_first()
            && !inner.closed
        {
            trace.record(sieve.events(), self.most_instructions(), &inner.engine);
        }
        sieve.set_pace(inner.engine.pace());
        self.control.add_instructions(inner.engine.instructions() - before);
        if inner.engine.is_full() {
            self.control.set_stop(Stop::InstructionLimit);
        }
        self.verdict(inner)
    }

    fn most_instructions(&self) -> u64 {
        self.options.instructions.unwrap_or(u64::MAX)
    }

    fn verdict(&self, inner: &mut Inner) -> Verdict {
        if inner.closed {
            return Verdict::Stop;
        }
        if let Some(stop) = self.control.stop() {
            self.close(inner, stop.state());
            if stop == Stop::Leave {
                self.dormant.store(true, Relaxed);
                return Verdict::Continue;
            }
            return Verdict::Stop;
        }
        if inner.reported.elapsed() >= REPORT_INTERVAL.min(inner.started.elapsed() / 2) {
            self.report(inner, RunState::Running);
        }
        Verdict::Continue
    }

    /// What a system call does. Its thread has to hand in its events before any but
    /// [`Call::Other`].
    pub(crate) fn call(&self, number: i64, first: u64) -> Call {
        self.numbers.kind(number, first)
    }

    /// A system call begins; what it has the kernel do.
    pub(crate) fn kernel_begins(&self, number: i64, arguments: [u64; 5]) -> Work {
        let work = self.numbers.work(number, arguments);
        if let Some(kind) = work.kind(None) {
            self.kernel_work.add_call(kind);
        }
        work
    }

    /// A system call that did that returned. Did memory change that the thread may remember?
    pub(crate) fn kernel_returned(&self, work: Work, result: i64) -> bool {
        if work == Work::Waits
            && let Some(kind) = work.kind(Some(result))
        {
            self.kernel_work.add_call(kind);
        }
        let succeeded = result >= 0;
        let result = result.max(0) as u64;
        match work {
            Work::Writes(descriptor) if result > 0 && is_file(descriptor) => {
                self.kernel_work.file_written_bytes.fetch_add(result, Relaxed);
                return false;
            }
            Work::Transfers | Work::Writes(_) => {
                self.kernel_work.other_transferred_bytes.fetch_add(result, Relaxed);
                return false;
            }
            Work::MapsFile(bytes) if result > 0 && !self.is_dormant() => {
                self.lock().engine.file_mapped(result, result + bytes);
            }
            Work::MapsAnonymous(bytes) if result > 0 && !self.is_dormant() => {
                self.lock().engine.memory_given_back(result, result.saturating_add(bytes));
            }
            Work::GivesBack(begin, bytes) if succeeded && !self.is_dormant() => {
                self.lock().engine.memory_given_back(begin, begin.saturating_add(bytes));
            }
            Work::Discards(begin, bytes) if succeeded && !self.is_dormant() => {
                self.lock().engine.memory_discarded(begin, begin.saturating_add(bytes));
            }
            Work::Moves(begin, before, after) if result > 0 && !self.is_dormant() => {
                let engine = &mut self.lock().engine;
                let kept = before.min(after);
                engine.memory_given_back(begin.saturating_add(kept), begin.saturating_add(before));
                if result != begin {
                    engine.memory_moved(begin, begin.saturating_add(kept), result);
                }
            }
            Work::MovesHeap => {
                let before = self.heap_end.swap(result, Relaxed);
                if before <= result || self.is_dormant() {
                    return false;
                }
                self.lock().engine.memory_given_back(result, before);
            }
            _ => return false,
        }
        true
    }

    /// The program is about to send a signal.
    pub(crate) fn signals(&self) {
        if !self.is_dormant() {
            self.report(&mut self.lock(), RunState::Running);
        }
    }

    /// The program is about to execute another one. Where that can be recorded this does not come
    /// back; else QEMU goes on with the call.
    pub(crate) fn executes(&self, number: i64, arguments: [u64; 5]) {
        if self.is_dormant() {
            return;
        }
        // A signal that came before the call has to be handled before it: QEMU will begin the
        // call anew.
        let Some(held) = HeldSignals::new() else { return };
        match self.plan(number, arguments, held.blocked()) {
            Plan::Refused => return,
            Plan::Native => {}
            Plan::Follow(follow) => {
                self.leave(RunState::Replaced);
                follow.execute();
            }
        }
        self.control.add_untraced();
        self.leave(RunState::Untraced);
        LEAVING.set(true);
    }

    /// The program is replaced by another one, unless that fails.
    fn leave(&self, state: RunState) {
        let mut guard = self.lock();
        let inner = &mut *guard;
        if let Some(trace) = &mut inner.instruction_trace {
            trace.end(self.most_instructions(), &inner.engine);
        }
        self.report(inner, state);
    }

    fn plan(&self, number: i64, arguments: [u64; 5], blocked: u64) -> Plan {
        let (Some(follower), Some(&base), Some(pointer_bytes), Some(call)) = (
            &self.follower,
            self.guest_base.get(),
            self.numbers.pointer_bytes(),
            self.numbers.exec_call(number, arguments),
        ) else {
            return Plan::Native;
        };
        let mut options = self.options.clone();
        options.process_started_ns = Some(self.lock().process_started_ns);
        options.blocked_signals = Some(blocked);
        options.trace = None;
        options.skip = None;
        options.instruction_trace = None;
        follower.plan(GuestMemory { base, pointer_bytes }, call, &options)
    }

    /// A system call returned.
    pub(crate) fn call_returned(&self, number: i64) {
        // An execution that comes back has not replaced the program.
        if self.call(number, 0) == Call::Exec && LEAVING.take() {
            self.control.take_back_untraced();
            self.report(&mut self.lock(), RunState::Running);
        }
    }

    /// This thread is about to fork: from here to the fork's end it alone holds the lock, so that
    /// the child's copy of all this is whole. What the traces still hold would be written twice.
    pub(crate) fn fork_begins(&'static self) {
        let mut lock = self.lock();
        lock.flush_traces();
        FORKING.set(Some((lock, now_ns())));
    }

    /// The fork is over, here in the parent.
    pub(crate) fn fork_ended(&self) {
        FORKING.take();
    }

    /// The fork is over, here in the child, which begins with a record of its own.
    pub(crate) fn forked(&self) {
        let Some((mut inner, began_ns)) = FORKING.take() else { return };
        // They are the parent's. Open pipes would have their readers wait for this process, too.
        inner.trace = None;
        inner.instruction_trace = None;
        if self.is_dormant() {
            return;
        }
        if self.options.settings.main_only {
            self.control.add_untraced();
            self.dormant.store(true, Relaxed);
            return;
        }
        self.control.add_started();
        inner.skip = None;
        inner.engine.restart(self.options.settings.engine);
        inner.started_ns = began_ns;
        inner.process_started_ns = began_ns;
        inner.started = Instant::now();
        inner.reported = inner.started;
        inner.tally = Tally::default();
        (inner.generation, inner.cut_off) = (0, false);
        inner.closed = false;
        self.lost_threads.store(0, Relaxed);
    }

    /// The program ends.
    pub(crate) fn ended(&self) {
        self.ends(RunState::Ended);
    }

    /// A signal ends the program.
    pub(crate) fn ended_by_signal(&self) {
        self.ends(RunState::Signalled);
    }

    fn ends(&self, state: RunState) {
        if self.is_dormant() {
            return;
        }
        let mut inner = self.lock();
        if !inner.closed {
            self.close(&mut inner, state);
        }
    }

    /// Is this the session of a plug-in that records nothing?
    pub(crate) fn is_idle(&self) -> bool {
        self.options.idle
    }

    /// Waits until no other thread works on the record. False where one does not come to an end: a program that a
    /// signal ends must not be held up.
    pub(crate) fn is_free(&self) -> bool {
        let asked = Instant::now();
        while matches!(self.inner.try_lock(), Err(TryLockError::WouldBlock)) {
            if asked.elapsed() >= LONGEST_WAIT {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        true
    }

    fn close(&self, inner: &mut Inner, state: RunState) {
        if let Some(trace) = &mut inner.trace
            && state != RunState::Signalled
        {
            trace.finish();
        }
        let is_over = matches!(state, RunState::Ended | RunState::Signalled);
        if let (Some(trace), true) = (&mut inner.instruction_trace, is_over) {
            trace.end(self.most_instructions(), &inner.engine);
        }
        self.report(inner, state);
        inner.closed = true;
    }

    fn report(&self, inner: &mut Inner, state: RunState) {
        if inner.closed || (inner.skip.is_some() && state == RunState::Running) {
            return;
        }
        inner.flush_traces();
        // What ends within the instructions that are passed over has nothing to tell but that.
        let recording = inner.skip.is_none().then(|| summary::recording(&inner.engine)).flatten();
        let tally = recording.as_ref().map_or_else(Tally::default, |one| Tally::of(&one.phases));
        self.control.replace_tally(&inner.tally, &tally);
        inner.tally = tally;
        let mut report = Report::new(&self.target, state, recording);
        report.lost_threads = self.lost_threads.load(Relaxed);
        report.process = process::id();
        report.process_started_ns = inner.process_started_ns;
        report.started_ns = inner.started_ns;
        if let Some(follower) = &self.follower {
            report.command = report::shortened(&follower.invocation.command);
        }
        self.hand_in(inner, &report);
        inner.reported = Instant::now();
    }

    /// Without a report the starter says so; the program itself must not suffer.
    fn hand_in(&self, inner: &mut Inner, report: &Report) {
        let Some(reports) = &self.reports else { return };
        let written = reports.write(report, &mut inner.generation);
        let cut_off = matches!(
            written.as_ref().map_err(io::Error::kind),
            Err(io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound)
        );
        match (std::mem::replace(&mut inner.cut_off, cut_off), cut_off) {
            (false, true) => self.control.add_cut_off(),
            (true, false) => self.control.take_back_cut_off(),
            _ => {}
        }
        if let (Err(error), false) = (&written, cut_off) {
            self.control.set_unwritten(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_files_by_hand() {
        let maps = "00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/a b\n\
                    00e03000-00e24000 rw-p 00000000 00:00 0           [heap]\n\
                    7f1-7f2 r--p 0 00:00 0\nodd\n";
        assert_eq!(mapped_files(maps).collect::<Vec<_>>(), [(0x40_0000, 0x45_2000)]);
    }
}
