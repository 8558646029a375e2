//! Options of the model.

use clap::{Args, ValueEnum};
use corun_model::{BandwidthModel, ModelOptions, SpaceLaw};

use crate::{bandwidth, share};

/// Whose choices the model makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compat {
    /// Results as of the public simulator PBBCache
    Pbbcache,
}

/// How slowdowns are computed.
#[derive(Debug, Default, Args)]
pub struct ModelArgs {
    /// What limited bandwidth costs: none, simple, morad, stalls, additive, loaded or by-machine [default:
    /// by-machine: loaded where the machine's latency under load was measured, else additive]
    #[arg(long, value_name = "MODEL", conflicts_with = "compat")]
    pub bandwidth_model: Option<BandwidthModel>,
    /// How a shared cache divides: fill-time, proportional, whirlpool or whirlpool-mpki
    /// [default: fill-time]
    #[arg(long, value_name = "LAW", conflicts_with = "compat")]
    pub space: Option<SpaceLaw>,
    /// Peak of each memory controller in MB/s (1e6 bytes a second), instead of the machine's
    #[arg(long, value_name = "MB/s", value_parser = bandwidth)]
    pub peak_bandwidth: Option<f64>,
    /// Share of a peak that a program alone draws at most, above 0 and below 1 [default: 0.95]
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with = "compat")]
    pub solo_peak_share: Option<f64>,
    /// Compute as another simulator does, to compare results with that simulator's
    #[arg(long, value_enum, value_name = "WHOSE")]
    pub compat: Option<Compat>,
}

/// The model's options as typed. Names and ranges were checked with the command line.
pub fn model_options(arguments: &ModelArgs) -> ModelOptions {
    let own = ModelOptions::default();
    match arguments.compat {
        Some(Compat::Pbbcache) => ModelOptions::pbbcache(arguments.peak_bandwidth),
        None => ModelOptions {
            space: arguments.space.unwrap_or(own.space),
            bandwidth: arguments.bandwidth_model.unwrap_or(own.bandwidth),
            peak_mb_per_s: arguments.peak_bandwidth,
            solo_peak_share: arguments.solo_peak_share,
            ..own
        },
    }
}
