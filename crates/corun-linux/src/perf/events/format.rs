//! Where the kernel wants the parts of an event's number: the files under `format/`.

use std::ops::RangeInclusive;

/// Bits of one of the four words of an event, lowest part first: `config:0-7,32-35`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Format {
    /// `config`, `config1`, `config2` or `config3`.
    word: usize,
    bits: Vec<RangeInclusive<u32>>,
}

/// The four words of an event.
pub(super) type Words = [u64; 4];

/// A word's name.
pub(super) fn word(name: &str) -> Option<usize> {
    ["config", "config1", "config2", "config3"].iter().position(|&word| word == name)
}

impl Format {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (name, ranges) = text.trim().split_once(':')?;
        let bits: Option<Vec<_>> = ranges.split(',').map(range).collect();
        let bits = bits?;
        let width: u32 = bits.iter().map(|range| range.end() - range.start() + 1).sum();
        (width <= 64).then_some(Self { word: word(name)?, bits })
    }

    /// Puts a value in place; none where it does not fit.
    pub(super) fn put(&self, words: &mut Words, value: u64) -> Option<()> {
        let mut left = u128::from(value);
        for range in &self.bits {
            let width = range.end() - range.start() + 1;
            let mask = (1_u128 << width) - 1;
            words[self.word] |= ((left & mask) as u64) << range.start();
            left >>= width;
        }
        (left == 0).then_some(())
    }
}

fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.trim().split_once('-').unwrap_or((text.trim(), text.trim()));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last < 64).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn put(format: &str, value: u64) -> Option<Words> {
        let mut words = [0; 4];
        Format::parse(format)?.put(&mut words, value).map(|()| words)
    }

    #[test]
    fn values_go_where_the_format_says() {
        assert_eq!(put("config:8-15", 0x41), Some([0x4100, 0, 0, 0]));
        assert_eq!(put("config:23\n", 1), Some([1 << 23, 0, 0, 0]));
        // AMD's event number has its upper four bits elsewhere.
        assert_eq!(put("config:0-7,32-35", 0xfab), Some([0xf_0000_00ab, 0, 0, 0]));
        assert_eq!(put("config1:0-63", u64::MAX), Some([0, u64::MAX, 0, 0]));
        assert_eq!(put("config:23", 2), None);
    }

    #[test]
    fn what_is_no_format_is_refused() {
        for text in
            ["", "config", "config4:0", "config:3-1", "config:64", "config:a", "config:0-63,0-3"]
        {
            assert_eq!(Format::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text: String, value: u64) {
            let _ = put(&text, value);
        }

        /// A value that fits can be read back from the bits it was put in.
        #[test]
        fn what_fits_stays_whole(low in 0_u32..16, middle in 20_u32..40, value in 0_u64..1 << 12) {
            let words = put(&format!("config2:{low}-{},{middle}-{}", low + 3, middle + 7), value);
            let word = words.unwrap()[2];
            prop_assert_eq!(word >> low & 0xf | (word >> middle & 0xff) << 4, value);
        }
    }
}
