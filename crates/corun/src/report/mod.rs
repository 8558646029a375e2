//! The HTML report: one page that needs nothing but itself.

mod chart;
mod curves;
mod distance;
mod document;
mod page;
mod partitions;
mod placements;
#[cfg(test)]
mod sample;
mod slowdowns;
mod study;
mod time_line;

pub(crate) use chart::{Chart, ChartKind};
pub(crate) use document::size;
pub(crate) use document::{Entry, Kind, Llc, Machine, Package, Program, Report};
pub(crate) use page::render;
pub(crate) use partitions::{PartitionEntry, PartitionProgram, PartitionReport};
pub(crate) use study::{Finding, StudyFigure, StudyReport, index_of_studies, strings};
