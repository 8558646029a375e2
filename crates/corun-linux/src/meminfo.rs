//! What memory the machine has: `/proc/meminfo` (proc_meminfo(5)).

use crate::{Roots, files};

/// Bytes that programs may still get without anything being swapped out, as the kernel estimates (`MemAvailable`); none where
/// it does not say.
pub fn available_bytes(roots: &Roots) -> Option<u64> {
    parse(&files::text(&roots.proc.join("meminfo"))?)
}

fn parse(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_in_kib() {
        let text = "MemTotal:  100 kB\nMemAvailable:   2 kB\n";
        assert_eq!(parse(text), Some(2048));
        for none in ["", "MemAvailable: x kB", "MemAvailable: 2", "MemFree: 2 kB"] {
            assert_eq!(parse(none), None, "{none}");
        }
    }
}
