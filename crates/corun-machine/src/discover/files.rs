//! Bounded reading of small kernel files, and their notations.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::{CpuId, CpuSet, MAX_CPU};

const SMALL: u64 = 128 << 10;
const LARGE: u64 = 16 << 20;
const MAX_ENTRIES: usize = 1 << 17;

/// A file-system root with `sys/` and `proc/` in it.
pub(super) struct Root(PathBuf);

impl Root {
    pub(super) fn new(root: &Path) -> Self {
        Self(root.to_owned())
    }

    fn bytes(&self, path: &str, limit: u64) -> Option<Vec<u8>> {
        let path = self.0.join(path);
        // Before it is opened: opening a pipe waits for who writes to it.
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        fs::File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    fn read(&self, path: &str, limit: u64) -> Option<String> {
        self.bytes(path, limit).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A short file, without the white space around it, nor the zero bytes that some kernels add.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let blank = |c: char| c.is_whitespace() || c == '\0';
        self.read(path, SMALL).map(|text| text.trim_matches(blank).to_owned())
    }

    /// A file of many lines, such as `/proc/cpuinfo`.
    pub(super) fn lines(&self, path: &str) -> Vec<String> {
        let text = self.read(path, LARGE).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// A file of the device tree as big-endian words of 32 bits.
    pub(super) fn words(&self, path: &str) -> Vec<u32> {
        let bytes = self.bytes(path, SMALL).unwrap_or_default();
        bytes
            .chunks_exact(4)
            .map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
            .collect()
    }

    pub(super) fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.0.join(path).exists()
    }

    pub(super) fn is_dir(&self, path: &str) -> bool {
        self.0.join(path).is_dir()
    }

    /// The names in a folder, sorted.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.0.join(path)) else { return Vec::new() };
        let entries = entries.take(MAX_ENTRIES).filter_map(Result::ok);
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// The numbers N of the folders `PREFIXN` in a folder, ascending.
    pub(super) fn numbered(&self, path: &str, prefix: &str) -> Vec<u32> {
        let number = |name: &String| name.strip_prefix(prefix)?.parse().ok();
        let mut numbers: Vec<u32> = self.names(path).iter().filter_map(number).collect();
        numbers.retain(|number| self.is_dir(&format!("{path}/{prefix}{number}")));
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// A set of CPUs: the first of the masks that can be read, else of the lists. Masks come first
    /// because captures exist whose lists are stale; lists are there where a mask is too long for
    /// the kernel to print.
    pub(super) fn cpus(&self, folder: &str, lists: &[&str], masks: &[&str]) -> Option<CpuSet> {
        let list = |name: &&str| self.text(&format!("{folder}/{name}"))?.parse().ok();
        let mask = |name: &&str| parse_mask(&self.text(&format!("{folder}/{name}"))?);
        masks.iter().find_map(mask).or_else(|| lists.iter().find_map(list))
    }
}

/// A CPU mask as the kernel prints it: hexadecimal words of 32 bits, the highest first, with commas
/// between.
pub(super) fn parse_mask(text: &str) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    let text = text.trim().trim_start_matches("0x");
    if text.is_empty() {
        return None;
    }
    let mut base = 0u32;
    for word in text.rsplit(',') {
        let mut digits = 0;
        for digit in word.chars().rev() {
            let value = digit.to_digit(16)?;
            for bit in 0..4 {
                let cpu = base.saturating_add(digits * 4 + bit);
                if value >> bit & 1 == 1 && cpu <= MAX_CPU {
                    set.insert(CpuId(cpu));
                }
            }
            digits += 1;
        }
        base = base.saturating_add(digits.max(8) * 4);
    }
    Some(set)
}

/// A size as the kernel prints it (`4096K`, `8M`, `512`), in KiB.
pub(super) fn parse_kib(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let size: u64 = digits.trim().parse().ok()?;
    match text[digits.len()..].to_ascii_uppercase().as_str() {
        "K" | "KB" | "KIB" => Some(size),
        "M" | "MB" | "MIB" => size.checked_mul(1024),
        "G" | "GB" | "GIB" => size.checked_mul(1024 * 1024),
        "" => Some(size / 1024),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_words_of_32_bits_from_the_highest() {
        let set = |text: &str| parse_mask(text).map(|set| set.to_string());
        assert_eq!(set("00000000,00000202").as_deref(), Some("1,9"));
        assert_eq!(set("1,00000000").as_deref(), Some("32"));
        assert_eq!(set("f").as_deref(), Some("0-3"));
        assert_eq!(set("0").as_deref(), Some(""));
        assert_eq!(set("xyz"), None);
        assert_eq!(set(""), None);
    }

    #[test]
    fn sizes_have_a_unit() {
        assert_eq!(parse_kib("4096K"), Some(4096));
        assert_eq!(parse_kib("8M"), Some(8192));
        assert_eq!(parse_kib("65536"), Some(64));
        assert_eq!(parse_kib("K"), None);
        assert_eq!(parse_kib("4 pages"), None);
        assert_eq!(parse_kib("99999999999999999999K"), None);
    }
}
