//! Any bytes are a journal of which is said what would be undone, or which is left with a reason; never a panic.
#![no_main]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use corun_linux::Roots;
use corun_live::{RestoreOutcome, Which, would_restore};
use libfuzzer_sys::fuzz_target;

/// The boot that the corpus's journals are of.
const BOOT: &str = "0a5d3c8e-1b2f-4c6d-8e7f-90a1b2c3d4e5";

/// A journal's file is named after its writer, whom the first line names too.
fn name_of(bytes: &[u8]) -> String {
    let first = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let header: serde_json::Value = serde_json::from_slice(first).unwrap_or_default();
    let number = |key: &str| header[key].as_u64().unwrap_or(1);
    let pid = u32::try_from(number("pid")).unwrap_or(1);
    format!("{pid}-{}.journal", number("start_ticks"))
}

fuzz_target!(|bytes: &[u8]| {
    let root = tempfile::tempdir().expect("a folder");
    let roots = Roots::below(root.path());
    let random = roots.proc.join("sys/kernel/random");
    fs::create_dir_all(&random).expect("a folder in it");
    fs::write(random.join("boot_id"), BOOT).expect("a file in it");
    let folder = root.path().join("journals");
    fs::create_dir(&folder).expect("a folder in it");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("it is ours");
    fs::write(folder.join(name_of(bytes)), bytes).expect("a file in it");
    let found = would_restore(&folder, &roots, Which::Dead).expect("the folder is good");
    assert_eq!(found.len(), 1);
    if let RestoreOutcome::Left { why } = &found[0].outcome {
        assert!(!why.is_empty());
    }
    // What is only asked about stays.
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1);
});
