//! A machine as a person and as a program read it: the tree as text, and the JSON document.

use crate::spec::CacheType;

/// `L2`, `L1d`, `L1i`: the name of a cache for people.
pub(crate) fn cache_name(level: u32, holds: CacheType) -> String {
    match holds {
        CacheType::Unified => format!("L{level}"),
        CacheType::Data => format!("L{level}d"),
        CacheType::Instruction => format!("L{level}i"),
    }
}
