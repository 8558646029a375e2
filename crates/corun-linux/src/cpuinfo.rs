//! `/proc/cpuinfo`.

use crate::{Roots, files};

/// What the kernel says of the processor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuInfo {
    text: String,
}

impl CpuInfo {
    /// Reads it; none where it cannot be read.
    pub fn read(roots: &Roots) -> Option<Self> {
        files::text(&roots.proc.join("cpuinfo")).map(|text| Self { text })
    }

    /// A field of the first CPU that has it: `model name`, `CPU implementer`.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim_end() == name).then_some(value.trim())
        })
    }

    /// What the processor can do, where the kernel has such a line (x86).
    pub fn flags(&self) -> Option<Vec<&str>> {
        Some(self.field("flags")?.split_whitespace().collect())
    }
}
