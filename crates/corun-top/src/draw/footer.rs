//! What could not be measured, and the keys.

use ratatui::Frame as Screen;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::{Theme, clip};
use crate::slider::Slider;
use crate::state::{Rows, State, View};

/// Most lines of notes.
const MOST_LINES: u16 = 4;
/// Least columns of the slider's bar that stand beside texts.
const LEAST_BAR: usize = 10;

/// What is missing or went wrong.
pub(crate) fn notes(state: &State, theme: Theme) -> Vec<Line<'static>> {
    let frame = &state.frame;
    let mut notes: Vec<String> = frame.notes.clone();
    if let Some(note) = frame.missing() {
        notes.push(note);
    }
    notes.into_iter().map(|note| Line::styled(note, theme.warning())).collect()
}

/// How many lines they take when they are wrapped.
pub(crate) fn height(notes: &[Line<'_>], width: u16) -> u16 {
    let width = usize::from(width.max(1));
    // Words do not fill lines to the end: a tenth more.
    let lines = notes.iter().map(|note| (note.width() * 11 / 10).div_ceil(width).max(1));
    u16::try_from(lines.sum::<usize>()).unwrap_or(u16::MAX).min(MOST_LINES)
}

pub(crate) fn render(notes: Vec<Line<'_>>, area: Rect, screen: &mut Screen<'_>) {
    screen.render_widget(Paragraph::new(notes).wrap(Wrap { trim: true }), area);
}

/// Where a recording is, and how to move it.
pub(crate) fn slider(slider: &Slider, theme: Theme, width: u16) -> Line<'static> {
    let (at, end) = slider.at_of_s();
    let left = format!("{at:.1} s ");
    let mut right = format!(" {end:.1} s  look {} of {}", slider.look + 1, slider.looks());
    if slider.speed() != 1.0 {
        right.push_str(&format!("  {} x", slider.speed()));
    }
    // A narrow terminal has the bar alone.
    let texts = Span::raw(left.as_str()).width() + Span::raw(right.as_str()).width();
    let room = usize::from(width);
    let (left, right, bar) = if texts + LEAST_BAR <= room {
        (left, right, room - texts)
    } else {
        (String::new(), String::new(), room)
    };
    let bar = Span::styled(slider.bar(bar), theme.colour(Color::Cyan));
    Line::from(vec![Span::raw(left), bar, Span::raw(right)])
}

/// The filter as it is typed.
fn prompt(state: &State, theme: Theme, width: u16) -> Line<'static> {
    let text = format!("filter: {}█", state.filter);
    let keys = "  Enter keeps it  Esc drops it";
    let mut line = vec![Span::styled(clip(&text, width), theme.title())];
    if line[0].width() + keys.len() <= usize::from(width) {
        line.push(Span::raw(keys));
    }
    Line::from(line)
}

/// The keys that fit, the most useful first.
pub(crate) fn keys(state: &State, theme: Theme, width: u16) -> Line<'static> {
    if state.typing {
        return prompt(state, theme, width);
    }
    let mut keys = vec![("q", "quit"), ("?", "help"), ("Tab", "view")];
    if state.slider.is_some() {
        keys.extend([("←→ []", "time"), ("+-", "speed")]);
    }
    if state.view == View::Programs {
        keys.extend([("/", "filter"), ("P M C", "sort")]);
        keys.push(("t", if state.rows == Rows::Threads { "programs" } else { "threads" }));
        keys.push(("g", if state.rows == Rows::Groups { "programs" } else { "units, pods" }));
        keys.push(("F", if state.followed.is_some() { "let go" } else { "follow" }));
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
