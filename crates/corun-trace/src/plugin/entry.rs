//! What QEMU calls: the exported entry points, the callbacks, and the threads' buffers.
#![allow(unsafe_code)] // Exported symbols, and buffers that belong to one guest thread each.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::fatal_signal::divert_kill;
use super::ffi::{GuestBlock, Id, Info, Qemu, VERSION};
use super::host::{at_fork, block_signals, end_process};
use super::options::PluginOptions;
use super::session::{Session, Verdict};
use super::syscalls::{Call, Work};
use crate::decode::{GuestInstruction, Touch};
use crate::engine::{BlockTag, Sieve, Thread};
use crate::event::{LINE_BYTES, WORD_BYTES};
use crate::report_folder::key_variable;
use crate::trace_file::Position;

/// Threads at one time that can be followed. Untouched slots cost address space only.
const SLOTS: usize = 65_536;

/// Widest access of any guest, in bytes, as QEMU splits them.
const WIDEST: u64 = 16;

/// The version of the interface, which QEMU checks before it calls anything.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub(super) static qemu_plugin_version: c_int = VERSION;

static SESSION: OnceLock<(Qemu, Session)> = OnceLock::new();
static THREADS: [AtomicPtr<Buffer>; SLOTS] = [const { AtomicPtr::new(null_mut()) }; SLOTS];
/// One more than the highest slot in use.
static USED: AtomicU32 = AtomicU32::new(0);
/// The number of the engine's latest pace: threads that keep to another one have to ask.
static PACE: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The guest thread that last asked to fork on this host thread.
    static FORKING_THREAD: Cell<c_uint> = const { Cell::new(0) };
}

struct Buffer {
    /// What the system call that runs has the kernel do.
    work: Work,
    sieve: Sieve,
    thread: Thread,
    position: Position,
}

/// QEMU loads the plug-in. Returns 0, or -1 when it cannot work, having said why.
///
/// # Safety
/// To be called by QEMU only: `info` and `argc` words at `argv` as its interface says.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU gives valid pointers, `argc` terminated words among them.
    let (target, system, words) = unsafe {
        let (target, system) = (*info).target();
        let words: Vec<_> = (0..usize::try_from(argc).unwrap_or(0))
            .map(|at| CStr::from_ptr(*argv.add(at)).to_string_lossy())
            .collect();
        (target, system, words)
    };
    match install(id, &target, system, words.iter().map(AsRef::as_ref)) {
        Ok(()) => 0,
        Err(message) => {
            eprintln!("corun: {message}");
            -1
        }
    }
}

fn install<'a>(
    id: Id,
    target: &str,
    system: bool,
    words: impl Iterator<Item = &'a str>,
) -> Result<(), String> {
    if system {
        return Err("the tracer works in QEMU's user mode only".to_owned());
    }
    let mut options = PluginOptions::parse(words).map_err(|error| error.to_string())?;
    options.key = std::env::var(key_variable(&options.report)).unwrap_or_default();
    let qemu = Qemu::find().ok_or("this QEMU lacks functions of plug-in interface 1")?;
    if let Some(signals) = options.blocked_signals {
        // They were all held back while the program before executed this one.
        block_signals(signals);
    }
    if options.idle {
        qemu.register(id, translated_idle, None, ended_idle);
    } else {
        qemu.register(id, translated, Some((syscall, syscall_returned)), ended);
        at_fork(fork_begins, fork_ended, forked);
    }
    let folder = options.report.display().to_string();
    let session = Session::new(options, target).map_err(|error| format!("{folder}: {error}"))?;
    let is_recorded = !session.is_idle();
    SESSION.set((qemu, session)).map_err(|_| "the plug-in is loaded twice".to_owned())?;
    if is_recorded {
        // Elsewhere a fatal signal leaves the last report of those that are written now and then.
        divert_kill(ended_by_signal);
    }
    Ok(())
}

extern "C" fn translated(_: Id, block: *mut c_void) {
    let Some((qemu, session)) = SESSION.get() else { return };
    // SAFETY: QEMU handed it to this callback.
    let block = unsafe { qemu.guest_block(block) };
    let instructions: Vec<GuestInstruction> = (0..block.len())
        .map(|index| {
            let (address, bytes) = block.instruction(index);
            GuestInstruction { address, bytes }
        })
        .collect();
    let Some(watched) = session.translate(&instructions, block.guest_base()) else { return };
    block.on_run(block_runs, watched.tag.word() as usize);
    for (index, touches) in watched.touches_memory.iter().enumerate() {
        match *touches {
            Touch::No => {}
            Touch::Loads(bytes) => block.on_access(index, load, place(index, bytes)),
            Touch::Stores(bytes) => block.on_access(index, store, place(index, bytes)),
            Touch::Any if session.counts_accesses() => {
                block.on_access(index, counted_access, index);
            }
            Touch::Any => block.on_access(index, access, place(index, WIDEST as u8)),
        }
    }
}

extern "C" fn translated_idle(_: Id, block: *mut c_void) {
    let Some((qemu, _)) = SESSION.get() else { return };
    // SAFETY: QEMU handed it to this callback.
    let block: GuestBlock<'_> = unsafe { qemu.guest_block(block) };
    for index in 0..block.len() {
        block.on_access(index, nothing, 0);
    }
}

extern "C" fn nothing(_: c_uint, _: c_uint, _: u64, _: *mut c_void) {}

extern "C" fn ended_idle(_: Id, _: *mut c_void) {}

/// The buffer of a guest thread.
///
/// # Safety
/// To be called by the host thread that runs this guest thread, and not twice at a time.
#[inline]
unsafe fn buffer<'a>(thread: c_uint) -> Option<&'a mut Buffer> {
    let slot = THREADS.get(thread as usize)?;
    // SAFETY: buffers are never freed, and only this host thread uses this one.
    unsafe { slot.load(Ordering::Relaxed).as_mut() }
}

/// The buffer of a thread that begins; `None` where it cannot be followed.
///
/// # Safety
/// As of [`buffer`].
#[cold]
unsafe fn new_buffer<'a>(thread: c_uint) -> Option<&'a mut Buffer> {
    let (_, session) = SESSION.get()?;
    let Some(slot) = THREADS.get(thread as usize) else {
        session.thread_lost();
        return None;
    };
    let buffer = Buffer {
        work: Work::Other,
        sieve: Sieve::new(session.pace()),
        thread: Thread::new(),
        position: Position::default(),
    };
    slot.store(Box::into_raw(Box::new(buffer)), Ordering::Release);
    USED.fetch_max(thread + 1, Ordering::Relaxed);
    // SAFETY: as the caller promises.
    unsafe { self::buffer(thread) }
}

#[cold]
#[inline(never)]
fn flush(buffer: &mut Buffer) {
    let Some((_, session)) = SESSION.get() else { return };
    let verdict = session.flush(&mut buffer.thread, &mut buffer.position, &mut buffer.sieve);
    PACE.fetch_max(buffer.sieve.pace_number(), Ordering::Relaxed);
    if verdict == Verdict::Stop {
        end_process();
    }
}

extern "C" fn block_runs(thread: c_uint, tag: *mut c_void) {
    // SAFETY: QEMU calls from the thread's own host thread.
    let Some(buffer) = (unsafe { buffer(thread).or_else(|| new_buffer(thread)) }) else { return };
    let tag = BlockTag::from_word(tag.addr() as u64);
    let newest = PACE.load(Ordering::Relaxed);
    if !buffer.sieve.sums_up(tag) || buffer.sieve.pace_number() < newest {
        collect(buffer, tag, newest);
    }
}

#[inline(never)]
fn collect(buffer: &mut Buffer, tag: BlockTag, newest_pace: u32) {
    if buffer.sieve.collect(tag) || buffer.sieve.pace_number() < newest_pace {
        flush(buffer);
    }
}

/// Which instruction of its block, and the most bytes it touches, as one word.
fn place(index: usize, bytes: u8) -> usize {
    index << 8 | usize::from(bytes)
}

extern "C" fn load(thread: c_uint, info: c_uint, address: u64, place: *mut c_void) {
    known_access::<false>(thread, info, address, place.addr());
}

extern "C" fn store(thread: c_uint, info: c_uint, address: u64, place: *mut c_void) {
    known_access::<true>(thread, info, address, place.addr());
}

extern "C" fn access(thread: c_uint, info: c_uint, address: u64, place: *mut c_void) {
    // SAFETY: QEMU calls from the thread's own host thread.
    let Some(buffer) = (unsafe { buffer(thread) }) else { return };
    let Some((qemu, _)) = SESSION.get() else { return };
    let store = qemu.is_store(info);
    if !passes_over(buffer, address, place.addr(), store) {
        touched(buffer, info, address, place.addr(), store);
    }
}

/// An access of code that is not decoded: only QEMU knows what it is, and it is counted here.
extern "C" fn counted_access(thread: c_uint, info: c_uint, address: u64, index: *mut c_void) {
    // SAFETY: QEMU calls from the thread's own host thread.
    let Some(buffer) = (unsafe { buffer(thread) }) else { return };
    let Some((qemu, _)) = SESSION.get() else { return };
    let (word, index, store) = (address / WORD_BYTES, index.addr() as u32, qemu.is_store(info));
    if buffer.sieve.counted_access(word, index, store) {
        flush(buffer);
    }
    if may_cross(address, WIDEST) {
        touches_next(buffer, info, address, index, store);
    }
}

/// An access of an instruction of which the decoder knows all but the address.
#[inline(always)]
fn known_access<const STORE: bool>(thread: c_uint, info: c_uint, address: u64, place: usize) {
    // SAFETY: QEMU calls from the thread's own host thread.
    let Some(buffer) = (unsafe { buffer(thread) }) else { return };
    if !passes_over(buffer, address, place, STORE) {
        touched(buffer, info, address, place, STORE);
    }
}

#[inline(always)]
fn may_cross(address: u64, most_bytes: u64) -> bool {
    address % LINE_BYTES + most_bytes > LINE_BYTES
}

/// Does all that this access can touch need no look?
#[inline(always)]
fn passes_over(buffer: &Buffer, address: u64, place: usize, store: bool) -> bool {
    buffer.sieve.passes_over(address / LINE_BYTES, store)
        && !may_cross(address, (place & 0xff) as u64)
}

/// Loads and stores are counted by block, so that the order of lines is all that matters.
#[inline(never)]
fn touched(buffer: &mut Buffer, info: c_uint, address: u64, place: usize, store: bool) {
    let index = (place >> 8) as u32;
    if buffer.sieve.access(address / WORD_BYTES, index, store) {
        flush(buffer);
    }
    if may_cross(address, (place & 0xff) as u64) {
        touches_next(buffer, info, address, index, store);
    }
}

/// QEMU may have split the access: only it knows whether this part reaches the next line.
#[cold]
fn touches_next(buffer: &mut Buffer, info: c_uint, address: u64, index: u32, store: bool) {
    let Some((qemu, _)) = SESSION.get() else { return };
    let crosses = may_cross(address, qemu.access_bytes(info));
    let next_line = (address / LINE_BYTES + 1) * (LINE_BYTES / WORD_BYTES);
    if crosses && buffer.sieve.access(next_line, index, store) {
        flush(buffer);
    }
}

extern "C" fn syscall(
    _: Id,
    thread: c_uint,
    number: i64,
    first: u64,
    second: u64,
    third: u64,
    fourth: u64,
    fifth: u64,
    _: u64,
    _: u64,
    _: u64,
) {
    let Some((_, session)) = SESSION.get() else { return };
    let call = session.call(number, first);
    // SAFETY: QEMU calls from the thread's own host thread.
    if let Some(buffer) = unsafe { buffer(thread) } {
        buffer.work = session.kernel_begins(number, [first, second, third, fourth, fifth]);
        if call == Call::Other && buffer.work.changes_memory() {
            // What was touched before comes before.
            flush(buffer);
        }
    }
    if call == Call::Other {
        return;
    }
    // SAFETY: QEMU calls from the thread's own host thread.
    if let Some(buffer) = unsafe { buffer(thread) } {
        flush(buffer);
    }
    match call {
        Call::Fork => FORKING_THREAD.set(thread),
        Call::Exec => session.executes(number, [first, second, third, fourth, fifth]),
        Call::Signal => session.signals(),
        Call::Exit | Call::Other => {}
    }
}

extern "C" fn syscall_returned(_: Id, thread: c_uint, number: i64, result: i64) {
    let Some((_, session)) = SESSION.get() else { return };
    session.call_returned(number);
    // SAFETY: QEMU calls from the thread's own host thread.
    if let Some(buffer) = unsafe { buffer(thread) } {
        let work = std::mem::replace(&mut buffer.work, Work::Other);
        if session.kernel_returned(work, result) {
            buffer.sieve.forget_pages();
        }
    }
}

extern "C" fn fork_begins() {
    if let Some((_, session)) = SESSION.get() {
        session.fork_begins();
    }
}

extern "C" fn fork_ended() {
    if let Some((_, session)) = SESSION.get() {
        session.fork_ended();
    }
}

/// In a forked child, whose only thread this is.
extern "C" fn forked() {
    let Some((_, session)) = SESSION.get() else { return };
    let own = FORKING_THREAD.get();
    for (thread, slot) in THREADS.iter().enumerate().take(USED.load(Ordering::Relaxed) as usize) {
        if thread != own as usize {
            // The buffer of a thread of the parent; where it was copied in mid-flight does not
            // matter if nobody looks.
            slot.store(null_mut(), Ordering::Relaxed);
        }
    }
    session.forked();
    // SAFETY: this is the only thread.
    if let Some(buffer) = unsafe { buffer(own) } {
        buffer.sieve.set_pace(session.pace());
    }
}

extern "C" fn ended(_: Id, _: *mut c_void) {
    let Some((_, session)) = SESSION.get() else { return };
    flush_only_thread();
    session.ended();
}

fn ended_by_signal() {
    let Some((_, session)) = SESSION.get() else { return };
    if session.is_free() {
        flush_only_thread();
        session.ended_by_signal();
    }
}

/// Hands in what the last thread has collected, where there is no other.
fn flush_only_thread() {
    // A single thread has stopped, as this runs in its place. Of several, others may still be
    // running: what they have not handed in is lost, at most a batch each.
    let mut buffers = THREADS[..USED.load(Ordering::Relaxed) as usize]
        .iter()
        .map(|slot| slot.load(Ordering::Relaxed))
        .filter(|buffer| !buffer.is_null());
    if let (Some(only), None) = (buffers.next(), buffers.next()) {
        // SAFETY: buffers are never freed, and this is the only thread's that this process had.
        flush(unsafe { &mut *only });
    }
}
