//! The three views and the help.

use ratatui::Frame as Screen;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Paragraph, Row, Table, Wrap};

use super::{Theme, clip, clip_front, empty};
use crate::columns::{Column, Fitted, scaled};
use crate::frame::Line;
use crate::state::{Rows, State};
use crate::tree::TreeLine;
use corun_hosting::DecisionLine;
use corun_report::counted;

/// Keys and what they do. Those of htop do what they do there.
const KEYS: [(&str, &str); 11] = [
    ("q F10  ? F1", "quit; this help"),
    ("Tab 1 2 3", "the next view, or that one"),
    ("t H", "a line a thread, or a program"),
    ("g", "a line a unit, pod or cgroup"),
    ("/ F4", "only lines with a text"),
    ("up down PgUp Home", "select a line, or scroll"),
    ("F", "the selection follows its line"),
    ("P M C N", "by CPU, memory, misses, number"),
    ("< > F6  r I", "another column; turned round"),
    ("p space", "hold the figures, and go on"),
    ("Esc", "no filter; no following; quit"),
];

/// Columns of the longest keys, and of all keys with what the longest does and two spaces behind it.
const KEYS_WIDTH: usize = 17;
const LEFT_WIDTH: u16 = 50;

/// Keys of a recording that is played.
const REPLAY_KEYS: [(&str, &str); 4] = [
    ("left right", "a look back, or on"),
    ("[ ]", "far back, or on"),
    ("{ }", "the beginning, the end"),
    ("+ -", "faster, slower"),
];

/// The table of programs, threads or groups.
pub(crate) fn table(state: &State, theme: Theme, area: Rect, screen: &mut Screen<'_>) -> usize {
    let columns = Column::fitting(state.rows, &state.frame, area.width);
    let head = Row::new(columns.iter().map(|one| head(state, *one))).style(theme.heading());
    let lines = state.lines();
    let page = usize::from(area.height.saturating_sub(1));
    let shown = lines.iter().enumerate().skip(state.offset).take(page);
    let rows = shown.map(|(place, line)| {
        let row = Row::new(columns.iter().map(|one| cell(line, *one, theme)));
        if place == state.cursor {
            row.style(theme.selected(state.followed.is_some()))
        } else {
            row
        }
    });
    let widths = columns.iter().map(|one| Constraint::Length(one.width));
    screen.render_widget(Table::new(rows, widths).header(head).column_spacing(1), area);
    if lines.is_empty() {
        let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        empty(why_empty(state), theme, below, screen);
    }
    page
}

fn why_empty(state: &State) -> &'static str {
    match state.rows {
        _ if !state.filter.is_empty() => "no line has the text of the filter: Esc shows all",
        Rows::Groups if !state.frame.threads.is_empty() => "cgroups are not known here",
        _ => "no process of those that are watched runs",
    }
}

fn head(state: &State, Fitted { column, width }: Fitted) -> Text<'static> {
    let mark = match (column == state.sort, state.reverse) {
        (false, _) => "",
        (true, false) => "▼",
        (true, true) => "▲",
    };
    aligned(column, clip(&format!("{}{mark}", column.head()), width), Style::new())
}

fn cell(line: &Line, Fitted { column, width }: Fitted, theme: Theme) -> Text<'static> {
    let text = column.text(line);
    let style = match column {
        Column::Program | Column::Group => theme.title(),
        Column::Class => theme.class(&text),
        Column::Would => theme.warning(),
        _ if text == "-" => theme.faint(),
        _ => Style::new(),
    };
    // Of a cgroup's path the end tells most.
    let text = match column {
        Column::Group if text.starts_with('/') => clip_front(&text, width),
        _ => clip(&text, width),
    };
    aligned(column, text, style)
}

fn aligned(column: Column, text: String, style: Style) -> Text<'static> {
    let text = Text::styled(text, style);
    if column.is_figure() { text.right_aligned() } else { text }
}

/// The tree with those who are on it.
pub(crate) fn machine(state: &State, theme: Theme, area: Rect, screen: &mut Screen<'_>) -> usize {
    let page = usize::from(area.height);
    let shown = state.frame.tree.iter().skip(state.offset).take(page);
    let lines: Vec<Text<'_>> = shown.map(|line| tree_line(line, theme)).collect();
    screen.render_widget(Paragraph::new(lines), area);
    page
}

fn tree_line(line: &TreeLine, theme: Theme) -> Text<'static> {
    let style = if line.cpu.is_some() { Style::new() } else { theme.title() };
    let label = format!("{}{}", "  ".repeat(line.depth), line.label);
    let mut spans = vec![Span::styled(label, style)];
    if line.llc.is_some() && line.threads > 0 {
        spans.push(Span::raw(format!("  {}", llc_figures(line))));
    }
    for who in &line.who {
        let share = who.cpu_share.map(|share| format!(" {:.0}%", 100.0 * share));
        let busy = who.cpu_share.is_some_and(|share| share >= 0.005);
        let style = if busy { Style::new() } else { theme.faint() };
        let text = format!("  {}{}", who.program, share.unwrap_or_default());
        spans.push(Span::styled(text, style));
    }
    Text::from(spans)
}

fn llc_figures(line: &TreeLine) -> String {
    let of = &line.figures;
    let mut parts = vec![counted(line.threads, "thread")];
    let mut add = |value: Option<f64>, write: &dyn Fn(f64) -> String| {
        parts.extend(value.map(write));
    };
    add(of.llc_mpki, &|mpki| format!("{mpki:.2} MPKI"));
    add(of.memory_bytes_per_s, &|rate| format!("{}B/s", scaled(rate, 1000.0, "")));
    add(of.llc_occupancy_bytes, &|held| format!("{}B held", scaled(held, 1024.0, "i")));
    parts.join(", ")
}

/// All decisions that are remembered, the newest first, each as long as it is.
pub(crate) fn decisions(state: &State, theme: Theme, area: Rect, screen: &mut Screen<'_>) -> usize {
    if state.frame.policy.is_none() {
        let text = "no policy is asked: --policy NAME shows what it would do";
        screen.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }), area);
    } else if state.frame.decisions.is_empty() {
        empty("nothing was decided so far", theme, area, screen);
    } else {
        let shown = state.frame.decisions.iter().skip(state.offset).take(area.height.into());
        let lines: Vec<Text<'_>> = shown.map(|one| decision(one, theme)).collect();
        screen.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
    }
    usize::from(area.height)
}

/// The last decisions in a line each, below the programs.
pub(crate) fn last_decisions(state: &State, theme: Theme, area: Rect, screen: &mut Screen<'_>) {
    let [head, rest] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let title = format!("{:<width$}", "LAST DECISIONS", width = usize::from(area.width));
    screen.render_widget(Text::styled(title, theme.heading()), head);
    if state.frame.decisions.is_empty() {
        empty("none so far", theme, rest, screen);
        return;
    }
    let shown = state.frame.decisions.iter().take(rest.height.into());
    let lines: Vec<Text<'_>> = shown.map(|one| decision(one, theme)).collect();
    screen.render_widget(Paragraph::new(lines), rest);
}

fn decision(one: &DecisionLine, theme: Theme) -> Text<'static> {
    let style = if one.is_refused() { theme.warning() } else { Style::new() };
    Text::from(vec![
        Span::styled(format!("{:.1} s ", one.at_s), theme.faint()),
        Span::styled(one.would(), style),
        Span::styled(format!(" ({})", one.reason), theme.faint()),
    ])
}

/// Keys, and the columns that are seen.
pub(crate) fn help(state: &State, theme: Theme, area: Rect, screen: &mut Screen<'_>) -> usize {
    let line = |left: &str, right: &str, width: usize| {
        let left = Span::styled(format!("{left:<width$} "), theme.title());
        Text::from(vec![left, Span::raw(right.to_owned())])
    };
    let width = if area.width < 60 { 14 } else { KEYS_WIDTH };
    let replay: &[(&str, &str)] = if state.slider.is_some() { &REPLAY_KEYS } else { &[] };
    let keys = KEYS.iter().chain(replay);
    let keys = keys.map(|(keys, does)| line(&clip(keys, width as u16), does, width));
    let columns = Column::fitting(state.rows, &state.frame, area.width);
    let columns = columns.iter().map(|one| line(one.column.head(), one.column.meaning(), 8));
    if area.width >= 90 {
        let [left, right] =
            Layout::horizontal([Constraint::Length(LEFT_WIDTH), Constraint::Min(0)]).areas(area);
        screen.render_widget(Paragraph::new(keys.collect::<Vec<_>>()), left);
        screen.render_widget(Paragraph::new(columns.collect::<Vec<_>>()), right);
    } else {
        let all: Vec<Text<'_>> = keys.chain(columns).collect();
        screen.render_widget(Paragraph::new(all), area);
    }
    usize::from(area.height)
}
