//! bpf(2), as far as corun's programs need it.
#![allow(unsafe_code)] // bpf(2) and sched_setscheduler(2) for SCHED_EXT have no safe wrapper

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// A command's attributes (`union bpf_attr`): numbers at their offsets.
struct Attributes([u8; BYTES]);

const BYTES: usize = 160;

impl Attributes {
    fn new() -> Self {
        Self([0; BYTES])
    }

    fn with_u32(mut self, offset: usize, value: u32) -> Self {
        self.0[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn with_fd(self, offset: usize, fd: BorrowedFd<'_>) -> Self {
        self.with_u32(offset, fd.as_raw_fd() as u32)
    }

    fn with_pointer(mut self, offset: usize, pointer: *const u8) -> Self {
        self.0[offset..offset + 8].copy_from_slice(&(pointer as u64).to_ne_bytes());
        self
    }

    /// A name of at most 15 characters.
    fn with_name(mut self, offset: usize, name: &str) -> Self {
        let length = name.len().min(15);
        self.0[offset..offset + length].copy_from_slice(&name.as_bytes()[..length]);
        self
    }

    /// Makes the call. `command`: of `enum bpf_cmd`.
    ///
    /// # Safety
    /// Every pointer among the attributes points to as much memory as the command reads or writes there.
    unsafe fn call(mut self, command: libc::c_int) -> io::Result<libc::c_long> {
        // SAFETY: as the caller vouches for.
        unsafe { self.call_in_place(command) }
    }

    /// As [`Self::call`], where the kernel answers among the attributes.
    ///
    /// # Safety
    /// As [`Self::call`].
    unsafe fn call_in_place(&mut self, command: libc::c_int) -> io::Result<libc::c_long> {
        // SAFETY: the kernel reads and writes at most BYTES of the array, and what the caller vouches for.
        let answer =
            unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_mut_ptr(), BYTES as u32) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
    }
}

/// What the kernel answered is a new descriptor that is nobody else's.
fn owned(descriptor: libc::c_long) -> OwnedFd {
    // SAFETY: the kernel just made the descriptor for this call.
    unsafe { OwnedFd::from_raw_fd(descriptor as i32) }
}

/// What a map is made of.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MapAttributes<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: u32,
    pub(crate) key_bytes: u32,
    pub(crate) value_bytes: u32,
    pub(crate) max_entries: u32,
    pub(crate) flags: u32,
    /// A description of types, and in it those of key and value.
    pub(crate) types: Option<(BorrowedFd<'a>, u32, u32)>,
    /// The kernel's type of the value; 0: none.
    pub(crate) kernel_type: u32,
}

pub(crate) fn create_map(map: MapAttributes<'_>) -> io::Result<OwnedFd> {
    let mut attributes = Attributes::new()
        .with_u32(0, map.kind)
        .with_u32(4, map.key_bytes)
        .with_u32(8, map.value_bytes)
        .with_u32(12, map.max_entries)
        .with_u32(16, map.flags)
        .with_name(28, map.name)
        .with_u32(60, map.kernel_type);
    if let Some((types, key, value)) = map.types {
        attributes = attributes.with_fd(48, types).with_u32(52, key).with_u32(56, value);
    }
    // SAFETY: no attribute is a pointer.
    unsafe { attributes.call(0) }.map(owned)
}

/// Reads an entry's value into `value`; the map's key and value are of these sizes.
pub(crate) fn look_up(map: BorrowedFd<'_>, key: &[u8], value: &mut [u8]) -> io::Result<()> {
    let attributes = Attributes::new()
        .with_fd(0, map)
        .with_pointer(8, key.as_ptr())
        .with_pointer(16, value.as_mut_ptr());
    // SAFETY: the slices are of the map's sizes, as the caller says.
    unsafe { attributes.call(1) }.map(drop)
}

/// Sets an entry's value; the map's key and value are of these sizes.
pub(crate) fn update(map: BorrowedFd<'_>, key: &[u8], value: &[u8]) -> io::Result<()> {
    let attributes = Attributes::new()
        .with_fd(0, map)
        .with_pointer(8, key.as_ptr())
        .with_pointer(16, value.as_ptr());
    // SAFETY: the slices are of the map's sizes, as the caller says.
    unsafe { attributes.call(2) }.map(drop)
}

/// Takes an entry out of a map. The key is of the map's key's size.
pub(crate) fn delete(map: BorrowedFd<'_>, key: &[u8]) -> io::Result<()> {
    let attributes = Attributes::new().with_fd(0, map).with_pointer(8, key.as_ptr());
    // SAFETY: the slice is of the map's key's size, as the caller says.
    unsafe { attributes.call(3) }.map(drop)
}

/// Takes the oldest entry of a queue; none where there is none. The queue's value is of `value`'s size.
pub(crate) fn pop(map: BorrowedFd<'_>, value: &mut [u8]) -> io::Result<bool> {
    let attributes = Attributes::new().with_fd(0, map).with_pointer(16, value.as_mut_ptr());
    // SAFETY: a queue has no keys, and the slice is of its value's size, as the caller says.
    match unsafe { attributes.call(21) } {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The key after `key`, or the first one; none at the end. The map's key is of `next`'s size.
pub(crate) fn next_key(
    map: BorrowedFd<'_>,
    key: Option<&[u8]>,
    next: &mut [u8],
) -> io::Result<bool> {
    let key = key.map_or(std::ptr::null(), <[u8]>::as_ptr);
    let attributes =
        Attributes::new().with_fd(0, map).with_pointer(8, key).with_pointer(16, next.as_mut_ptr());
    // SAFETY: the slices are of the map's key's size, as the caller says.
    match unsafe { attributes.call(4) } {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The number of the kernel's next map after `number`; none at the end. The kernel has numbers from 1 on.
pub(crate) fn map_after(number: u32) -> io::Result<Option<u32>> {
    let mut attributes = Attributes::new().with_u32(0, number);
    // SAFETY: no attribute is a pointer.
    match unsafe { attributes.call_in_place(12) } {
        Ok(_) => Ok(Some(u32::from_ne_bytes(attributes.0[4..8].try_into().expect("four bytes")))),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A map of this number, which anybody may have made, to read it.
pub(crate) fn open_map(number: u32) -> io::Result<OwnedFd> {
    const READ_ONLY: u32 = 1 << 3;
    let attributes = Attributes::new().with_u32(0, number).with_u32(8, READ_ONLY);
    // SAFETY: no attribute is a pointer.
    unsafe { attributes.call(14) }.map(owned)
}

/// What a map is made of, as the kernel says it: its name, its kind, and the bytes of a key and of a value.
pub(crate) fn describe_map(map: BorrowedFd<'_>) -> io::Result<(String, [u32; 3])> {
    // `struct bpf_map_info` up to the name.
    let mut info = [0u8; 40];
    let attributes = Attributes::new()
        .with_fd(0, map)
        .with_u32(4, info.len() as u32)
        .with_pointer(8, info.as_mut_ptr());
    // SAFETY: the array is as long as told; its zeros ask for none of the lists that it could point to.
    unsafe { attributes.call(15) }?;
    let number = |offset: usize| {
        u32::from_ne_bytes(info[offset..offset + 4].try_into().expect("four bytes"))
    };
    let name = info[24..].split(|&byte| byte == 0).next().unwrap_or_default();
    Ok((String::from_utf8_lossy(name).into_owned(), [number(0), number(8), number(12)]))
}

/// What a program is loaded with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramAttributes<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: u32,
    pub(crate) instructions: &'a [u8],
    /// With a 0 at its end.
    pub(crate) license: &'a [u8],
    pub(crate) flags: u32,
    /// The kernel's struct whose member the program is, and the member's index.
    pub(crate) member: (u32, u32),
}

/// Loads a program; what the verifier says goes into `log`, where there is one.
pub(crate) fn load_program(
    program: ProgramAttributes<'_>,
    log: Option<&mut [u8]>,
) -> io::Result<OwnedFd> {
    assert_eq!(program.license.last(), Some(&0));
    let mut attributes = Attributes::new()
        .with_u32(0, program.kind)
        .with_u32(4, (program.instructions.len() / 8) as u32)
        .with_pointer(8, program.instructions.as_ptr())
        .with_pointer(16, program.license.as_ptr())
        .with_u32(44, program.flags)
        .with_name(48, program.name)
        .with_u32(68, program.member.1)
        .with_u32(108, program.member.0);
    if let Some(log) = log {
        attributes = attributes
            .with_u32(24, 1)
            .with_u32(28, log.len() as u32)
            .with_pointer(32, log.as_mut_ptr());
    }
    // SAFETY: the instructions, the license, which ends with 0, and the log are as long as told.
    unsafe { attributes.call(5) }.map(owned)
}

/// Loads a description of types.
pub(crate) fn load_types(types: &[u8]) -> io::Result<OwnedFd> {
    let attributes =
        Attributes::new().with_pointer(0, types.as_ptr()).with_u32(16, types.len() as u32);
    // SAFETY: the description is as long as told.
    unsafe { attributes.call(18) }.map(owned)
}

/// Puts a `struct_ops` map in force, as long as the answer is open.
pub(crate) fn attach(map: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    const BPF_STRUCT_OPS: u32 = 44;
    let attributes = Attributes::new().with_fd(0, map).with_u32(8, BPF_STRUCT_OPS);
    // SAFETY: no attribute is a pointer.
    unsafe { attributes.call(28) }.map(owned)
}

/// What a program at a tracepoint is to be attached to (`BPF_TRACE_RAW_TP`).
pub(crate) const TRACEPOINT: u32 = 23;

/// Has the kernel run a program at its tracepoint, as long as the answer is open.
pub(crate) fn attach_trace(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let attributes = Attributes::new().with_fd(0, program).with_u32(8, TRACEPOINT);
    // SAFETY: no attribute is a pointer.
    unsafe { attributes.call(28) }.map(owned)
}

/// What a program that is run for each of some things of the kernel's is to be attached to (`BPF_TRACE_ITER`).
pub(crate) const ITERATOR: u32 = 28;

/// Makes ready to run an iterator over tasks for the threads of the process that has this number then.
pub(crate) fn attach_iterator(program: BorrowedFd<'_>, pid: u32) -> io::Result<OwnedFd> {
    // `union bpf_iter_link_info`: a thread's number, a process's, a descriptor of either.
    let of: [u32; 4] = [0, pid, 0, 0];
    let attributes = Attributes::new()
        .with_fd(0, program)
        .with_u32(8, ITERATOR)
        .with_pointer(16, of.as_ptr().cast())
        .with_u32(24, size_of_val(&of) as u32);
    // SAFETY: the numbers are as many as told.
    unsafe { attributes.call(28) }.map(owned)
}

/// Begins to run an iterator: what its program writes can be read, once.
pub(crate) fn iterate(link: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let attributes = Attributes::new().with_fd(0, link);
    // SAFETY: no attribute is a pointer.
    unsafe { attributes.call(33) }.map(owned)
}

/// Runs a program of the kind `syscall` once; it reads and writes `context`.
pub(crate) fn run(program: BorrowedFd<'_>, context: &mut [u8]) -> io::Result<()> {
    let attributes = Attributes::new().with_fd(0, program).with_u32(40, context.len() as u32);
    // The kernel refuses a pointer to nothing.
    let attributes = match context {
        [] => attributes,
        context => attributes.with_pointer(48, context.as_mut_ptr()),
    };
    // SAFETY: the context is as long as told.
    unsafe { attributes.call(10) }.map(drop)
}

/// From now on the kernel counts how often each program runs and for how long, until the answer is closed.
pub(crate) fn count_run_time() -> io::Result<OwnedFd> {
    // SAFETY: no attribute is a pointer; the kind of statistics 0 is run time.
    unsafe { Attributes::new().call(32) }.map(owned)
}

/// How often a program ran and for how many nanoseconds in all, while that was counted.
pub(crate) fn run_time(program: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    // Of `struct bpf_prog_info` up to the two figures.
    let mut info = [0u8; 216];
    let attributes = Attributes::new()
        .with_fd(0, program)
        .with_u32(4, info.len() as u32)
        .with_pointer(8, info.as_mut_ptr());
    // SAFETY: the array is as long as told; its zeros ask for none of the lists that it could point to.
    unsafe { attributes.call(15) }?;
    let number = |offset: usize| {
        u64::from_ne_bytes(info[offset..offset + 8].try_into().expect("eight bytes"))
    };
    Ok((number(200), number(192)))
}

/// A descriptor of a thread (`pidfd_open` with `PIDFD_THREAD`, Linux 6.9).
pub(crate) fn thread_descriptor(tid: u32) -> io::Result<OwnedFd> {
    // SAFETY: no argument is a pointer.
    let answer =
        unsafe { libc::syscall(libc::SYS_pidfd_open, tid as libc::pid_t, libc::PIDFD_THREAD) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(owned(answer)) }
}

/// Sets a thread's scheduling policy, with a static priority of 0; `nice` stays.
pub(crate) fn set_policy(tid: u32, policy: i32) -> io::Result<()> {
    // The kernel's `struct sched_param`. musl's has more fields, and its functions for policies only fail.
    let priority: libc::c_int = 0;
    // SAFETY: the kernel reads one number.
    let answer = unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, tid as libc::pid_t, policy, &raw const priority)
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A thread's scheduling policy.
pub(crate) fn policy(tid: u32) -> io::Result<i32> {
    // SAFETY: no argument is a pointer.
    let answer = unsafe { libc::syscall(libc::SYS_sched_getscheduler, tid as libc::pid_t) };
    if answer >= 0 { Ok(answer as i32) } else { Err(io::Error::last_os_error()) }
}
