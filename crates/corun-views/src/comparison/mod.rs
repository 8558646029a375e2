//! A comparison of policies: its table, its CSV, and the page of `corun compare`.

mod curves;
mod distance;
mod migrations;
mod page;
mod placements;
mod services;
mod slowdowns;
mod text;
mod trade_off;

pub use page::ComparisonPage;
pub use text::{csv, long_csv, table};
