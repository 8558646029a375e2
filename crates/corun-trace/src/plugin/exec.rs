//! A program that executes another one: the call's arguments, read from the guest's memory, and
//! the command line that runs the other one under the same emulator and plug-in.
//!
//! QEMU would start it natively, unseen.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::host::{self, IgnoredHandlers, Signals, read_own_memory};
use super::options::PluginOptions;
use super::syscalls::ExecCall;
use crate::TraceError;
use crate::control::Control;
use crate::emulator::{Invocation, arguments};
use crate::program::{Program, resolve_file};
use crate::report::CONTROL;
use crate::report_folder::key_variable;

/// Set-user-ID and set-group-ID: who gains rights by them loses them under an emulator.
const SET_ID: u32 = 0o6000;

/// Bytes of a page of any host, or a part of one.
const PAGE: u64 = 4096;

/// The guest's memory, as far as it must be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct GuestMemory {
    /// Where the guest's address 0 lies in this process.
    pub(super) base: u64,
    /// Bytes of a pointer, little-endian.
    pub(super) pointer_bytes: usize,
}

/// What to do about an execution.
pub(super) enum Plan {
    /// The kernel will refuse it.
    Refused,
    /// It works natively alone.
    Native,
    /// Replace the emulator by another one.
    Follow(Follow),
}

/// An emulator to become.
pub(super) struct Follow {
    emulator: CString,
    words: Vec<CString>,
    environment: Vec<CString>,
    ignored: Signals,
}

impl Follow {
    /// Becomes it; comes back only when that fails.
    pub(super) fn execute(&self) {
        // The program ignores them, and its emulator has a handler of its own in their place, which
        // no execution hands on.
        let _ignored = IgnoredHandlers::of(self.ignored);
        host::execute(&self.emulator, &self.words, &self.environment);
    }
}

/// What a process must know to follow.
#[derive(Debug)]
pub(super) struct Follower {
    /// The running emulator's file.
    pub(super) emulator: PathBuf,
    /// How it was started.
    pub(super) invocation: Invocation,
    /// The signals that the program was started with ignored.
    pub(super) ignored: Signals,
}

impl Follower {
    /// What this process is; `None` where /proc does not tell.
    pub(super) fn of_this_process() -> Option<Self> {
        let emulator = std::env::current_exe().ok()?;
        let mut invocation = Invocation::parse(&std::fs::read("/proc/self/cmdline").ok()?)?;
        // The program may change its folder.
        invocation.plugin = std::path::absolute(&invocation.plugin).ok()?;
        invocation.binary = std::fs::canonicalize(&invocation.binary).ok()?;
        // QEMU looks at them and puts its handlers there after it has loaded its plug-ins.
        Some(Self { emulator, invocation, ignored: host::ignored_signals() })
    }

    /// What to do about this call.
    pub(super) fn plan(
        &self,
        memory: GuestMemory,
        call: ExecCall,
        options: &PluginOptions,
    ) -> Plan {
        let Ok(wanted) = Wanted::read(memory, call) else { return Plan::Refused };
        let path = if wanted.path == Path::new("/proc/self/exe") {
            self.invocation.binary.clone()
        } else {
            wanted.path
        };
        let program = match resolve_file(path, &wanted.words) {
            Ok(program) => program,
            Err(
                TraceError::NotFound { .. }
                | TraceError::Directory { .. }
                | TraceError::NotExecutable { .. },
            ) => return Plan::Refused,
            Err(_) => return Plan::Native,
        };
        if gains_rights(&program.binary) {
            return Plan::Native;
        }
        self.follow(&program, options, wanted.environment).map_or(Plan::Native, Plan::Follow)
    }

    /// Can whoever this process is now, and below its root folder, use what a recorded program needs? Without that the
    /// program would not start.
    fn can_be_followed(&self, options: &PluginOptions) -> bool {
        accessat(CWD, &self.emulator, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
            && File::open(&self.invocation.plugin).is_ok()
            && Control::open(&options.reports().join(CONTROL)).is_ok()
    }

    fn follow(
        &self,
        program: &Program,
        options: &PluginOptions,
        environment: Vec<OsString>,
    ) -> Option<Follow> {
        if !self.can_be_followed(options) {
            return None;
        }
        let same = self.emulator.file_name() == Some(OsStr::new(program.qemu));
        let emulator = if same {
            self.emulator.clone()
        } else {
            Some(self.emulator.with_file_name(program.qemu)).filter(|file| file.is_file())?
        };
        // What is meant for the program's dynamic loader must not reach the emulator's. (QEMU
        // takes commas in such a variable for separators.)
        let (for_loader, environment): (Vec<_>, Vec<_>) =
            environment.into_iter().partition(|variable| {
                let bytes = variable.as_bytes();
                bytes.starts_with(b"LD_") && bytes.contains(&b'=') && !bytes.contains(&b',')
            });
        let cpu = self.invocation.cpu.as_deref().filter(|_| same);
        let own = emulator.clone().into_os_string();
        let words = std::iter::once(own).chain(arguments(
            &self.invocation.plugin,
            cpu,
            options,
            &for_loader,
            program,
        ));
        Some(Follow {
            emulator: terminated(emulator.into_os_string())?,
            words: words.map(terminated).collect::<Option<_>>()?,
            environment: environment
                .into_iter()
                .chain([format!("{}={}", key_variable(&options.report), options.key).into()])
                .map(terminated)
                .collect::<Option<_>>()?,
            ignored: self.ignored,
        })
    }
}

fn terminated(text: OsString) -> Option<CString> {
    CString::new(text.into_vec()).ok()
}

/// Does executing this file give rights that the caller lacks?
fn gains_rights(path: &Path) -> bool {
    let set_id = std::fs::metadata(path).is_ok_and(|about| about.mode() & SET_ID != 0);
    let mut capabilities = [0u8; 64];
    set_id || rustix::fs::getxattr(path, "security.capability", &mut capabilities).is_ok()
}

/// An execution's arguments.
struct Wanted {
    path: PathBuf,
    words: Vec<OsString>,
    environment: Vec<OsString>,
}

impl Wanted {
    fn read(memory: GuestMemory, call: ExecCall) -> io::Result<Self> {
        Ok(Self {
            path: memory.text(call.path)?.into(),
            words: memory.texts(call.words)?,
            environment: memory.texts(call.environment)?,
        })
    }
}

impl GuestMemory {
    /// Reads as many bytes as asked for.
    fn exactly(self, address: u64, into: &mut [u8]) -> io::Result<()> {
        let read = read_own_memory(self.base.wrapping_add(address), into)?;
        if read == into.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// A text up to its zero.
    fn text(self, mut address: u64) -> io::Result<OsString> {
        let mut text = Vec::new();
        loop {
            let mut part = vec![0; (PAGE - address % PAGE) as usize];
            self.exactly(address, &mut part)?;
            address += part.len() as u64;
            if let Some(end) = part.iter().position(|&byte| byte == 0) {
                text.extend(&part[..end]);
                return Ok(OsString::from_vec(text));
            }
            text.extend(part);
        }
    }

    /// The texts of a list of pointers up to its null pointer; a null list is empty.
    fn texts(self, list: u64) -> io::Result<Vec<OsString>> {
        let mut texts = Vec::new();
        if list == 0 {
            return Ok(texts);
        }
        for address in (list..).step_by(self.pointer_bytes) {
            let mut bytes = [0; 8];
            self.exactly(address, &mut bytes[..self.pointer_bytes])?;
            match u64::from_le_bytes(bytes) {
                0 => break,
                text => texts.push(self.text(text)?),
            }
        }
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_from_memory() {
        let long = vec![b'x'; 10_000];
        let texts = [CString::new("a").unwrap(), CString::new(long.clone()).unwrap()];
        let list: Vec<u64> =
            texts.iter().map(|text| text.as_ptr().addr() as u64).chain([0]).collect();
        let memory = GuestMemory { base: 16, pointer_bytes: 8 };
        let list = list.iter().map(|&at| if at == 0 { 0 } else { at - 16 }).collect::<Vec<_>>();
        let read = memory.texts(list.as_ptr().addr() as u64 - 16).unwrap();
        assert_eq!(read, [OsString::from("a"), OsString::from_vec(long)]);
        assert_eq!(memory.texts(0).unwrap(), Vec::<OsString>::new());
        assert!(memory.texts(8).is_err());
        assert!(memory.text(8).is_err());
    }
}
