//! What a program is to a shared cache: streaming, sensitive or light sharing.
//!
//! The criteria are those of LFOC (García García, doctoral thesis, UCM 2021, Table 6.1): they look
//! at how a program alone slows down, and how often it misses, as its ways of the LLC get fewer.

use crate::WaysCurve;

/// A program's class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheClass {
    /// It misses often, whatever space it has, and hardly slows down without any: it hurts those
    /// who share its ways and gains nothing by it.
    Streaming,
    /// It slows down as its ways get fewer.
    Sensitive,
    /// Neither: mostly, its data fit into the private caches.
    LightSharing,
}

impl CacheClass {
    /// Its name in tables and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Streaming => "streaming",
            Self::Sensitive => "sensitive",
            Self::LightSharing => "light-sharing",
        }
    }
}

/// The limits of the classes. The defaults are the thesis's (Table 6.1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassLimits {
    /// A streaming program has a way count at which it slows down by at most this (1.03) ..
    pub streaming_slowdown: f64,
    /// .. while it has at least so many LLC misses per 1000 cycles (10).
    pub streaming_mpkc: f64,
    /// At every way count a streaming program slows down by less than this (1.06).
    pub streaming_slowdown_below: f64,
    /// A sensitive program slows down by at least this (1.05) ..
    pub sensitive_slowdown: f64,
    /// .. at a count of at least so many ways (2). The table's "for a number of ways >= 2" could
    /// also mean at two counts or more; of a slowdown that never falls as ways get fewer, both
    /// readings say the same.
    pub sensitive_ways: u32,
}

impl Default for ClassLimits {
    fn default() -> Self {
        Self {
            streaming_slowdown: 1.03,
            streaming_mpkc: 10.0,
            streaming_slowdown_below: 1.06,
            sensitive_slowdown: 1.05,
            sensitive_ways: 2,
        }
    }
}

/// The class of a program by its curve.
pub fn classify(curve: &WaysCurve, limits: &ClassLimits) -> CacheClass {
    let points = curve.points();
    let streams = points.iter().any(|point| {
        point.slowdown <= limits.streaming_slowdown && point.llc_mpkc >= limits.streaming_mpkc
    });
    let steady = points.iter().all(|point| point.slowdown < limits.streaming_slowdown_below);
    if streams && steady {
        return CacheClass::Streaming;
    }
    let from = (limits.sensitive_ways.max(1) as usize - 1).min(points.len());
    let slows = points[from..].iter().any(|point| point.slowdown >= limits.sensitive_slowdown);
    if slows { CacheClass::Sensitive } else { CacheClass::LightSharing }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WaysPoint;

    /// Slowdown and misses per 1000 cycles from 1 way up.
    fn curve(points: &[(f64, f64)]) -> WaysCurve {
        let point = |&(slowdown, llc_mpkc)| WaysPoint { slowdown, llc_mpkc, ..Default::default() };
        WaysCurve::new(points.iter().map(point).collect()).unwrap()
    }

    fn class(points: &[(f64, f64)]) -> CacheClass {
        classify(&curve(points), &ClassLimits::default())
    }

    #[test]
    fn many_misses_at_no_cost_are_streaming() {
        assert_eq!(class(&[(1.059, 20.0), (1.03, 10.0), (1.0, 9.0)]), CacheClass::Streaming);
        // Never both at one way count: at 1 way too slow, at 2 ways too few misses.
        assert_eq!(class(&[(1.031, 10.0), (1.03, 9.9), (1.0, 9.0)]), CacheClass::LightSharing);
        // Too slow with 1 way: then it streams no more, but 1 way alone does not make it sensitive.
        assert_eq!(class(&[(1.06, 20.0), (1.03, 15.0), (1.0, 12.0)]), CacheClass::LightSharing);
    }

    #[test]
    fn a_slowdown_from_two_ways_on_is_sensitive() {
        assert_eq!(class(&[(1.5, 8.0), (1.05, 4.0), (1.0, 1.0)]), CacheClass::Sensitive);
        assert_eq!(class(&[(1.5, 8.0), (1.049, 4.0), (1.0, 1.0)]), CacheClass::LightSharing);
        // Streaming comes first: 1.055 at 2 ways would do for sensitive.
        assert_eq!(class(&[(1.055, 30.0), (1.055, 30.0), (1.0, 30.0)]), CacheClass::Streaming);
    }

    #[test]
    fn the_rest_is_light_sharing() {
        assert_eq!(class(&[(1.0, 0.1), (1.0, 0.1)]), CacheClass::LightSharing);
        assert_eq!(class(&[(9.0, 0.1)]), CacheClass::LightSharing);
    }

    #[test]
    fn limits_can_be_others() {
        let limits = ClassLimits { sensitive_ways: 1, ..ClassLimits::default() };
        assert_eq!(classify(&curve(&[(1.2, 2.0)]), &limits), CacheClass::Sensitive);
    }
}
