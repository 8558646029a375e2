//! Sets of CPUs by their operating-system number, in the kernel's list notation (`0-3,8`).

use std::fmt;
use std::str::FromStr;

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
pub struct CpuSet(Words);

/// Bits by their numbers; a word that is not there is 0.
///
/// Most machines have no more than 128 CPUs. A daemon has some seven sets a thread, which it finds in no cache of the
/// processor's when it looks at them a second later: without memory of their own they cost one wait less each.
enum Words {
    Few([u64; 2]),
    Many(Vec<u64>),
}

impl Words {
    #[inline]
    fn as_slice(&self) -> &[u64] {
        match self {
            Self::Few(words) => words,
            Self::Many(words) => words,
        }
    }

    /// The word of a CPU, which is there from now on.
    #[inline]
    fn word_mut(&mut self, cpu: CpuId) -> &mut u64 {
        let index = word_of(cpu);
        match self {
            Self::Few(words) if index >= words.len() => *self = Self::Many(words.to_vec()),
            _ => {}
        }
        match self {
            Self::Few(words) => &mut words[index],
            Self::Many(words) => {
                words.resize(words.len().max(index + 1), 0);
                &mut words[index]
            }
        }
    }
}

impl Default for Words {
    #[inline]
    fn default() -> Self {
        Self::Few([0; 2])
    }
}

impl Clone for Words {
    #[inline]
    fn clone(&self) -> Self {
        match self {
            Self::Few(words) => Self::Few(*words),
            Self::Many(words) => Self::Many(words.clone()),
        }
    }

    #[inline]
    fn clone_from(&mut self, from: &Self) {
        match (self, from) {
            (Self::Many(own), Self::Many(from)) => own.clone_from(from),
            (own, from) => *own = from.clone(),
        }
    }
}

#[inline]
fn word_of(cpu: CpuId) -> usize {
    cpu.0 as usize / u64::BITS as usize
}

#[inline]
fn bit_of(cpu: CpuId) -> u64 {
    1 << (cpu.0 % u64::BITS)
}

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
        *self.0.word_mut(cpu) |= bit_of(cpu);
    }

    /// Takes a CPU out.
    #[inline]
    pub fn remove(&mut self, cpu: CpuId) {
        if self.contains(cpu) {
            *self.0.word_mut(cpu) &= !bit_of(cpu);
        }
    }

    /// Is this CPU in the set?
    #[inline]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.0.as_slice().get(word_of(cpu)).is_some_and(|word| word & bit_of(cpu) != 0)
    }

    /// The CPUs, lowest first.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        let words = self.0.as_slice().iter().zip((0..).step_by(u64::BITS as usize));
        words.flat_map(|(&word, first)| {
            // Each without the lowest bit of the one before.
            let rest = |left: &u64| Some(left & (left - 1)).filter(|&left| left != 0);
            let left = std::iter::successors(Some(word).filter(|&word| word != 0), rest);
            left.map(move |left| CpuId(first + left.trailing_zeros()))
        })
    }

    /// How many CPUs the set holds.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.as_slice().iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Does the set hold no CPU?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.as_slice().iter().all(|&word| word == 0)
    }

    /// The lowest CPU.
    #[inline]
    pub fn first(&self) -> Option<CpuId> {
        self.iter().next()
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
        let mut both = self.clone();
        let others = other.0.as_slice();
        match &mut both.0 {
            Words::Few(words) => words.iter_mut().zip(others).for_each(|(word, of)| *word &= of),
            Words::Many(words) => {
                words.truncate(others.len());
                words.iter_mut().zip(others).for_each(|(word, of)| *word &= of);
            }
        }
        both
    }

    /// The CPUs in either set.
    #[must_use]
    #[inline]
    pub fn union(&self, other: &Self) -> Self {
        let (mut either, rest) = match self.0.as_slice().len() < other.0.as_slice().len() {
            true => (other.clone(), self),
            false => (self.clone(), other),
        };
        let words = match &mut either.0 {
            Words::Few(words) => &mut words[..],
            Words::Many(words) => words,
        };
        words.iter_mut().zip(rest.0.as_slice()).for_each(|(word, of)| *word |= of);
        either
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
        if let (Words::Few(mine), Words::Few(others)) = (&self.0, &other.0) {
            return mine == others;
        }
        // Two may differ in the number of their words alone.
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
    use std::collections::BTreeSet;

    use proptest::prelude::*;

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

    /// What is true of sets of numbers, below and above the CPUs that take no memory of their own.
    fn numbers() -> impl Strategy<Value = BTreeSet<u32>> {
        let most = prop_oneof![Just(64u32), Just(128), Just(129), Just(1000)];
        most.prop_flat_map(|most| prop::collection::btree_set(0..most, 0..40))
    }

    fn set(of: &BTreeSet<u32>) -> CpuSet {
        of.iter().map(|&cpu| CpuId(cpu)).collect()
    }

    proptest! {
        #[test]
        fn sets_do_what_sets_of_numbers_do(a in numbers(), b in numbers(), one in 0..1100u32) {
            let (mine, other) = (set(&a), set(&b));
            let listed = |set: &CpuSet| set.iter().map(|cpu| cpu.0).collect::<Vec<_>>();
            let of = |set: BTreeSet<u32>| set.into_iter().collect::<Vec<_>>();
            prop_assert_eq!(listed(&mine), of(a.clone()));
            prop_assert_eq!(mine.len(), a.len());
            prop_assert_eq!(mine.is_empty(), a.is_empty());
            prop_assert_eq!(mine.first().map(|cpu| cpu.0), a.first().copied());
            prop_assert_eq!(mine.contains(CpuId(one)), a.contains(&one));
            prop_assert_eq!(mine.is_subset(&other), a.is_subset(&b));
            prop_assert_eq!(mine.is_disjoint(&other), a.is_disjoint(&b));
            prop_assert_eq!(listed(&mine.intersection(&other)), of(&a & &b));
            prop_assert_eq!(listed(&mine.union(&other)), of(&a | &b));
            prop_assert_eq!(mine == other, a == b);
            prop_assert_eq!(&mine.to_string().parse::<CpuSet>().unwrap(), &mine);
            let mut copy = other.clone();
            copy.clone_from(&mine);
            copy.insert(CpuId(one));
            copy.remove(CpuId(one));
            prop_assert_eq!(listed(&copy), of(&a - &BTreeSet::from([one])));
        }
    }

    #[test]
    fn a_set_of_few_cpus_takes_no_more_room_than_a_list() {
        assert_eq!(size_of::<CpuSet>(), size_of::<Vec<u64>>());
    }

    #[test]
    fn equality_ignores_capacity() {
        let mut wide: CpuSet = "1,900".parse().unwrap();
        wide.remove(CpuId(900));
        assert_eq!(wide, "1".parse().unwrap());
    }
}
