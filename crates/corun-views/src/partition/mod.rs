//! A partition of an LLC: its table, its CSV, and the page of `corun partition`.

mod page;
mod text;

pub use page::PartitionPage;
pub use text::{csv, table};
