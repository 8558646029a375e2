//! What the kernel and the emulator check of an ELF file before they run it.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::elf::{ET_DYN, ET_EXEC, FileHeader32, FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, ReadRef};

use crate::TraceError;

/// The dynamic loader that a program names, if it names one.
///
/// # Errors
/// [`TraceError::BrokenElf`] when the file is cut short or is no program.
pub(crate) fn loader(path: &Path) -> Result<Option<PathBuf>, TraceError> {
    let failed = |source| TraceError::Io { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let data = ReadCache::new(file);
    let found = match data.read_bytes_at(4, 1) {
        Ok([1]) => interpreter::<FileHeader32<Endianness>>(&data),
        _ => interpreter::<FileHeader64<Endianness>>(&data),
    };
    found.map_err(|found| TraceError::BrokenElf { path: path.to_owned(), found })
}

fn interpreter<Elf: FileHeader<Endian = Endianness>>(
    data: &ReadCache<File>,
) -> Result<Option<PathBuf>, String> {
    let broken = |error: object::Error| format!("its ELF header is broken ({error})");
    let header = Elf::parse(data).map_err(broken)?;
    let endian = header.endian().map_err(broken)?;
    let kind = header.e_type(endian);
    if kind != ET_EXEC && kind != ET_DYN {
        return Err(format!("found an ELF file of type {kind}, expected an executable (2 or 3)"));
    }
    let length = data.len().map_err(|()| "its length cannot be read".to_owned())?;
    let (mut loads, mut loader) = (false, None);
    for segment in header.program_headers(endian, data).map_err(broken)? {
        let (from, bytes) = segment.file_range(endian);
        if segment.p_type(endian) == PT_LOAD {
            loads = true;
            let end = from.saturating_add(bytes);
            if end > length {
                return Err(format!("it is cut short: {length} bytes, expected at least {end}"));
            }
        }
        if let Some(name) = segment.interpreter(endian, data).map_err(broken)? {
            loader = Some(PathBuf::from(OsStr::from_bytes(name)));
        }
    }
    if loads { Ok(loader) } else { Err("it holds nothing to load".to_owned()) }
}
