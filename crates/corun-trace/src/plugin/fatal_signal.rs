//! Hears of the signal that ends the program.
//!
//! QEMU's plug-in interface tells nothing of a fatal signal. When one has to end the program, QEMU gives the signal its
//! default action back and sends it to its own process with the C library's `kill`. [`divert_kill`] has QEMU call a
//! function of ours in place of `kill`, by the table of addresses through which QEMU calls its libraries.
#![allow(unsafe_code)] // Reads the tables that the dynamic loader keeps, and writes one entry of one of them.

use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `DT_*` of the ELF specification, and `PT_*` of program headers.
mod elf {
    pub(super) const DYNAMIC: u32 = 2;
    pub(super) const RELRO: u32 = 0x6474_e552;
    pub(super) const PLT_BYTES: u64 = 2;
    pub(super) const STRINGS: u64 = 5;
    pub(super) const SYMBOLS: u64 = 6;
    pub(super) const RELA: u64 = 7;
    pub(super) const RELA_BYTES: u64 = 8;
    pub(super) const PLT_KIND: u64 = 20;
    pub(super) const PLT: u64 = 23;
}

/// An entry of the dynamic section.
#[repr(C)]
struct DynamicEntry {
    tag: u64,
    value: u64,
}

/// A relocation with an addend.
#[repr(C)]
#[derive(Clone, Copy)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// Signals whose default action does not end a process: it ignores them, or they stop it or let it go on.
const NOT_FATAL: [c_int; 8] = [
    libc::SIGCHLD,
    libc::SIGCONT,
    libc::SIGURG,
    libc::SIGWINCH,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

static BEFORE_DEATH: OnceLock<fn()> = OnceLock::new();

/// Has `before_death` called when QEMU is about to end this process by a signal, in the thread that ends it. Returns
/// whether that can be done here: QEMU must call `kill` through a table as 64-bit Linux has it.
pub(super) fn divert_kill(before_death: fn()) -> bool {
    if size_of::<usize>() != size_of::<u64>() || BEFORE_DEATH.set(before_death).is_err() {
        return false;
    }
    let Some(program) = LoadedProgram::of_this_process() else { return false };
    let slots = program.slots_of(c"kill");
    slots.iter().filter(|&&slot| program.set_slot(slot, kill as *const () as usize)).count() > 0
}

/// What QEMU calls in place of the C library's `kill`.
extern "C" fn kill(process: libc::pid_t, signal: c_int) -> c_int {
    // SAFETY: getpid has no conditions.
    if process == unsafe { libc::getpid() }
        && is_fatal(signal)
        && let Some(before_death) = BEFORE_DEATH.get()
    {
        before_death();
    }
    // SAFETY: as the caller asked for. This call goes by the plug-in's own table.
    unsafe { libc::kill(process, signal) }
}

/// Does this signal end the process as it is set up now? One that the program itself may handle has QEMU's handler.
fn is_fatal(signal: c_int) -> bool {
    if signal == 0 || NOT_FATAL.contains(&signal) {
        return false;
    }
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: sigaction changes nothing, and fills the action in where it succeeds.
    unsafe {
        libc::sigaction(signal, null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_DFL
    }
}

/// The program of this process as the dynamic loader has mapped it.
struct LoadedProgram {
    base: u64,
    dynamic: *const DynamicEntry,
    /// What the loader made read-only when it had written the addresses: begin and end.
    read_only: Option<(u64, u64)>,
}

impl LoadedProgram {
    /// None in a program that is linked statically.
    fn of_this_process() -> Option<Self> {
        extern "C" fn first(
            info: *mut libc::dl_phdr_info,
            _: libc::size_t,
            found: *mut c_void,
        ) -> c_int {
            // SAFETY: the loader gives a valid description, whose headers stay mapped; `found` is the option below.
            unsafe {
                let (info, found) = (&*info, &mut *found.cast::<Option<LoadedProgram>>());
                let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
                let base = info.dlpi_addr;
                let at = |header: &libc::Elf64_Phdr| base + header.p_vaddr;
                let of = |kind: u32| headers.iter().find(move |one| one.p_type == kind);
                *found = of(elf::DYNAMIC).map(|header| LoadedProgram {
                    base,
                    dynamic: at(header) as usize as *const DynamicEntry,
                    read_only: of(elf::RELRO).map(|one| (at(one), at(one) + one.p_memsz)),
                });
            }
            // The program itself comes first; its libraries do not matter.
            1
        }
        let mut found: Option<Self> = None;
        // SAFETY: the callback keeps to what it is given.
        unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut found).cast()) };
        found
    }

    /// An entry of the dynamic section.
    fn dynamic(&self, tag: u64) -> Option<u64> {
        for index in 0.. {
            // SAFETY: the section ends with an entry of tag 0.
            let entry = unsafe { &*self.dynamic.add(index) };
            match entry.tag {
                0 => return None,
                found if found == tag => return Some(entry.value),
                _ => {}
            }
        }
        None
    }

    /// An address in the dynamic section; some loaders leave them as they are in the file.
    fn address(&self, tag: u64) -> Option<u64> {
        let value = self.dynamic(tag)?;
        Some(if value < self.base { value + self.base } else { value })
    }

    /// Where the addresses of an imported function stand.
    fn slots_of(&self, function: &CStr) -> Vec<u64> {
        let (Some(symbols), Some(strings)) =
            (self.address(elf::SYMBOLS), self.address(elf::STRINGS))
        else {
            return Vec::new();
        };
        let plt_is_rela = self.dynamic(elf::PLT_KIND) == Some(elf::RELA);
        let plt = self.address(elf::PLT).zip(self.dynamic(elf::PLT_BYTES));
        let other = self.address(elf::RELA).zip(self.dynamic(elf::RELA_BYTES));
        let tables = plt.filter(|_| plt_is_rela).into_iter().chain(other);
        let relocations = tables.flat_map(|(at, bytes)| {
            let count = bytes as usize / size_of::<Relocation>();
            // SAFETY: the dynamic section says that so many relocations are mapped there.
            unsafe { std::slice::from_raw_parts(at as usize as *const Relocation, count) }
        });
        let names_function = |one: &&Relocation| {
            let symbol = one.info >> 32;
            // SAFETY: a relocation names a symbol of the table, and that a terminated name; no symbol is number 0.
            symbol != 0
                && unsafe {
                    let symbol =
                        &*(symbols as usize as *const libc::Elf64_Sym).add(symbol as usize);
                    let name = strings as usize + symbol.st_name as usize;
                    CStr::from_ptr(name as *const _) == function
                }
        };
        relocations.filter(names_function).map(|one| self.base + one.offset).collect()
    }

    /// Writes a function's address into a slot, which may be read-only.
    fn set_slot(&self, slot: u64, function: usize) -> bool {
        let is_read_only = self.read_only.is_some_and(|(begin, end)| (begin..end).contains(&slot));
        // SAFETY: sysconf has no conditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let first = (slot as usize / page * page) as *mut c_void;
        // SAFETY: the page is the program's own; its other entries stay as they are.
        if is_read_only
            && unsafe { libc::mprotect(first, page, libc::PROT_READ | libc::PROT_WRITE) } != 0
        {
            return false;
        }
        // SAFETY: a slot is an aligned word of this process that nothing but calls through it read.
        let word = unsafe { AtomicUsize::from_ptr(slot as usize as *mut usize) };
        word.store(function, Ordering::Release);
        if is_read_only {
            // SAFETY: as above.
            unsafe { libc::mprotect(first, page, libc::PROT_READ) };
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_fatal_by_its_action() {
        assert!(is_fatal(libc::SIGTERM));
        // 0 asks whether a process is there; no signal has the number 99.
        for signal in NOT_FATAL.into_iter().chain([0, 99]) {
            assert!(!is_fatal(signal), "{signal}");
        }
    }

    #[test]
    fn the_table_holds_the_functions_that_the_loader_finds() {
        let program = LoadedProgram::of_this_process().unwrap();
        let slots = program.slots_of(c"getpid");
        assert!(!slots.is_empty());
        // SAFETY: the name is terminated.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"getpid".as_ptr()) };
        for slot in slots {
            // SAFETY: a slot is an aligned word of this process.
            let word = unsafe { AtomicUsize::from_ptr(slot as usize as *mut usize) };
            assert_eq!(word.load(Ordering::Relaxed), found.addr());
            assert!(program.set_slot(slot, found.addr()));
        }
        assert!(program.slots_of(c"no_such_function").is_empty());
    }
}
