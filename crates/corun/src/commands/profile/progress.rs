//! How far a recording is, on stderr: a recording takes ten times as long as the program and more.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use corun_report::{engineering, size};
use corun_trace::{PROGRESS_SIZES, Progress};

/// Between two lines on a terminal, where each takes the place of the one before.
const ON_TERMINAL: Duration = Duration::from_millis(500);

/// Between two lines elsewhere, where they all stay: what a log can take.
const ELSEWHERE: Duration = Duration::from_secs(30);

/// Says how far a recording is.
#[derive(Debug)]
pub(super) struct ProgressLine {
    on_terminal: bool,
    next: Duration,
    limits: Limits,
}

/// What ends a recording before its program ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) instructions: Option<u64>,
    pub(super) duration: Option<Duration>,
}

impl ProgressLine {
    pub(super) fn new(limits: Limits) -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        let next = if on_terminal { ON_TERMINAL } else { ELSEWHERE };
        Self { on_terminal, next, limits }
    }

    /// Says it, where it is time to.
    pub(super) fn show(&mut self, progress: &Progress) {
        if progress.elapsed < self.next {
            return;
        }
        let words = words(progress, self.limits);
        let curve = curve(progress);
        let line = if self.on_terminal {
            self.next = progress.elapsed + ON_TERMINAL;
            let width = ratatui::crossterm::terminal::size().map_or(80, |(columns, _)| columns);
            on_terminal(&words, curve.as_deref(), width.into())
        } else {
            self.next += ELSEWHERE;
            let curve = curve.map(|curve| format!("; {curve}")).unwrap_or_default();
            format!("corun: {words}{curve}\n")
        };
        // A closed stderr leaves nobody to tell.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    /// Makes place for what comes after.
    pub(super) fn clear(&self) {
        if self.on_terminal && self.next > ON_TERMINAL {
            let _ = std::io::stderr().write_all(b"\r\x1b[J");
        }
    }
}

/// Two lines, from the first of which the next ones are written over them. What is wider than the terminal is cut: a
/// line that goes on in the next could not be written over.
fn on_terminal(words: &str, curve: Option<&str>, width: usize) -> String {
    let cut = |line: &str| line.chars().take(width.saturating_sub(1)).collect::<String>();
    let first = cut(&format!("corun: {words}"));
    match curve {
        Some(curve) => {
            let second = cut(&format!("corun: {curve}"));
            format!("\r\x1b[J{first}\n{second}\r\x1b[A\x1b[{}C", first.chars().count())
        }
        None => format!("\r\x1b[J{first}"),
    }
}

/// `misses per 1000 instructions: 9.9 in 32 KiB ▇▆▄▂▁▁ 0.1 in 64 MiB`: the curve as it forms, by sizes of which each is
/// four or eight times the one before.
fn curve(progress: &Progress) -> Option<String> {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mpki = progress.mpki?;
    let most = mpki.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let bar = |value: &f64| BARS[((value / most * 7.0).round() as usize).min(7)];
    let bars: String = mpki.iter().map(bar).collect();
    let last = PROGRESS_SIZES.len() - 1;
    let at = |place: usize| format!("{:.2} in {}", mpki[place], size(PROGRESS_SIZES[place] as f64));
    Some(format!("misses per 1000 instructions: {} {bars} {}", at(0), at(last)))
}

/// `12 s (25 %, at most 36 s left), 1.2 G instructions, 100 M a second, 3 MiB touched`. The estimate goes by the rate so
/// far, towards the limit that is nearer.
fn words(progress: &Progress, limits: Limits) -> String {
    let seconds = progress.elapsed.as_secs_f64();
    let per_s = progress.instructions as f64 / seconds.max(1e-9);
    let by_instructions = limits.instructions.filter(|_| per_s > 0.0).map(|limit| {
        let left = limit.saturating_sub(progress.instructions);
        (progress.instructions as f64 / limit as f64, left as f64 / per_s)
    });
    let by_time = limits.duration.map(|limit| {
        let left = limit.saturating_sub(progress.elapsed);
        (seconds / limit.as_secs_f64(), left.as_secs_f64())
    });
    let nearer = by_instructions.into_iter().chain(by_time).min_by(|a, b| a.1.total_cmp(&b.1));
    let estimate = nearer.map(|(share, left_s)| {
        format!(" ({:.0} %, at most {left_s:.0} s left)", (share * 100.0).min(100.0))
    });
    let mut text = format!(
        "{seconds:.0} s{}, {} instructions, {} a second",
        estimate.unwrap_or_default(),
        engineering(progress.instructions),
        engineering(per_s as u64)
    );
    if progress.footprint_bytes > 0 {
        text.push_str(&format!(", {} touched", size(progress.footprint_bytes as f64)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LIMITS: Limits = Limits { instructions: None, duration: None };

    fn after_12_s() -> Progress {
        Progress {
            elapsed: Duration::from_secs(12),
            instructions: 1_200_000_000,
            footprint_bytes: 3 << 20,
            mpki: Some([9.94, 8.0, 4.0, 1.0, 0.5, 0.02]),
        }
    }

    #[test]
    fn the_curve_stands_in_a_line_that_fits() {
        let text = curve(&after_12_s()).unwrap();
        let expected = "misses per 1000 instructions: 9.94 in 32 KiB █▇▄▂▁▁ 0.02 in 64 MiB";
        assert_eq!(text, expected);
        assert_eq!(curve(&Progress { mpki: None, ..after_12_s() }), None);
        let narrow = on_terminal(&words(&after_12_s(), NO_LIMITS), Some(&text), 40);
        let lines: Vec<usize> = narrow
            .trim_start_matches("\r\u{1b}[J")
            .split('\n')
            .map(|line| line.split('\r').next().unwrap().chars().count())
            .collect();
        assert_eq!(lines, [39, 39]);
        // Of a program that misses nowhere, too.
        let none = Progress { mpki: Some([0.0; PROGRESS_SIZES.len()]), ..after_12_s() };
        assert!(curve(&none).unwrap().contains("▁▁▁▁▁▁"));
    }

    #[test]
    fn the_rate_is_over_the_whole_time() {
        let text = words(&after_12_s(), NO_LIMITS);
        assert_eq!(text, "12 s, 1.2 G instructions, 100 M a second, 3 MiB touched");
        let early = Progress { footprint_bytes: 0, ..after_12_s() };
        assert!(!words(&early, NO_LIMITS).contains("touched"));
    }

    /// 3.6e9 instructions are left, at 1e8 a second.
    #[test]
    fn what_is_left_goes_by_the_nearer_limit() {
        let limits = Limits { instructions: Some(4_800_000_000), ..NO_LIMITS };
        let text = words(&after_12_s(), limits);
        assert!(text.starts_with("12 s (25 %, at most 36 s left), "), "{text}");
        let limits = Limits { duration: Some(Duration::from_secs(16)), ..limits };
        let text = words(&after_12_s(), limits);
        assert!(text.starts_with("12 s (75 %, at most 4 s left), "), "{text}");
        // Nothing has run: no rate, no estimate.
        let none = Progress { instructions: 0, ..after_12_s() };
        let limits = Limits { instructions: Some(1), duration: None };
        assert!(!words(&none, limits).contains("left"));
    }
}
