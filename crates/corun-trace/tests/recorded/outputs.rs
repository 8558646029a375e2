//! Where traces are written: files, links, pipes and devices.

use std::fs::{self, File};
use std::io::{BufReader, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use corun_trace::instruction_trace::{RECORD_BYTES, is_instruction_trace};
use corun_trace::trace_file::{Ending, TraceReader};
use corun_trace::{Request, TraceError, record};
use tempfile::TempDir;

use super::processes::shell;
use super::trace::request;

/// A walk with both traces; `None` where QEMU is missing.
fn traced(accesses: &Path, instructions: &Path) -> Option<Request> {
    let mut request = request(&["walk", "1", "1"])?;
    request.trace = Some(accesses.to_owned());
    request.instruction_trace = Some(instructions.to_owned());
    Some(request)
}

fn pipe(folder: &TempDir, name: &str) -> PathBuf {
    let path = folder.path().join(name);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

fn read_all(path: &Path) -> JoinHandle<Vec<u8>> {
    let path = path.to_owned();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    })
}

fn ending(bytes: &[u8]) -> Option<Ending> {
    let mut reader = TraceReader::new(BufReader::new(bytes)).unwrap();
    assert!(reader.all(|access| access.is_ok()));
    reader.ending()
}

#[test]
fn traces_go_through_pipes() {
    let folder = TempDir::new().unwrap();
    let [accesses, instructions] = ["accesses", "instructions"].map(|name| pipe(&folder, name));
    let Some(request) = traced(&accesses, &instructions) else { return };
    let [read, read_instructions] = [&accesses, &instructions].map(|path| read_all(path));
    let recorded = record(&request).unwrap();
    assert_eq!(recorded.trace.unwrap().unwrap(), Ending::Whole);
    assert_eq!(ending(&read.join().unwrap()), Some(Ending::Whole));
    let count = recorded.instruction_trace.unwrap().unwrap();
    assert!(count > 100_000);
    assert_eq!(read_instructions.join().unwrap().len() as u64, count * RECORD_BYTES as u64);
    for path in [&accesses, &instructions] {
        assert!(fs::metadata(path).unwrap().file_type().is_fifo());
    }
}

/// The child waits at a gate until the recording is over; by itself that opens after five minutes, and then too late.
#[test]
fn a_forked_process_has_no_part_in_its_parents_traces() {
    let counts = [false, true].map(|main_only| {
        let folder = TempDir::new().unwrap();
        let [gate, instructions] = ["gate", "instructions"].map(|name| pipe(&folder, name));
        let mut request = shell(&format!("(read word <{}) & exit 0", gate.display()))?;
        request.settings.main_only = main_only;
        request.instruction_trace = Some(instructions.clone());
        let read = read_all(&instructions);
        let open =
            move || fs::OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&gate);
        let (over, waits) = mpsc::channel();
        let gatekeeper = thread::spawn(move || {
            let _ = waits.recv_timeout(Duration::from_secs(300));
            open().is_ok()
        });
        let recorded = record(&request).unwrap();
        let was_early = over.send(()).is_err();
        assert!(gatekeeper.join().unwrap() && !was_early, "the recording waited for the child");
        let count = recorded.instruction_trace.unwrap().unwrap();
        assert_eq!(read.join().unwrap().len() as u64, count * RECORD_BYTES as u64);
        Some(count)
    });
    assert_eq!(counts[0], counts[1], "instructions are traced twice");
}

#[test]
fn a_pipe_that_nobody_reads_any_more_costs_the_trace_alone() {
    let folder = TempDir::new().unwrap();
    let accesses = folder.path().join("accesses");
    let instructions = pipe(&folder, "instructions");
    let Some(request) = traced(&accesses, &instructions) else { return };
    let reader = thread::spawn({
        let instructions = instructions.clone();
        move || File::open(instructions).unwrap().read_exact(&mut [0; 64]).unwrap()
    });
    let recorded = record(&request).unwrap();
    reader.join().unwrap();
    assert!(recorded.status.success() && recorded.notes.is_empty(), "{:?}", recorded.notes);
    let error = recorded.instruction_trace.unwrap().unwrap_err();
    assert!(matches!(&error, TraceError::NoTrace { .. }), "{error}");
    assert!(error.to_string().contains("Broken pipe"), "{error}");
    assert_eq!(recorded.trace.unwrap().unwrap(), Ending::Whole);
}

#[test]
fn a_link_stays_and_its_file_is_replaced() {
    let folder = TempDir::new().unwrap();
    let [accesses, instructions] = ["accesses", "instructions"].map(|name| {
        let (link, target) = (folder.path().join(name), folder.path().join(format!("{name}.to")));
        fs::write(&target, "").unwrap();
        symlink(&target, &link).unwrap();
        link
    });
    let Some(request) = traced(&accesses, &instructions) else { return };
    record(&request).unwrap();
    for path in [&accesses, &instructions] {
        assert!(fs::symlink_metadata(path).unwrap().is_symlink());
        assert!(fs::metadata(path).unwrap().len() > 1000);
    }
    assert_eq!(ending(&fs::read(&accesses).unwrap()), Some(Ending::Whole));
}

/// Devices of the test's own, which only root can make, in a folder that lets devices be used.
#[test]
fn a_device_stays_and_is_written_to() {
    let folder = TempDir::new().unwrap();
    let device = |name: &str, minor: &str| {
        let path = folder.path().join(name);
        let made = Command::new("mknod").arg(&path).args(["c", "1", minor]).output().unwrap();
        let usable =
            made.status.success() && fs::OpenOptions::new().write(true).open(&path).is_ok();
        usable.then_some(path)
    };
    let (Some(full), Some(null)) = (device("full", "7"), device("null", "3")) else {
        println!("skipped: no device can be made here (needs root)");
        return;
    };
    let Some(request) = traced(&null, &full) else { return };
    let recorded = record(&request).unwrap();
    assert_eq!(recorded.trace.unwrap().unwrap(), Ending::Whole);
    let error = recorded.instruction_trace.unwrap().unwrap_err().to_string();
    assert!(error.contains("No space left on device"), "{error}");
    for path in [&full, &null] {
        assert!(fs::metadata(path).unwrap().file_type().is_char_device());
    }
}

#[test]
fn a_trace_of_instructions_is_told_from_other_files() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    let is_one = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        is_instruction_trace(&path).unwrap()
    };
    let mut record = [0; RECORD_BYTES];
    record[..2].copy_from_slice(&[0x34, 0x12]);
    assert!(is_one(&record.repeat(3)) && is_one(b""));
    record[8..10].copy_from_slice(&[1, 1]);
    assert!(is_one(&record));
    assert!(!is_one(&record[1..]) && !is_one(&[b'x'; 2 * RECORD_BYTES]));
    record[8] = 0;
    assert!(!is_one(&record), "taken, but no branch");
}
