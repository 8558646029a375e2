//! The HTML pages of `corun compare` and `corun partition`.

mod comparison;
mod curves;
mod distance;
mod migrations;
mod partition;
mod placements;
mod slowdowns;
mod trade_off;

pub(crate) use comparison::ComparisonPage;
pub(crate) use partition::PartitionPage;
