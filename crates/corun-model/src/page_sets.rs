//! Caches whose sets get pages by chance.
//!
//! Pages of memory lie in the sets of a cache wherever the kernel happened to put them, so that some sets get more of a
//! program's pages than they have ways, and others have room left. Where pages fall at random on the N places of a cache of
//! W ways, a line that is used again after d bytes of others is gone if W pages of these bytes fell on its place (Smith,
//! IEEE Transactions on Software Engineering 4(2), 1978; Hill and Smith, IEEE Transactions on Computers 38(12), 1989). To that
//! line the cache is one of G times its size, where G has the mean 1 and the variance (1 - 1 / N) / W. All sharers of an LRU
//! cache see the same lines go by, so that to all of them a shared cache is the mean over caches of G times its size, each
//! divided by the law of space.
//!
//! G is taken to have a gamma distribution, which has the chance of a miss within 2 points for 8 ways and more. It
//! is represented by [`SIZES`] sizes, each the mean of a part of equal probability, where G is the cube of a normal variable
//! (Wilson and Hilferty, PNAS 17(12), 1931).

use corun_machine::Cache;

/// Sizes that stand for all.
pub(crate) const SIZES: usize = 8;

/// The standard normal quantiles of 1/8 to 7/8.
const QUANTILES: [f64; SIZES - 1] =
    [-1.150_349_4, -0.674_489_8, -0.318_639_4, 0.0, 0.318_639_4, 0.674_489_8, 1.150_349_4];

/// The places of a last-level cache on which pages fall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PageSets {
    way_bytes: f64,
    /// Variance of G in one way.
    of_one_way: f64,
    /// As [`parts`].
    parts: [[f64; 3]; SIZES],
}

impl PageSets {
    /// None where the machine does not say that pages fall at random, and where a page lies in all sets alike.
    pub(crate) fn of(cache: &Cache) -> Option<Self> {
        let way_bytes = cache.size_bytes as f64 / f64::from(cache.ways?.max(1));
        let places = way_bytes / cache.random_page_bytes? as f64;
        (places > 1.0).then(|| Self::new(way_bytes, places))
    }

    fn new(way_bytes: f64, places: f64) -> Self {
        Self { way_bytes, of_one_way: 1.0 - places.recip(), parts: parts() }
    }

    /// The sizes, rising, that stand for a cache of so many bytes of these ways: to each share of the uses of lines one.
    pub(crate) fn sizes(&self, bytes: f64) -> [f64; SIZES] {
        let ways = (bytes / self.way_bytes).max(1.0);
        let variance = self.of_one_way / ways;
        // The cube of a + b z, z standard normal, in the mean over each part.
        let (a, b) = (1.0 - variance / 9.0, variance.sqrt() / 3.0);
        let cube = |[z, z2, z3]: [f64; 3]| {
            a * a * a + 3.0 * a * a * b * z + 3.0 * a * b * b * z2 + b * b * b * z3
        };
        let parts = self.parts.map(cube);
        let mean = parts.iter().sum::<f64>() / SIZES as f64;
        parts.map(|part| bytes * part / mean)
    }

    /// The largest size that stands for a cache of so many bytes.
    pub(crate) fn most(&self, bytes: f64) -> f64 {
        self.sizes(bytes)[SIZES - 1]
    }
}

/// By part of equal probability the means of z, its square and its cube.
fn parts() -> [[f64; 3]; SIZES] {
    let density = |z: f64| (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    // What the integrals up to a bound leave: of z, z^2 less the probability, and z^3.
    let below = |bound: Option<&f64>| match bound {
        None => [0.0; 3],
        Some(&z) => [-density(z), -z * density(z), -(z * z + 2.0) * density(z)],
    };
    std::array::from_fn(|part| {
        let low = below(part.checked_sub(1).map(|before| &QUANTILES[before]));
        let high = below(QUANTILES.get(part));
        let mean = |of: usize| (high[of] - low[of]) * SIZES as f64;
        [mean(0), 1.0 + mean(1), mean(2)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(ways: f64, places: f64) -> PageSets {
        PageSets::new(1024.0 / ways, places)
    }

    #[test]
    fn sizes_have_the_mean_and_nearly_the_spread_of_the_law() {
        for (ways, places) in [(16.0, 8.0), (8.0, 4.0), (16.0, 1e6), (4.0, 32.0)] {
            let sizes = sets(ways, places).sizes(1024.0);
            assert!(sizes.windows(2).all(|pair| 0.0 < pair[0] && pair[0] < pair[1]), "{sizes:?}");
            let mean = sizes.iter().sum::<f64>() / SIZES as f64;
            assert!((mean - 1024.0).abs() < 1e-6, "{mean}");
            let squares = sizes.iter().map(|size| (size / 1024.0 - 1.0).powi(2)).sum::<f64>();
            let spread = (squares / SIZES as f64).sqrt();
            let law = ((1.0 - 1.0 / places) / ways).sqrt();
            // What varies inside a part is left out: 4 % of the spread of a normal variable.
            assert!((0.93..0.99).contains(&(spread / law)), "{ways} {places}: {spread} {law}");
        }
    }

    /// By hand: of so many pages on N = 8 places, W = 16 on one of them are too many. For 128 pages, the whole cache,
    /// P(binomial(128, 1/8) >= 16) = 0.540; for 96 it is 0.141, and for 64 0.0056.
    #[test]
    fn a_line_is_gone_as_often_as_by_counting_pages() {
        let sizes = sets(16.0, 8.0).sizes(1024.0);
        let gone =
            |bytes: f64| sizes.iter().filter(|&&size| size < bytes).count() as f64 / SIZES as f64;
        for (pages, law) in [(64.0, 0.0056), (96.0, 0.141), (128.0, 0.540)] {
            let found = gone(pages * 8.0);
            assert!((found - law).abs() <= 0.5 / SIZES as f64 + 0.02, "{pages}: {found} {law}");
        }
    }

    #[test]
    fn fewer_ways_spread_more() {
        let sets = sets(16.0, 8.0);
        let widest = |ways: f64| sets.most(64.0 * ways) / (64.0 * ways);
        assert!(widest(1.0) > widest(4.0) && widest(4.0) > widest(16.0));
        // All the same a further way is never worse: each size grows with it.
        let sizes: Vec<_> = (1..=16).map(|ways| sets.sizes(64.0 * f64::from(ways))).collect();
        let grows =
            |pair: &[[f64; SIZES]]| pair[0].iter().zip(&pair[1]).all(|(one, more)| one < more);
        assert!(sizes.windows(2).all(grows), "{sizes:?}");
    }
}
