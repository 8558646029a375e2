//! Small kernel files, read so that nothing in them can hurt: bounded, never a pipe or a device,
//! never an error.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Access, access};

const MOST_BYTES: u64 = 1 << 20;
const MOST_ENTRIES: usize = 1 << 16;

/// A file's text without the white space around it.
pub fn text(path: &Path) -> Option<String> {
    read(path).ok()
}

/// As [`text`], with the kernel's answer where there is none.
///
/// # Errors
/// The kernel's answer; [`io::ErrorKind::InvalidInput`] where it is no plain file.
pub fn read(path: &Path) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim_matches(['\0', '\n', ' ', '\t', '\r']).to_owned())
}

/// A file that holds one number.
pub fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    text(path)?.parse().ok()
}

/// A file that holds `0` or another number.
pub fn switch(path: &Path) -> Option<bool> {
    number::<u64>(path).map(|number| number != 0)
}

/// The names in a folder, sorted; none where there is no such folder.
pub fn names(folder: &Path) -> Option<Vec<String>> {
    let entries = fs::read_dir(folder).ok()?.take(MOST_ENTRIES).filter_map(Result::ok);
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    Some(names)
}

/// May this user write to what is there, by the kernel's word?
pub fn writable(path: &Path) -> bool {
    access(path, Access::WRITE_OK).is_ok()
}

/// May this user read it?
pub fn readable(path: &Path) -> bool {
    access(path, Access::READ_OK).is_ok()
}
