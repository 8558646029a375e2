//! Programs that give up rights, take another root folder or close all their files, which takes root to try.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use corun_trace::Recorded;

use super::processes::{commands, python, recording};

/// Much of what is recorded comes behind the change.
const WORK: &str = "sum(range(400000))";

/// What a program becomes: somebody who owns nothing here.
const NOBODY: &str = "os.setgroups([]); os.setgid(65534); os.setuid(65534)";

/// Python's own start, before its first line.
const START: u64 = 60_000_000;

/// Runs Python as root, if the tests run as root.
fn as_root(program: &str) -> Option<(Recorded, String)> {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        println!("skipped: needs root");
        return None;
    }
    python(&format!("import os\n{program}"))
}

/// Everything is recorded: the start, and what comes behind.
fn is_whole(recorded: &Recorded) -> bool {
    let (start, _) = python("pass").unwrap();
    let (start, all) = (recording(&start).instructions(), recording(recorded).instructions());
    assert!(start < START);
    assert!(all > start + 10_000_000, "{all} of {start} and more");
    recorded.notes.is_empty() && recording(recorded).origin.complete
}

#[test]
fn another_user_is_recorded_to_the_end() {
    let Some((recorded, _)) = as_root(&format!("{NOBODY}\n{WORK}")) else { return };
    assert!(is_whole(&recorded), "{:?}", recorded.notes);
}

#[test]
fn what_another_user_forks_and_executes_is_recorded() {
    let program = format!(
        "{NOBODY}\nif os.fork() == 0: os._exit({WORK} % 7)\nos.wait()\n\
         os.execv(\"/bin/sh\", [\"sh\", \"-c\", \"id -u; env | grep -c corun_trace\"])"
    );
    let Some((recorded, out)) = as_root(&program) else { return };
    assert_eq!(out, "65534\n0\n");
    assert!(recorded.notes.is_empty(), "{:?}", recorded.notes);
    let recording = recording(&recorded);
    assert!(recording.origin.complete);
    let commands = commands(recording);
    assert!(commands.iter().any(|one| one == "id -u"), "{commands:?}");
    assert_eq!((commands.len(), recording.origin.untraced_processes), (5, 0), "{commands:?}");
}

#[test]
fn another_root_folder_is_recorded_and_what_is_executed_there_is_not() {
    let folder = tempfile::tempdir().unwrap();
    // A program that needs no libraries there: it is run natively.
    let root = folder.path().display();
    let kernels = super::trace::kernels();
    let Some(_) = kernels else { return };
    let program = format!(
        "os.chroot(\"{root}\"); os.chdir(\"/\"); {NOBODY}\n{WORK}\n\
         try: os.execv(\"/program\", [\"program\"])\n\
         except OSError as error: os._exit(error.errno)"
    );
    super::static_programs::write_elf(
        &folder.path().join("program"),
        &super::static_programs::EXIT,
    );
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let Some((recorded, _)) = as_root(&program) else { return };
    assert_eq!(recorded.status.code(), Some(0), "{:?}", recorded.notes);
    assert_eq!(recorded.notes.len(), 1, "{:?}", recorded.notes);
    assert!(recorded.notes[0].contains("ran natively"), "{:?}", recorded.notes);
    let recording = recording(&recorded);
    assert!(recording.instructions() > 20_000_000, "{}", recording.instructions());
    assert_eq!(recording.origin.untraced_processes, 1);
}

/// In another root folder, without the descriptor that the plug-in keeps: nothing can be handed in, which is said.
#[test]
fn what_cannot_be_handed_in_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let program = format!(
        "os.chroot(\"{}\"); os.closerange(3, 5000)\n{WORK}\nos._exit(0)",
        folder.path().display()
    );
    let Some((recorded, _)) = as_root(&program) else { return };
    assert_eq!(recorded.status.code(), Some(0));
    assert_eq!(recorded.notes.len(), 1, "{:?}", recorded.notes);
    assert!(
        recorded.notes[0].starts_with("the program gave up rights or took another root folder"),
        "{:?}",
        recorded.notes
    );
    assert!(!recording(&recorded).origin.complete);
}
