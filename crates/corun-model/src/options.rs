//! The choices a user has: law of space, model of bandwidth, compatibility.

/// How programs that share a cache divide its space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SpaceLaw {
    /// Every sharer of an LRU cache sees the same fill time.
    #[default]
    FillTime,
    /// In proportion to misses per cycle: the law of random replacement.
    Proportional,
    /// A way at a time to the highest demand, as KPart walks it.
    Whirlpool,
}

/// What limited bandwidth costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BandwidthModel {
    /// Nothing.
    None,
    /// KPart's rule: beyond the peak, all are cut.
    Simple,
    /// Morad's probabilistic model, slowdown B / B' (thesis, eq. 5.8-5.9).
    Morad,
    /// The thesis's: Morad's B / B' weighted by the share of memory stalls (eq. 5.10).
    Stalls,
    /// Stretches the memory part of CPI alone.
    #[default]
    Additive,
}

/// What else to do as somebody else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compatibility {
    /// corun's own choices.
    #[default]
    Own,
    /// As the public simulator PBBCache does.
    Pbbcache,
}

/// All choices together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ModelOptions {
    /// The law of space.
    pub space: SpaceLaw,
    /// The model of bandwidth.
    pub bandwidth: BandwidthModel,
    /// Compatibility.
    pub compatibility: Compatibility,
}
