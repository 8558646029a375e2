//! Predictions beside what was measured: the text, the drawing and the page of `corun validate`.

mod page;
mod text;

pub use page::{drawing, page};
pub use text::text;
