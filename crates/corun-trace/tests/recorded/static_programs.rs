//! Programs of a few instructions that are known one by one: nothing of them may be missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use corun_profile::ProfileData;
use corun_trace::instruction_trace::RECORD_BYTES;
use corun_trace::{Request, record};
use tempfile::TempDir;

/// Where the code is loaded, behind the headers.
const BASE: u64 = 0x40_0000;
const HEADERS: u64 = 64 + 56;

/// mov eax, 60; xor edi, edi; syscall: three instructions.
pub(super) const EXIT: [u8; 9] = [0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05];

/// A statically linked x86-64 program of this code.
fn elf(code: &[u8]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    // Entry, program headers, section headers; flags; sizes and counts.
    for value in [BASE + HEADERS, 64, 0] {
        file.extend(value.to_le_bytes());
    }
    file.extend(0u32.to_le_bytes());
    for value in [64u16, 56, 1, 64, 0, 0] {
        file.extend(value.to_le_bytes());
    }
    // PT_LOAD, readable and executable: offset, addresses, sizes, alignment.
    file.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    let bytes = HEADERS + code.len() as u64;
    for value in [0, BASE, BASE, bytes, bytes, 0x1000] {
        file.extend(value.to_le_bytes());
    }
    file.extend(code);
    file
}

/// Writes such a program, which can be executed.
pub(super) fn write_elf(path: &Path, code: &[u8]) {
    let written = path.with_extension("written");
    fs::write(&written, elf(code)).unwrap();
    // A program that a child of another test still has open for writing could not be started.
    let install = Command::new("install").args(["-m", "755"]).args([&written, path]).status();
    assert!(install.unwrap().success());
}

/// Records the code; `None` where QEMU is missing. Instructions of the profile, and the addresses of the trace's, from the
/// code's beginning on.
fn recorded(code: &[u8]) -> Option<(u64, Vec<u64>)> {
    super::trace::kernels()?;
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("program");
    write_elf(&program, code);
    let trace: PathBuf = folder.path().join("trace");
    let mut request = Request::new(vec![program.into_os_string()]);
    request.pack_quickly = true;
    request.instruction_trace = Some(trace.clone());
    let recorded = record(&request).unwrap();
    assert!(recorded.status.success(), "{:?}", recorded.status);
    let ProfileData::Recording(recording) = &recorded.profile.data else { panic!("a table") };
    let bytes = fs::read(trace).unwrap();
    let address = |one: &[u8]| u64::from_le_bytes(one[..8].try_into().unwrap());
    let addresses = bytes.chunks(RECORD_BYTES).map(|one| address(one) - BASE - HEADERS);
    Some((recording.instructions(), addresses.collect()))
}

#[test]
fn a_program_in_a_line_is_recorded_from_its_first_instruction_to_its_last() {
    let mut code = vec![0x90; 99];
    code.extend(EXIT);
    let Some((instructions, addresses)) = recorded(&code) else { return };
    assert_eq!(instructions, 102);
    let expected: Vec<u64> = (0..100).chain([104, 106]).collect();
    assert_eq!(addresses, expected);
}

#[test]
fn a_loop_is_recorded_from_its_first_instruction_to_its_last() {
    // mov ecx, 2000; dec ecx; jne back; exit
    let mut code = vec![0xb9, 0xd0, 0x07, 0, 0, 0xff, 0xc9, 0x75, 0xfc];
    code.extend(EXIT);
    let Some((instructions, addresses)) = recorded(&code) else { return };
    assert_eq!(instructions, 1 + 2 * 2000 + 3);
    let round = [5, 7].into_iter().cycle().take(4000);
    let expected: Vec<u64> = [0].into_iter().chain(round).chain([9, 14, 16]).collect();
    assert_eq!(addresses, expected);
}
