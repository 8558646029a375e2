//! What kind of program a command names, and which emulator runs it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use crate::{TraceError, elf};

/// A command, resolved: what QEMU is told to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// Name of the emulator, such as `qemu-x86_64`.
    pub(crate) qemu: &'static str,
    /// The ELF file.
    pub(crate) binary: PathBuf,
    /// The word it is called by.
    pub(crate) called: OsString,
    pub(crate) arguments: Vec<OsString>,
}

/// Scripts whose interpreters are scripts, at most; the kernel's own limit.
const DEPTH: usize = 4;

/// Resolves a command as a shell and the kernel would.
pub(crate) fn resolve(command: &[OsString], path: &OsStr) -> Result<Program, TraceError> {
    let called = command.first().ok_or(TraceError::NoCommand)?;
    resolve_file(locate(called, path)?, command)
}

/// Resolves a file, called with these words, as the kernel would. (An empty list stands for one
/// empty word.)
pub(crate) fn resolve_file(
    mut binary: PathBuf,
    command: &[OsString],
) -> Result<Program, TraceError> {
    let (mut called, mut arguments) = match command.split_first() {
        Some((called, arguments)) => (called.clone(), arguments.to_vec()),
        None => (OsString::new(), Vec::new()),
    };
    check(&binary)?;
    for _ in 0..DEPTH {
        let head = head(&binary)?;
        if let Some(rest) = head.strip_prefix(b"#!") {
            let (interpreter, argument) = script(rest);
            arguments.insert(0, binary.clone().into_os_string());
            if let Some(argument) = argument {
                arguments.insert(0, argument);
            }
            if interpreter.is_empty() {
                return Err(TraceError::NotAProgram { path: binary });
            }
            binary = check(Path::new(&interpreter))?;
            called = interpreter;
            continue;
        }
        let qemu = elf_emulator(&head, &binary)?;
        return Ok(Program { qemu, binary, called, arguments });
    }
    Err(TraceError::NotAProgram { path: binary })
}

/// Finds a program as a shell does.
fn locate(name: &OsStr, path: &OsStr) -> Result<PathBuf, TraceError> {
    if name.as_bytes().contains(&b'/') {
        return check(Path::new(name));
    }
    let mut found = None;
    for folder in std::env::split_paths(path) {
        let candidate = folder.join(name);
        match check(&candidate) {
            Ok(path) => return Ok(path),
            Err(error @ TraceError::NotExecutable { .. }) => found = found.or(Some(error)),
            Err(_) => {}
        }
    }
    Err(found.unwrap_or_else(|| TraceError::NotFound { program: lossy(name) }))
}

fn check(path: &Path) -> Result<PathBuf, TraceError> {
    let Ok(about) = fs::metadata(path) else {
        return Err(TraceError::NotFound { program: lossy(path.as_os_str()) });
    };
    if about.is_dir() {
        return Err(TraceError::Directory { path: path.to_owned() });
    }
    if rustix::fs::access(path, Access::EXEC_OK).is_err() {
        return Err(TraceError::NotExecutable { path: path.to_owned() });
    }
    Ok(path.to_owned())
}

fn lossy(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

fn head(path: &Path) -> Result<Vec<u8>, TraceError> {
    let failed = |source| TraceError::Io { path: path.to_owned(), source };
    let mut head = Vec::new();
    File::open(path).map_err(failed)?.take(256).read_to_end(&mut head).map_err(failed)?;
    Ok(head)
}

/// Interpreter and its one argument, as the kernel splits a script's first line.
fn script(rest: &[u8]) -> (OsString, Option<OsString>) {
    let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (interpreter, argument) = line.split_at(end);
    let argument = argument.trim_ascii();
    let word = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    (word(interpreter), (!argument.is_empty()).then(|| word(argument)))
}

/// The emulator for an ELF file that begins like this.
fn elf_emulator(head: &[u8], path: &Path) -> Result<&'static str, TraceError> {
    let machine =
        elf_machine(head).ok_or_else(|| TraceError::NotAProgram { path: path.to_owned() })?;
    let qemu = emulator(machine)
        .ok_or_else(|| TraceError::UnknownMachine { path: path.to_owned(), machine: machine.0 })?;
    let loader = elf::loader(path)?;
    if let Some(loader) = loader.filter(|loader| !is_there(loader, qemu)) {
        return Err(TraceError::NoLoader { path: path.to_owned(), loader });
    }
    Ok(qemu)
}

/// Is a dynamic loader where the emulator will look for it: below the folders for foreign
/// programs, or where its name says?
fn is_there(loader: &Path, qemu: &str) -> bool {
    let target = qemu.trim_start_matches("qemu-");
    let below = loader.strip_prefix("/").unwrap_or(loader);
    let folders = [
        std::env::var_os("QEMU_LD_PREFIX").map(PathBuf::from),
        Some(Path::new("/etc/qemu-binfmt").join(target)),
        Some(PathBuf::from(format!("/usr/gnemul/{qemu}"))),
    ];
    loader.exists() || folders.into_iter().flatten().any(|folder| folder.join(below).exists())
}

/// Machine, 64 bits?, big-endian? from an ELF header.
fn elf_machine(head: &[u8]) -> Option<(u16, bool, bool)> {
    if !head.starts_with(b"\x7fELF") || head.len() < 20 {
        return None;
    }
    let big = head[5] == 2;
    let bytes = [head[18], head[19]];
    let machine = if big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) };
    Some((machine, head[4] == 2, big))
}

/// QEMU's user-mode emulator for an ELF machine.
fn emulator((machine, wide, big): (u16, bool, bool)) -> Option<&'static str> {
    Some(match (machine, wide, big) {
        (62, ..) => "qemu-x86_64",
        (3, ..) => "qemu-i386",
        (183, _, false) => "qemu-aarch64",
        (183, _, true) => "qemu-aarch64_be",
        (40, _, false) => "qemu-arm",
        (40, _, true) => "qemu-armeb",
        (243, true, _) => "qemu-riscv64",
        (243, false, _) => "qemu-riscv32",
        (21, _, false) => "qemu-ppc64le",
        (21, _, true) => "qemu-ppc64",
        (20, ..) => "qemu-ppc",
        (22, ..) => "qemu-s390x",
        (258, ..) => "qemu-loongarch64",
        (8, true, false) => "qemu-mips64el",
        (8, true, true) => "qemu-mips64",
        (8, false, false) => "qemu-mipsel",
        (8, false, true) => "qemu-mips",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(folder: &Path, name: &str, content: &[u8], mode: u32) -> OsString {
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.into_os_string()
    }

    /// A whole 64-bit program of that machine with one segment to load.
    fn elf(machine: u16) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        file.extend(2u16.to_le_bytes());
        file.extend(machine.to_le_bytes());
        file.extend(1u32.to_le_bytes());
        // Entry, program headers, section headers; flags; sizes and counts.
        for value in [0x1000u64, 64, 0] {
            file.extend(value.to_le_bytes());
        }
        file.extend(0u32.to_le_bytes());
        for value in [64u16, 56, 1, 64, 0, 0] {
            file.extend(value.to_le_bytes());
        }
        // PT_LOAD, readable and executable: offset, addresses, sizes, alignment.
        file.extend(1u32.to_le_bytes());
        file.extend(5u32.to_le_bytes());
        for value in [0u64, 0x1000, 0x1000, 120, 120, 0x1000] {
            file.extend(value.to_le_bytes());
        }
        file
    }

    #[test]
    fn an_elf_file_by_path_and_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(folder.path(), "tool", &elf(62), 0o755);
        let found = resolve(&[path.clone(), "-x".into()], OsStr::new("")).unwrap();
        assert_eq!((found.qemu, found.arguments), ("qemu-x86_64", vec!["-x".into()]));
        let found = resolve(&["tool".into()], folder.path().as_os_str()).unwrap();
        assert_eq!(found.binary, PathBuf::from(&path));
        let arm = file(folder.path(), "arm", &elf(183), 0o755);
        assert_eq!(resolve(&[arm], OsStr::new("")).unwrap().qemu, "qemu-aarch64");
    }

    #[test]
    fn a_script_runs_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let shell = file(folder.path(), "sh", &elf(62), 0o755);
        let line = [b"#! ", shell.as_bytes(), b" -e -u\necho\n"].concat();
        let path = file(folder.path(), "script", &line, 0o755);
        let found = resolve(&[path.clone(), "a".into()], OsStr::new("")).unwrap();
        assert_eq!(found.binary, PathBuf::from(shell));
        // The kernel passes the rest of the line as one argument.
        assert_eq!(found.arguments, ["-e -u".into(), path, "a".into()]);
    }

    #[test]
    fn what_cannot_run_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let none = OsStr::new("");
        let text = |command: &[OsString]| resolve(command, none).unwrap_err().to_string();
        assert!(text(&[]).contains("no program given"));
        assert!(text(&["/no/such".into()]).contains("/no/such: no such program"));
        assert!(text(&["no-such".into()]).contains("$PATH"));
        assert!(text(&[folder.path().into()]).contains("is a directory"));
        let plain = file(folder.path(), "plain", b"text", 0o644);
        assert!(text(&[plain]).contains("is not executable"));
        let text_file = file(folder.path(), "text", b"text", 0o755);
        assert!(text(&[text_file]).contains("no Linux program"));
        let odd = file(folder.path(), "odd", &elf(9999), 0o755);
        assert!(text(&[odd]).contains("ELF machine 9999"));
        let short = file(folder.path(), "short", &elf(183)[..100], 0o755);
        assert!(text(&[short]).contains("is no program that can run"));
        let mut object = elf(62);
        object[16] = 1;
        let object = file(folder.path(), "object", &object, 0o755);
        assert!(text(&[object]).contains("type 1, expected an executable"));
        let mut cut = elf(62);
        cut[64 + 32] = 200;
        let cut = file(folder.path(), "cut", &cut, 0o755);
        assert!(text(&[cut]).contains("cut short: 120 bytes, expected at least 200"));
        let own = folder.path().join("loop");
        let line = [b"#!", own.as_os_str().as_bytes()].concat();
        let own = file(folder.path(), "loop", &line, 0o755);
        assert!(text(&[own]).contains("no Linux program"));
    }
}
