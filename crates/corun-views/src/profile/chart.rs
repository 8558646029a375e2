//! A curve drawn with characters.

use corun_report::size;

/// Columns and rows of the drawing, axes not counted.
const COLUMNS: usize = 60;
const ROWS: usize = 12;

/// Eighths of a character cell, from empty to full.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws points of rising x (bytes, logarithmic) and y >= 0 (linear from 0) as lines of text.
pub(crate) fn draw(points: &[(f64, f64)]) -> Vec<String> {
    let (Some(&first), Some(&last)) = (points.first(), points.last()) else { return Vec::new() };
    let top = points.iter().map(|point| point.1).fold(0.0, f64::max);
    if first.0 >= last.0 {
        return vec![format!("{:.2} MPKI at {}", first.1, size(first.0))];
    }
    let span = (last.0 / first.0).ln();
    let heights: Vec<usize> = (0..COLUMNS)
        .map(|column| {
            let bytes = first.0 * (span * column as f64 / (COLUMNS - 1) as f64).exp();
            let part = if top > 0.0 { between(points, bytes) / top } else { 0.0 };
            (part * (ROWS * 8) as f64).round() as usize
        })
        .collect();
    let mut lines = Vec::with_capacity(ROWS + 2);
    for row in (0..ROWS).rev() {
        let label = match row {
            row if row == ROWS - 1 => format!("{top:.2}"),
            row if row == ROWS / 2 - 1 => format!("{:.2}", top / 2.0),
            _ => String::new(),
        };
        let cells: String =
            heights.iter().map(|&height| EIGHTHS[height.saturating_sub(row * 8).min(8)]).collect();
        lines.push(format!("{label:>8} │{cells}"));
    }
    lines.push(format!("{:>8} └{}", "0", "─".repeat(COLUMNS)));
    lines.push(format!("{:10}{}", "", size_labels(first.0, last.0)));
    lines
}

/// Powers of two under their columns, some five of them.
fn size_labels(low: f64, high: f64) -> String {
    let (first, last) = (low.log2().ceil() as i32, high.log2().floor() as i32);
    let step = (f64::from(last - first) / 4.0).ceil().max(1.0) as usize;
    let mut text = String::new();
    for power in (first..=last).step_by(step) {
        let label = size(2f64.powi(power));
        let part = (f64::from(power) - low.log2()) / (high / low).log2();
        let column = (part * (COLUMNS - 1) as f64).round() as usize;
        let start = column.saturating_sub(label.len() / 2).min(COLUMNS - label.len());
        // Labels keep apart, and one that would touch the last is left out.
        if start > text.len() || text.is_empty() {
            text.push_str(&" ".repeat(start - text.len()));
            text.push_str(&label);
        }
    }
    text
}

/// Linear between points; `bytes` is within them.
fn between(points: &[(f64, f64)], bytes: f64) -> f64 {
    let above = points.partition_point(|point| point.0 <= bytes).clamp(1, points.len() - 1);
    let (low, high) = (points[above - 1], points[above]);
    let part = ((bytes - low.0) / (high.0 - low.0)).clamp(0.0, 1.0);
    low.1 + part * (high.1 - low.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_falling_curve_falls() {
        let lines = draw(&[(1024.0, 8.0), (1024.0 * 1024.0, 0.0)]);
        assert_eq!(lines.len(), ROWS + 2);
        assert!(lines[0].starts_with("    8.00 │█"));
        assert!(lines[0].ends_with(' '));
        assert!(lines[ROWS + 1].trim_start().starts_with("1 KiB"));
        assert!(lines[ROWS + 1].ends_with("512 KiB"), "{lines:?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 70), "{lines:?}");
    }

    #[test]
    fn labels_stand_under_their_columns() {
        // 1, 8, 64 and 512 KiB: 3 doublings of 10 are 17.7 of 59 columns; each label is centred.
        let labels = size_labels(1024.0, 1024.0 * 1024.0);
        let starts = ["1 KiB", "8 KiB", "64 KiB", "512 KiB"].map(|one| labels.find(one).unwrap());
        assert_eq!(starts, [0, 16, 32, 50]);
    }

    #[test]
    fn one_point_is_said_in_words() {
        assert_eq!(draw(&[(1024.0, 2.0)]), ["2.00 MPKI at 1 KiB"]);
        assert!(draw(&[]).is_empty());
    }

    #[test]
    fn a_program_that_never_misses_is_a_flat_line() {
        let lines = draw(&[(1024.0, 0.0), (2048.0, 0.0)]);
        assert!(lines[..ROWS].iter().all(|line| line.ends_with(' ')));
    }
}
