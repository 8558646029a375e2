//! How programs that share a partition divide it, as KPart sees it (Mukkara, Beckmann and Sanchez,
//! Whirlpool, ASPLOS 2016; El-Sayed et al., KPart, HPCA 2018; García García, thesis, UCM 2021,
//! section 5.3.3).
//!
//! Curves are slices with the figure at 1 way first.

/// A number of ways at which curves are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ways {
    whole: usize,
    /// What is beyond the whole ways.
    part: f64,
}

impl Ways {
    #[inline]
    pub(crate) fn new(ways: f64) -> Self {
        let whole = ways as usize;
        Self { whole, part: ways - whole as f64 }
    }

    /// A curve in a straight line between whole ways; below one way in the line through 1 and 2
    /// ways, and at least `floor` at no way at all.
    #[inline]
    pub(crate) fn of(self, curve: &[f64], floor: f64) -> f64 {
        let Self { whole, part } = self;
        if whole == 0 {
            let first = curve[0];
            let none = first + (first - curve.get(1).copied().unwrap_or(first));
            let none = if none <= 0.0 { floor } else { none };
            return (1.0 - part) * none + part * first;
        }
        match curve.get(whole - 1..=whole) {
            Some(around) => (1.0 - part) * around[0] + part * around[1],
            None => curve[curve.len() - 1],
        }
    }

    /// The pull of a sharer that holds so many ways: its curve one way further on.
    #[inline]
    fn pull(self, curve: &[f64]) -> f64 {
        let Self { whole, part } = self;
        match curve.get(whole..=whole + 1) {
            Some(around) => (1.0 - part) * around[0] + part * around[1],
            None => curve[curve.len() - 1],
        }
    }
}

/// One step of the walk: one way more, divided among the sharers in proportion to the pull of each.
/// Where nobody pulls, evenly. `held` is in ways; `pulls` is working memory.
#[inline]
pub(crate) fn step<'a>(
    held: &mut [f64],
    pulls: &mut Vec<f64>,
    curves: impl Iterator<Item = &'a [f64]>,
) {
    pulls.resize(held.len(), 0.0);
    let mut sum = 0.0;
    for ((pull, &held), curve) in pulls.iter_mut().zip(&*held).zip(curves) {
        *pull = Ways::new(held).pull(curve);
        sum += *pull;
    }
    if sum > 0.0 {
        for (held, pull) in held.iter_mut().zip(pulls) {
            *held += *pull / sum;
        }
    } else {
        let even = 1.0 / held.len() as f64;
        held.iter_mut().for_each(|held| *held += even);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(curve: &[f64], ways: f64, floor: f64) -> f64 {
        Ways::new(ways).of(curve, floor)
    }

    #[test]
    fn curves_are_read_between_and_below_ways() {
        let curve = [10.0, 6.0, 5.0];
        assert_eq!(
            [1.0, 1.5, 2.0, 3.0, 4.0].map(|ways| at(&curve, ways, 0.0)),
            [10.0, 8.0, 6.0, 5.0, 5.0]
        );
        assert_eq!([0.0, 0.5].map(|ways| at(&curve, ways, 0.0)), [14.0, 12.0]);
        assert_eq!(at(&[1.0, 3.0], 0.0, 1e-6), 1e-6);
        assert_eq!(at(&[7.0], 0.5, 0.0), 7.0);
    }

    #[test]
    fn the_walk_by_hand() {
        let curves: [&[f64]; 2] = [&[30.0, 20.0, 10.0], &[10.0, 10.0, 10.0]];
        let (mut held, mut pulls) = (vec![0.0; 2], Vec::new());
        step(&mut held, &mut pulls, curves.into_iter());
        assert_eq!(held, [0.75, 0.25]);
        // At 0.75 ways the first is read 3/4 of the way from 30 to 20: 22.5, beside 10.
        step(&mut held, &mut pulls, curves.into_iter());
        assert!((held[0] - (0.75 + 22.5 / 32.5)).abs() < 1e-12, "{held:?}");
        assert!((held.iter().sum::<f64>() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn nobody_pulls() {
        let (mut held, mut pulls) = (vec![0.0; 4], Vec::new());
        step(&mut held, &mut pulls, std::iter::repeat(&[0.0, 0.0][..]));
        assert_eq!(held, [0.25; 4]);
    }
}
