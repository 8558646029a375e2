//! The miss-rate curve.

use corun_profile::ProfileDocument;

use super::chart;

pub(crate) fn section(document: &ProfileDocument) -> Vec<String> {
    let points: Vec<(f64, f64)> =
        document.curve.iter().map(|point| (point.bytes as f64, point.mpki)).collect();
    let mut lines = vec!["  MPKI against cache size (logarithmic)".to_owned()];
    lines.extend(chart::draw(&points).into_iter().map(|line| format!("  {line}")));
    lines
}
