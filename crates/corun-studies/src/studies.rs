//! The studies, in the order in which `corun-study all` runs and shows them. A study is its module
//! and its line here.

use crate::harness::Study;

mod curve_pairs;

/// Declares each module and lists its `STUDY`.
macro_rules! studies {
    ($($module:ident,)+) => {
        $(mod $module;)+

        pub(crate) const STUDIES: &[Study] = &[$($module::STUDY),+];
    };
}

studies! {
    classification,
    factors,
    ranking,
    dio_mixes,
    lamp,
    dio_power,
    energy,
    n_mass,
    mlb,
    casc,
    camps,
    lfoc,
    partitioning,
    rivals,
    parties,
    small_fleets,
    prediction,
    sampling,
    rerecording,
}
