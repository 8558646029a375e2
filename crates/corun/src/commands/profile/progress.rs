//! How far a recording is, on stderr: a recording takes ten times as long as the program and more.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use corun_report::{engineering, size};
use corun_trace::Progress;

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
        let line = if self.on_terminal {
            self.next = progress.elapsed + ON_TERMINAL;
            format!("\r\x1b[Kcorun: {words}")
        } else {
            self.next += ELSEWHERE;
            format!("corun: {words}\n")
        };
        // A closed stderr leaves nobody to tell.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    /// Makes place for what comes after.
    pub(super) fn clear(&self) {
        if self.on_terminal && self.next > ON_TERMINAL {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

/// `12 s, 1.2 G instructions, 100 M a second, 3 MiB touched; 25 %, some 36 s left at most`. The estimate goes by the
/// rate so far, towards the limit that is nearer.
fn words(progress: &Progress, limits: Limits) -> String {
    let seconds = progress.elapsed.as_secs_f64();
    let per_s = progress.instructions as f64 / seconds.max(1e-9);
    let mut text = format!(
        "{seconds:.0} s, {} instructions, {} a second",
        engineering(progress.instructions),
        engineering(per_s as u64)
    );
    if progress.footprint_bytes > 0 {
        text.push_str(&format!(", {} touched", size(progress.footprint_bytes as f64)));
    }
    let by_instructions = limits.instructions.filter(|_| per_s > 0.0).map(|limit| {
        let left = limit.saturating_sub(progress.instructions);
        (progress.instructions as f64 / limit as f64, left as f64 / per_s)
    });
    let by_time = limits.duration.map(|limit| {
        let left = limit.saturating_sub(progress.elapsed);
        (seconds / limit.as_secs_f64(), left.as_secs_f64())
    });
    let nearer = by_instructions.into_iter().chain(by_time).min_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((share, left_s)) = nearer {
        let percent = (share * 100.0).min(100.0);
        text.push_str(&format!("; {percent:.0} %, some {left_s:.0} s left at most"));
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
        }
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
        assert!(text.ends_with("; 25 %, some 36 s left at most"), "{text}");
        let limits = Limits { duration: Some(Duration::from_secs(16)), ..limits };
        let text = words(&after_12_s(), limits);
        assert!(text.ends_with("; 75 %, some 4 s left at most"), "{text}");
        // Nothing has run: no rate, no estimate.
        let none = Progress { instructions: 0, ..after_12_s() };
        let limits = Limits { instructions: Some(1), duration: None };
        assert!(!words(&none, limits).contains("left"));
    }
}
