//! Which lines are followed: a spatial hash that samples evenly.
//!
//! A line is followed when its hash is at most a threshold (SHARDS: Waldspurger et al., FAST 2015,
//! section 3.1), so a lower threshold follows a part of the same lines. The hash is not the usual
//! one that treats neighbours as strangers: the line's bits are reversed and scrambled so that each
//! is flipped by those above it alone (Owen's nested scrambling of the van der Corput sequence, by
//! the multiplications of Laine and Karras, Eurographics Symposium on Rendering 2011). Of any
//! aligned stretch of lines the hashes are spread evenly, so an array of n lines has n / 100
//! followed ones in 100 to within one or two, where plain hashing is off by the root of that. Lines
//! that are no neighbours count as by any other hash. Of the lines of a page the leading bits of the
//! hashes are all different, so that those followed are found without asking each.

use super::pages::PAGE_LINES;

/// The hash of a line.
#[inline(always)]
pub(crate) fn spatial_hash(line: u64) -> u64 {
    scrambled(line.reverse_bits())
}

/// That of a line whose bits are reversed already.
#[inline(always)]
fn scrambled(reversed: u64) -> u64 {
    // Each step lets a bit depend on itself and lower ones, so that it is one to one.
    let mut hash = reversed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash ^= hash.wrapping_mul(0x6c50_b47c_d19a_3f52);
    hash = hash.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash ^= hash.wrapping_mul(0xc7af_e638_5b26_9e1a);
    hash ^ hash.wrapping_mul(0x8d22_f6e6_94d0_49ba)
}

/// Bits of a hash that the place of a line in its page decides: as many lines, as many values.
const PLACE_BITS: u32 = PAGE_LINES.ilog2();
const FIRST_PLACE_BIT: u32 = u64::BITS - PLACE_BITS;

/// The lines of a page with hashes of at most `threshold`, one bit a line from its first one on.
pub(crate) fn followed_lines(page: u64, threshold: u64) -> u64 {
    let reversed = (page * PAGE_LINES).reverse_bits();
    let mut lines = 0;
    for leading in 0..=threshold >> FIRST_PLACE_BIT {
        let (line, hash) = with_leading_bits(reversed, leading);
        lines |= u64::from(hash <= threshold) << line;
    }
    lines
}

/// The line of a page, from 0, whose hash begins with these bits, and that hash. `reversed`: the page's first line with
/// its bits reversed.
fn with_leading_bits(reversed: u64, leading: u64) -> (u64, u64) {
    let mut line = reversed;
    loop {
        let hash = scrambled(line);
        let wrong = (hash >> FIRST_PLACE_BIT ^ leading) << FIRST_PLACE_BIT;
        if wrong == 0 {
            return (line.reverse_bits() % PAGE_LINES, hash);
        }
        // A bit of the hash is the line's own, flipped or not by lower ones: the lowest wrong one is right from here on.
        line ^= wrong;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::SamplingRate;
    use crate::engine::sketch::mix;

    /// The root of the mean squared error of how many of so many lines are followed, as a multiple
    /// of that of drawing each by itself.
    fn unevenness(lines: u64, stride: u64, one_in: u64) -> f64 {
        let threshold = SamplingRate::of_one_in(one_in).threshold();
        let expected = lines as f64 / one_in as f64;
        let squares = (0..40).map(|at| {
            let first = mix(at) >> 22;
            let followed = |at: &u64| spatial_hash(first + at * stride) <= threshold;
            let count = (0..lines).filter(followed).count() as f64;
            (count - expected).powi(2)
        });
        (squares.sum::<f64>() / 40.0 / expected).sqrt()
    }

    proptest! {
        #[test]
        fn followed_lines_of_a_page_are_those_of_low_hashes(
            page in 0u64..1 << 58, one_in in 1u64..200, threshold: u64
        ) {
            for threshold in [SamplingRate::of_one_in(one_in).threshold(), threshold, 0, u64::MAX] {
                let is_followed = |at: u64| spatial_hash(page * PAGE_LINES + at) <= threshold;
                let expected = (0..PAGE_LINES).map(|at| u64::from(is_followed(at)) << at).sum::<u64>();
                prop_assert_eq!(followed_lines(page, threshold), expected);
            }
        }
    }

    #[test]
    fn neighbours_are_sampled_evenly_and_others_as_if_drawn() {
        for one_in in [8, 100, 128] {
            assert!(unevenness(16_384, 1, one_in) < 0.15, "{one_in}");
            for stride in [2, 7, 64, 100, 4096] {
                let found = unevenness(16_384, stride, one_in);
                assert!(found < 1.3, "1 in {one_in}, stride {stride}: {found}");
            }
        }
    }
}
