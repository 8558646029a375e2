//! Which pages the kernel gave.

use std::fs;

/// Whether most of the mapping around an address consists of huge pages; false where the kernel does
/// not tell.
pub(crate) fn are_huge(address: usize) -> bool {
    let text = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    huge_share(&text, address).is_some_and(|share| share > 0.5)
}

/// Share of huge pages in the resident part of the mapping around an address, out of the text of
/// `/proc/PID/smaps` (proc_pid_smaps(5)).
fn huge_share(text: &str, address: usize) -> Option<f64> {
    let mut lines = text.lines().skip_while(|line| !holds(line, address)).skip(1);
    let inside: Vec<&str> = lines.by_ref().take_while(|line| range(line).is_none()).collect();
    let kib = |name: &str| -> Option<f64> {
        let line = inside.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    let resident = kib("Rss").filter(|resident| *resident > 0.0)?;
    Some(kib("AnonHugePages")? / resident)
}

fn holds(line: &str, address: usize) -> bool {
    range(line).is_some_and(|(start, end)| (start..end).contains(&address))
}

/// The addresses of a mapping's first line: `7f00-7f10 rw-p ...`.
fn range(line: &str) -> Option<(usize, usize)> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "1000-2000 r-xp 00000000 fe:00 7 /bin/a\nRss:  4 kB\nAnonHugePages: 0 kB\n\
        200000-a00000 rw-p 00000000 00:00 0\nSize: 8192 kB\nRss:            8000 kB\n\
        AnonHugePages:      6000 kB\nVmFlags: rd wr hg\nb00000-c00000 rw-p 0 00:00 0\nRss: 0 kB\n";

    #[test]
    fn the_mapping_around_the_address_counts() {
        assert_eq!(huge_share(SMAPS, 0x200000), Some(0.75));
        assert_eq!(huge_share(SMAPS, 0x9fffff), Some(0.75));
        assert_eq!(huge_share(SMAPS, 0x1000), Some(0.0));
        assert_eq!(huge_share(SMAPS, 0xa00000), None);
        assert_eq!(huge_share(SMAPS, 0xb00000), None);
        assert_eq!(huge_share("", 0), None);
    }
}
