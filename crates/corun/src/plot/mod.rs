//! Drawings of curves over cache sizes: the HTML report's and stand-alone SVG files.

mod axis;
mod frame;
mod svg;

pub(crate) use axis::Axis;
pub(crate) use frame::{Frame, Point, number};
pub(crate) use svg::{LINES, document};
