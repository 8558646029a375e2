//! What a cache is made of.

use std::fmt;
use std::str::FromStr;

/// Ways at most: a mask has one bit a way.
const MOST_WAYS: u32 = 64;

/// Lines at most: 64 GiB of 64-byte lines.
const MOST_LINES: u64 = 1 << 30;

/// Which line leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Replacement {
    /// The least recently used one.
    #[default]
    Lru,
    /// The one that a binary tree of one-bit arrows points at; ways are a power of two.
    TreePlru,
    /// Static re-reference interval prediction with 2 bits and hit priority (Jaleel, Theobald,
    /// Steely and Emer, ISCA 2010).
    Srrip,
    /// Any, drawn with a fixed seed.
    Random,
}

impl Replacement {
    /// All kinds with their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("lru", Self::Lru),
        ("plru", Self::TreePlru),
        ("srrip", Self::Srrip),
        ("random", Self::Random),
    ];
}

impl fmt::Display for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, one)| one == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl FromStr for Replacement {
    type Err = GeometryError;

    fn from_str(text: &str) -> Result<Self, GeometryError> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found
            .map(|&(_, one)| one)
            .ok_or_else(|| GeometryError::Replacement { found: text.to_owned() })
    }
}

/// Which set a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Indexing {
    /// By a hash of the line and its process, as last-level caches of today do, and as physical
    /// addresses spread pages over sets.
    #[default]
    Hashed,
    /// Line modulo sets: programs at equal addresses meet in equal sets.
    Modulo,
}

/// Size and form of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of all lines together.
    pub bytes: u64,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// Ways of a set; `None`: one set of all lines.
    pub ways: Option<u32>,
}

/// A cache of a geometry: how it chooses what leaves, and the sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheConfig {
    /// Size and form.
    pub geometry: Geometry,
    /// What leaves; a fully associative cache has LRU only.
    pub replacement: Replacement,
    /// Which set.
    pub indexing: Indexing,
}

/// A cache that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// A text that describes no cache.
    #[error("`{found}` is no cache: expected SIZE/WAYS such as 2MiB/16, or SIZE/full")]
    Text {
        /// What was found.
        found: String,
    },
    /// A name that is no kind of replacement.
    #[error("`{found}` is no replacement: expected lru, plru, srrip or random")]
    Replacement {
        /// What was found.
        found: String,
    },
    /// Not a whole number of sets, or too many lines.
    #[error(
        "{bytes} bytes in {ways} ways of {line_bytes}-byte lines: expected a whole number of sets, \
         at least one, 1 to {MOST_WAYS} ways and at most 2^30 lines"
    )]
    Sets {
        /// Bytes in all.
        bytes: u64,
        /// Ways.
        ways: u64,
        /// Bytes of a line.
        line_bytes: u64,
    },
    /// A tree needs a power of two.
    #[error("tree-PLRU with {ways} ways: expected a power of two")]
    TreeWays {
        /// What was found.
        ways: u32,
    },
    /// Only LRU is there for a fully associative cache.
    #[error("a fully associative cache replaces by LRU: expected no `{replacement}`")]
    FullReplacement {
        /// What was asked for.
        replacement: Replacement,
    },
    /// A mask that names no way of the cache, or ways that it has not.
    #[error("the way mask {mask:#x} does not fit a cache of {ways} ways")]
    Mask {
        /// What was found.
        mask: u64,
        /// Ways there are; 0 for a fully associative cache, which has no ways to mask.
        ways: u32,
    },
}

impl Geometry {
    /// Lines in all.
    pub fn lines(&self) -> u64 {
        self.bytes / self.line_bytes
    }

    /// Sets; 1 where it is fully associative.
    pub fn sets(&self) -> u64 {
        self.ways.map_or(1, |ways| self.lines() / u64::from(ways))
    }

    /// # Errors
    /// [`GeometryError::Sets`] when it is no whole number of sets, or too large.
    pub fn check(&self) -> Result<(), GeometryError> {
        let ways = self.ways.map_or(1, u64::from);
        let whole = ways > 0
            && ways <= u64::from(MOST_WAYS)
            && self.line_bytes > 0
            && self.bytes > 0
            && self.line_bytes.checked_mul(ways).is_some_and(|set| self.bytes.is_multiple_of(set))
            && self.lines() <= MOST_LINES;
        let Self { bytes, line_bytes, .. } = *self;
        if whole { Ok(()) } else { Err(GeometryError::Sets { bytes, ways, line_bytes }) }
    }

    /// Reads `SIZE/WAYS` or `SIZE/full`, SIZE being a number with KiB, MiB or GiB, or of bytes.
    ///
    /// # Errors
    /// [`GeometryError`] when it is none.
    pub fn parse(text: &str, line_bytes: u64) -> Result<Self, GeometryError> {
        let bad = || GeometryError::Text { found: text.to_owned() };
        let (size, ways) = text.split_once('/').ok_or_else(bad)?;
        let digits = size.find(|one: char| !one.is_ascii_digit()).unwrap_or(size.len());
        let (number, unit) = size.split_at(digits);
        let unit = match unit {
            "" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return Err(bad()),
        };
        let number: u64 = number.parse().map_err(|_| bad())?;
        let bytes = number.checked_mul(unit).ok_or_else(bad)?;
        let ways = match ways {
            "full" => None,
            ways => Some(ways.parse().map_err(|_| bad())?),
        };
        let geometry = Self { bytes, line_bytes, ways };
        geometry.check()?;
        Ok(geometry)
    }
}

impl CacheConfig {
    /// # Errors
    /// [`GeometryError`] when there can be no such cache.
    pub fn check(&self) -> Result<(), GeometryError> {
        self.geometry.check()?;
        match self.geometry.ways {
            None if self.replacement != Replacement::Lru => {
                Err(GeometryError::FullReplacement { replacement: self.replacement })
            }
            Some(ways) if self.replacement == Replacement::TreePlru && !ways.is_power_of_two() => {
                Err(GeometryError::TreeWays { ways })
            }
            _ => Ok(()),
        }
    }

    /// The mask of all ways; 0 for a fully associative cache.
    pub fn all_ways(&self) -> u64 {
        self.geometry.ways.map_or(0, |ways| u64::MAX >> (64 - ways))
    }

    /// # Errors
    /// [`GeometryError::Mask`] when a mask is not of some of this cache's ways.
    pub fn check_mask(&self, mask: u64) -> Result<(), GeometryError> {
        if mask != 0 && mask & !self.all_ways() == 0 {
            return Ok(());
        }
        Err(GeometryError::Mask { mask, ways: self.geometry.ways.unwrap_or(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read() {
        let two_mib = Geometry::parse("2MiB/16", 64).unwrap();
        assert_eq!((two_mib.lines(), two_mib.sets()), (32768, 2048));
        // 20-way caches of 2.5 MiB have 2048 sets, 11-way ones of 1408 KiB too; 3 sets are fine.
        assert_eq!(Geometry::parse("2560KiB/20", 64).unwrap().sets(), 2048);
        assert_eq!(Geometry::parse("768/4", 64).unwrap().sets(), 3);
        assert_eq!(Geometry::parse("1GiB/full", 64).unwrap().ways, None);
        for text in ["", "2MiB", "2MB/16", "2MiB/0", "2MiB/65", "100/1", "0/1", "2MiB/x", "-1/1"] {
            assert!(Geometry::parse(text, 64).is_err(), "{text}");
        }
        assert!(Geometry::parse("99999999999999999999GiB/1", 64).is_err());
        assert!(Geometry::parse("17179869184GiB/1", 64).is_err());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let geometry = Geometry::parse("768/3", 64).unwrap();
        let mut shape = CacheConfig {
            geometry,
            replacement: Replacement::TreePlru,
            indexing: Indexing::Modulo,
        };
        assert_eq!(shape.check(), Err(GeometryError::TreeWays { ways: 3 }));
        shape.replacement = Replacement::Srrip;
        assert_eq!(shape.check(), Ok(()));
        assert!(shape.check_mask(0b101).is_ok());
        assert!(shape.check_mask(0).is_err() && shape.check_mask(0b1000).is_err());
        shape.geometry.ways = None;
        assert!(shape.check().is_err() && shape.check_mask(1).is_err());
    }
}
