//! Where a process's memory is: `/proc/PID/numa_maps` and `/proc/PID/maps`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use crate::Roots;

/// Memory of a process: a range of addresses and its pages by node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Where it is.
    pub addresses: Range<usize>,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Pages by the node's number.
    pub by_node: BTreeMap<u32, u64>,
    /// Other processes map some of it too.
    pub is_shared: bool,
}

/// The memory of a process that lies on any node, but for the code that it runs.
///
/// # Errors
/// The kernel's answer: the process ended, or is another user's.
pub fn mappings(roots: &Roots, pid: u32) -> io::Result<Vec<Mapping>> {
    let read = |name: &str| std::fs::read_to_string(roots.proc.join(format!("{pid}/{name}")));
    let (maps, numa_maps) = (read("maps")?, read("numa_maps")?);
    let ends: BTreeMap<usize, usize> = maps.lines().filter_map(range_of).collect();
    let code: BTreeSet<&str> = maps.lines().filter_map(code_of).collect();
    let is_code = |line: &&str| {
        let mut words = line.split_ascii_whitespace();
        words.find_map(|word| word.strip_prefix("file=")).is_some_and(|file| code.contains(file))
    };
    let memory = numa_maps.lines().filter(|line| !is_code(line));
    Ok(memory.filter_map(|line| mapped_of(line, &ends)).collect())
}

/// The files that a process executes: its program and its libraries, each once.
///
/// # Errors
/// The kernel's answer: the process ended, or is another user's.
pub fn code_files(roots: &Roots, pid: u32) -> io::Result<BTreeSet<PathBuf>> {
    let maps = std::fs::read_to_string(roots.proc.join(format!("{pid}/maps")))?;
    Ok(maps.lines().filter_map(code_of).map(PathBuf::from).collect())
}

/// The file of a line of `/proc/PID/maps` that is executed: a program or a library. Wherever the
/// kernel read it in first is nobody's home.
fn code_of(line: &str) -> Option<&str> {
    let mut words = line.split_ascii_whitespace();
    let may_execute = words.nth(1)?.contains('x');
    let file = words.nth(3).filter(|file| file.starts_with('/'));
    file.filter(|_| may_execute)
}

/// Beginning and end in a line of `/proc/PID/maps`.
fn range_of(line: &str) -> Option<(usize, usize)> {
    let (begin, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    Some((usize::from_str_radix(begin, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

/// A line of `/proc/PID/numa_maps`.
fn mapped_of(line: &str, ends: &BTreeMap<usize, usize>) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let begin = usize::from_str_radix(words.next()?, 16).ok()?;
    let (mut by_node, mut page_bytes, mut is_shared) = (BTreeMap::new(), 4096, false);
    for (name, value) in words.filter_map(|word| word.split_once('=')) {
        if let Some(node) = name.strip_prefix('N').and_then(|node| node.parse().ok()) {
            by_node.insert(node, value.parse().ok()?);
        } else if name == "mapmax" {
            is_shared = true;
        } else if name == "kernelpagesize_kB" {
            page_bytes =
                value.parse::<usize>().ok()?.checked_mul(1024).filter(|&bytes| bytes > 0)?;
        }
    }
    let addresses = begin..*ends.get(&begin)?;
    (!by_node.is_empty()).then_some(Mapping { addresses, page_bytes, by_node, is_shared })
}

/// Bytes of a process's memory by node.
///
/// # Errors
/// As [`mappings`].
pub fn bytes_by_node(roots: &Roots, pid: u32) -> io::Result<BTreeMap<u32, u64>> {
    let mut sum = BTreeMap::new();
    for one in mappings(roots, pid)? {
        for (node, pages) in one.by_node {
            *sum.entry(node).or_default() += pages * one.page_bytes as u64;
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_among_the_files_that_it_executes() {
        let files = code_files(&Roots::default(), std::process::id()).unwrap();
        assert!(files.contains(&std::env::current_exe().unwrap()), "{files:?}");
    }

    #[test]
    fn lines_of_numa_maps_are_read() {
        let ends = BTreeMap::from([(0x1000, 0x9000), (0x20_0000, 0x40_0000)]);
        let line = "1000 default anon=3 dirty=3 active=0 N0=1 N1=2 kernelpagesize_kB=4";
        let one = mapped_of(line, &ends).unwrap();
        assert_eq!(one.by_node, BTreeMap::from([(0, 1), (1, 2)]));
        assert_eq!(one.addresses, 0x1000..0x9000);
        let huge = mapped_of("200000 default huge anon=1 N1=1 kernelpagesize_kB=2048", &ends);
        assert_eq!(huge.unwrap().page_bytes, 2 << 20);
        let library = "1000 default file=/lib/libc.so.6 mapped=3 mapmax=9 N0=3 kernelpagesize_kB=4";
        assert!(mapped_of(library, &ends).unwrap().is_shared && !one.is_shared);
        for none in ["", "1000 default", "5000 default N0=1", "1000 default N0=x"] {
            assert_eq!(mapped_of(none, &ends), None, "{none}");
        }
        assert_eq!(range_of("1000-9000 rw-p 00000000 00:00 0"), Some((0x1000, 0x9000)));
        assert_eq!(code_of("1000-9000 r-xp 00000000 fe:01 9 /bin/true"), Some("/bin/true"));
        assert_eq!(code_of("1000-9000 r--p 00000000 fe:01 9 /bin/true"), None);
        assert_eq!(code_of("1000-9000 r-xp 00000000 00:00 0 [vdso]"), None);
        assert_eq!(code_of("1000-9000 rw-p 00000000 00:00 0"), None);
    }
}
