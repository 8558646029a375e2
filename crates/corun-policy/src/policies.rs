//! The policies, one file each. A new one is its file, its `mod` line and its line in
//! [`registry`].

mod acfs;
mod camps;
mod casc;
mod di;
mod dio;
mod dio_lfoc;
mod dio_power;
mod dunn;
mod dunn_online;
mod equal_part;
mod equal_progress;
mod hmp;
mod hsp;
mod kpart;
mod kpart_dynaway;
mod lfoc;
mod lfoc_caps;
mod lfoc_online;
mod linux_default;
mod linux_power_saving;
mod maximum_local;
mod mlb;
mod n_mass;
mod random;
mod rr;
mod ucp;
mod ucp_slowdown;
mod vbsc;
mod yu_petrov;

pub use camps::phase_hit_rate;
pub use casc::{CascFindings, casc_observed};

use crate::PolicyEntry;

/// The interval of DIO in cycles (Blagodurov et al., TOCS 2010, section 4.2).
const BILLION_CYCLES: u64 = 1_000_000_000;

/// The policies there are, in the order in which they are shown: placement, then partitioning.
pub fn registry() -> &'static [PolicyEntry] {
    static REGISTRY: &[PolicyEntry] = &[
        linux_default::ENTRY,
        random::ENTRY,
        di::ENTRY,
        dio::ENTRY,
        dio_power::ENTRY,
        linux_power_saving::ENTRY,
        maximum_local::ENTRY,
        n_mass::ENTRY,
        casc::ENTRY,
        mlb::ENTRY,
        vbsc::ENTRY,
        hmp::ENTRY,
        hsp::ENTRY,
        rr::ENTRY,
        equal_progress::ENTRY,
        acfs::ENTRY,
        camps::ENTRY,
        equal_part::ENTRY,
        ucp::ENTRY,
        ucp_slowdown::ENTRY,
        yu_petrov::ENTRY,
        kpart::ENTRY,
        dunn::ENTRY,
        lfoc::ENTRY,
        lfoc_caps::ENTRY,
        lfoc_online::ENTRY,
        kpart_dynaway::ENTRY,
        dunn_online::ENTRY,
        dio_lfoc::ENTRY,
    ];
    REGISTRY
}

#[cfg(test)]
mod tests;
