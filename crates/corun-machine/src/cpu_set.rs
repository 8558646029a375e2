//! Sets of CPUs by their operating-system number, in the kernel's list notation (`0-3,8`).

use std::fmt;
use std::str::FromStr;

use fixedbitset::FixedBitSet;
use serde::{Deserialize, Serialize};

/// The operating system's number of a CPU (a hardware thread). Numbers may be sparse.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct CpuId(pub u32);

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The highest CPU number a list may name; the kernel's own limit (`CONFIG_NR_CPUS`) is 8192.
pub const MAX_CPU: u32 = 65_535;

/// A set of CPUs. Two sets are equal when they hold the same CPUs.
#[derive(Clone, Default)]
pub struct CpuSet(FixedBitSet);

/// Why a text is not a CPU list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a CPU list: expected numbers and ranges like `0-3,8`, up to {MAX_CPU}")]
pub struct CpuListError {
    /// The text that was found.
    pub text: String,
}

impl CpuSet {
    /// The empty set.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a CPU.
    #[inline]
    pub fn insert(&mut self, cpu: CpuId) {
        let bit = cpu.0 as usize;
        self.0.grow(bit + 1);
        self.0.insert(bit);
    }

    /// Takes a CPU out.
    #[inline]
    pub fn remove(&mut self, cpu: CpuId) {
        if self.contains(cpu) {
            self.0.set(cpu.0 as usize, false);
        }
    }

    /// Is this CPU in the set?
    #[inline]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.0.contains(cpu.0 as usize)
    }

    /// The CPUs, lowest first.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.0.ones().map(|bit| CpuId(bit as u32))
    }

    /// How many CPUs the set holds.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.count_ones(..)
    }

    /// Does the set hold no CPU?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_clear()
    }

    /// The lowest CPU.
    #[inline]
    pub fn first(&self) -> Option<CpuId> {
        self.0.minimum().map(|bit| CpuId(bit as u32))
    }

    /// The CPUs in a sentence: `CPU 3`, `CPUs 0-3,8`.
    pub fn in_words(&self) -> String {
        format!("{} {self}", if self.len() == 1 { "CPU" } else { "CPUs" })
    }

    /// Is every CPU of this set in `other`?
    #[inline]
    pub fn is_subset(&self, other: &Self) -> bool {
        let (mine, others) = (self.0.as_slice(), other.0.as_slice());
        let (common, beyond) = mine.split_at(mine.len().min(others.len()));
        common.iter().zip(others).all(|(mine, others)| mine & !others == 0)
            && beyond.iter().all(|&mine| mine == 0)
    }

    /// Have the two sets no CPU in common?
    #[inline]
    pub fn is_disjoint(&self, other: &Self) -> bool {
        let (mine, others) = (self.0.as_slice(), other.0.as_slice());
        mine.iter().zip(others).all(|(mine, others)| mine & others == 0)
    }

    /// The CPUs in both sets.
    #[must_use]
    #[inline]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(&self.0 & &other.0)
    }

    /// The CPUs in either set.
    #[must_use]
    #[inline]
    pub fn union(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).collect()
    }
}

impl FromIterator<CpuId> for CpuSet {
    #[inline]
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        let mut set = Self::new();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

impl Extend<CpuId> for CpuSet {
    fn extend<I: IntoIterator<Item = CpuId>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

impl PartialEq for CpuSet {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        // Two bit sets may differ in capacity alone.
        let (mine, others) = (self.0.as_slice(), other.0.as_slice());
        let common = mine.len().min(others.len());
        mine[..common] == others[..common]
            && mine[common..].iter().chain(&others[common..]).all(|&block| block == 0)
    }
}

impl Eq for CpuSet {}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().map(|cpu| cpu.0).peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.peek() == Some(&(last + 1)) {
                last += 1;
                cpus.next();
            }
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl FromStr for CpuSet {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || CpuListError { text: text.to_owned() };
        let number = |part: &str| {
            part.trim().parse::<u32>().ok().filter(|&cpu| cpu <= MAX_CPU).ok_or_else(wrong)
        };
        let mut set = Self::new();
        for part in text.trim().split(',').filter(|part| !part.trim().is_empty()) {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if last < first {
                return Err(wrong());
            }
            for cpu in first..=last {
                set.insert(CpuId(cpu));
            }
        }
        Ok(set)
    }
}

impl Serialize for CpuSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_printed_as_the_kernel_does() {
        let set: CpuSet = "0-3,8,10-11\n".parse().unwrap();
        assert_eq!(set.len(), 7);
        assert_eq!(set.to_string(), "0-3,8,10-11");
        assert_eq!("".parse::<CpuSet>().unwrap(), CpuSet::new());
    }

    #[test]
    fn broken_lists_are_refused() {
        for text in ["a", "3-1", "0-", "-1", "99999999", "0-4294967295"] {
            assert!(text.parse::<CpuSet>().is_err(), "{text}");
        }
    }

    #[test]
    fn equality_ignores_capacity() {
        let mut wide: CpuSet = "1,900".parse().unwrap();
        wide.remove(CpuId(900));
        assert_eq!(wide, "1".parse().unwrap());
    }
}
