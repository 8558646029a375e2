//! What could not be measured, and the keys.

use ratatui::Frame as Screen;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::super::state::{State, View};
use super::Theme;

/// Most lines of notes.
const MOST_LINES: u16 = 4;

/// What is missing or went wrong.
pub(super) fn notes(state: &State, theme: Theme) -> Vec<Line<'static>> {
    let frame = &state.frame;
    let mut notes: Vec<String> = frame.notes.clone();
    if let Some(note) = frame.missing() {
        notes.push(note);
    }
    notes.into_iter().map(|note| Line::styled(note, theme.warning())).collect()
}

/// How many lines they take when they are wrapped.
pub(super) fn height(notes: &[Line<'_>], width: u16) -> u16 {
    let width = usize::from(width.max(1));
    // Words do not fill lines to the end: a tenth more.
    let lines = notes.iter().map(|note| (note.width() * 11 / 10).div_ceil(width).max(1));
    u16::try_from(lines.sum::<usize>()).unwrap_or(u16::MAX).min(MOST_LINES)
}

pub(super) fn render(notes: Vec<Line<'_>>, area: Rect, screen: &mut Screen<'_>) {
    screen.render_widget(Paragraph::new(notes).wrap(Wrap { trim: true }), area);
}

/// The keys that fit, the most useful first.
pub(super) fn keys(state: &State, theme: Theme, width: u16) -> Line<'static> {
    let mut keys = vec![("q", "quit"), ("?", "help"), ("Tab", "view")];
    if state.view == View::Programs {
        keys.extend([("<>", "sort"), ("r", "reverse")]);
        keys.push(("t", if state.by_thread { "programs" } else { "threads" }));
    }
    keys.push(("p", if state.paused { "go on" } else { "hold" }));
    let mut line: Vec<Span<'static>> = Vec::new();
    for (key, does) in keys {
        let gap = if line.is_empty() { "" } else { "  " };
        let spans =
            [Span::styled(format!("{gap}{key}"), theme.title()), Span::raw(format!(" {does}"))];
        let used: usize = line.iter().chain(&spans).map(Span::width).sum();
        if used <= usize::from(width) {
            line.extend(spans);
        }
    }
    Line::from(line)
}
