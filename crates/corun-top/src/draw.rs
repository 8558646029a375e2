//! The view on the screen.

mod body;
mod footer;

use ratatui::Frame as Screen;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::state::{State, View};
use corun_report::counted;

/// The least height at which the last decisions stand below the programs.
const HEIGHT_FOR_DECISIONS: u16 = 16;
/// Lines of them, their heading included.
const DECISIONS_BELOW: u16 = 5;

/// What marks what. Without colours all that they say is said otherwise, too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Theme {
    colours: bool,
}

impl Theme {
    /// With colours, unless the user wants none (no-color.org).
    pub(crate) fn of_user() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colours: !unwanted }
    }

    /// Without colours.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self { colours: false }
    }

    fn colour(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// The selected line; one that the selection follows is underlined, too.
    fn selected(self, followed: bool) -> Style {
        let style = Style::new().add_modifier(Modifier::REVERSED);
        if followed { style.add_modifier(Modifier::UNDERLINED) } else { style }
    }

    fn warning(self) -> Style {
        self.colour(Color::Yellow)
    }

    fn class(self, class: &str) -> Style {
        match class {
            "streaming" => self.colour(Color::Red),
            "sensitive" => self.colour(Color::Yellow),
            "light-sharing" => self.colour(Color::Green),
            _ => self.faint(),
        }
    }
}

/// Draws everything. Gives the number of lines that the view's body has.
pub(crate) fn draw(state: &State, theme: Theme, screen: &mut Screen<'_>) -> usize {
    let area = screen.area();
    let notes = footer::notes(state, theme);
    let notes_height = footer::height(&notes, area.width).min(area.height.saturating_sub(6));
    let shows_below = state.view == View::Programs
        && !state.help
        && state.frame.policy.is_some()
        && area.height >= HEIGHT_FOR_DECISIONS;
    let below = if shows_below { DECISIONS_BELOW } else { 0 };
    let slider_height = u16::from(state.slider.is_some());
    let [title, tabs, body, decisions, note, slider, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(below),
        Constraint::Length(notes_height),
        Constraint::Length(slider_height),
        Constraint::Length(1),
    ])
    .areas(area);
    screen.render_widget(self::title(state, theme, area.width), title);
    screen.render_widget(self::tabs(state, theme), tabs);
    let lines = if state.help {
        body::help(state, theme, body, screen)
    } else {
        match state.view {
            View::Programs => body::table(state, theme, body, screen),
            View::Machine => body::machine(state, theme, body, screen),
            View::Decisions => body::decisions(state, theme, body, screen),
        }
    };
    if shows_below {
        body::last_decisions(state, theme, decisions, screen);
    }
    footer::render(notes, note, screen);
    if let Some(place) = &state.slider {
        screen.render_widget(footer::slider(place, theme, area.width), slider);
    }
    screen.render_widget(footer::keys(state, theme, area.width), keys);
    lines
}

fn title(state: &State, theme: Theme, width: u16) -> Line<'static> {
    let frame = &state.frame;
    let what = if state.paused { "PAUSED".to_owned() } else { format!("{:.0} s", frame.time_s) };
    let mut parts = vec![what, counted(frame.programs.len(), "program")];
    parts.push(counted(frame.threads.len(), "thread"));
    if !state.filter.is_empty() {
        parts.insert(1, format!("filter \"{}\"", state.filter));
    }
    if let Some(policy) = &frame.policy {
        parts.push(format!("{policy} (dry run)"));
    }
    parts.extend(frame.others_text());
    parts.push(frame.machine.clone());
    let what = if state.slider.is_some() { "corun top, recorded" } else { "corun top" };
    let mut line = vec![Span::styled(what, theme.title())];
    for (place, part) in parts.into_iter().enumerate() {
        let style = if place == 0 && state.paused { theme.warning() } else { Style::new() };
        let span = Span::styled(format!("  {part}"), style);
        let used: usize = line.iter().map(Span::width).sum();
        // Whole parts or nothing.
        if used + span.width() <= usize::from(width) {
            line.push(span);
        }
    }
    Line::from(line)
}

fn tabs(state: &State, theme: Theme) -> Line<'static> {
    let mut line = Vec::new();
    for view in View::ALL {
        let shown = view == state.view;
        let style =
            if shown { theme.title().patch(theme.colour(Color::Cyan)) } else { theme.faint() };
        let text =
            if shown { format!("[{}]", view.title()) } else { format!(" {} ", view.title()) };
        line.push(Span::styled(text, style));
    }
    Line::from(line)
}

/// A text cut to a width, with a mark where something is missing.
fn clip(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for letter in text.chars() {
        kept.push(letter);
        if Span::raw(kept.as_str()).width() + 1 > width {
            kept.pop();
            break;
        }
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// A text of which the end is kept.
fn clip_front(text: &str, width: u16) -> String {
    let reversed: String = text.chars().rev().collect();
    clip(&reversed, width).chars().rev().collect()
}

/// Where nothing is to be shown: why.
fn empty(text: &'static str, theme: Theme, area: Rect, screen: &mut Screen<'_>) {
    screen.render_widget(Line::styled(text, theme.faint()), area);
}

#[cfg(test)]
mod tests;
