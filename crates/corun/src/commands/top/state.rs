//! What the view shows and how keys and new frames change it. Nothing here draws or looks.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::columns::Column;
use super::frame::{Frame, Line};

/// The parts of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Programs,
    Machine,
    Decisions,
}

impl View {
    pub(super) const ALL: [Self; 3] = [Self::Programs, Self::Machine, Self::Decisions];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Programs => "Programs",
            Self::Machine => "Machine",
            Self::Decisions => "Decisions",
        }
    }

    fn step(self, by: usize) -> Self {
        let place = Self::ALL.iter().position(|view| *view == self).unwrap_or(0);
        Self::ALL[(place + by) % Self::ALL.len()]
    }
}

/// Is there more to come?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Go,
    Quit,
}

/// The view's state.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
    /// What is shown.
    pub(super) frame: Frame,
    /// The newest frame while another is held.
    waiting: Option<Frame>,
    pub(super) view: View,
    pub(super) sort: Column,
    pub(super) reverse: bool,
    pub(super) paused: bool,
    pub(super) help: bool,
    /// A line a thread, or a program.
    pub(super) by_thread: bool,
    /// The first line shown.
    pub(super) offset: usize,
    /// The width of the terminal and the lines of the view's body, as last drawn.
    pub(super) width: u16,
    pub(super) page: usize,
}

impl State {
    pub(super) fn new(frame: Frame) -> Self {
        Self {
            frame,
            waiting: None,
            view: View::Programs,
            sort: Column::Cpu,
            reverse: false,
            paused: false,
            help: false,
            by_thread: false,
            offset: 0,
            width: 80,
            page: 1,
        }
    }

    /// A new frame came.
    pub(super) fn show(&mut self, frame: Frame) {
        if self.paused {
            self.waiting = Some(frame);
        } else {
            self.frame = frame;
        }
        self.scroll_to(self.offset);
    }

    /// The lines of the table, in order.
    pub(super) fn lines(&self) -> Vec<&Line> {
        let lines = if self.by_thread { &self.frame.threads } else { &self.frame.programs };
        let mut lines: Vec<&Line> = lines.iter().collect();
        lines.sort_by(|one, other| self.sort.order(one, other, self.reverse));
        lines
    }

    /// Lines of the view that is shown.
    pub(super) fn length(&self) -> usize {
        match self.view {
            View::Programs if self.by_thread => self.frame.threads.len(),
            View::Programs => self.frame.programs.len(),
            View::Machine => self.frame.tree.len(),
            View::Decisions => self.frame.decisions.len(),
        }
    }

    /// What was drawn last: so wide, with so many lines of the view.
    pub(super) fn drawn(&mut self, width: u16, page: usize) {
        (self.width, self.page) = (width, page.max(1));
        self.scroll_to(self.offset);
    }

    /// A key was pressed.
    pub(super) fn key(&mut self, key: KeyEvent) -> Flow {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Flow::Quit,
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Char('q') | KeyCode::Esc => return Flow::Quit,
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Tab => self.look_at(self.view.step(1)),
            KeyCode::BackTab => self.look_at(self.view.step(View::ALL.len() - 1)),
            KeyCode::Char(digit @ '1'..='3') => {
                self.look_at(View::ALL[digit as usize - '1' as usize]);
            }
            KeyCode::Char('p' | ' ') => self.pause(),
            KeyCode::Char('r') => self.reverse = !self.reverse,
            KeyCode::Char('t') => self.switch_lines(),
            KeyCode::Left | KeyCode::Char('<' | ',') => self.sort_by_next(false),
            KeyCode::Right | KeyCode::Char('>' | '.') => self.sort_by_next(true),
            KeyCode::Up | KeyCode::Char('k') => self.scroll_to(self.offset.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.scroll_to(self.offset + 1),
            KeyCode::PageUp => self.scroll_to(self.offset.saturating_sub(self.page)),
            KeyCode::PageDown => self.scroll_to(self.offset + self.page),
            KeyCode::Home => self.offset = 0,
            KeyCode::End => self.scroll_to(usize::MAX),
            _ => {}
        }
        Flow::Go
    }

    fn look_at(&mut self, view: View) {
        self.view = view;
        self.offset = 0;
        self.help = false;
    }

    fn pause(&mut self) {
        self.paused = !self.paused;
        if let (false, Some(frame)) = (self.paused, self.waiting.take()) {
            self.frame = frame;
            self.scroll_to(self.offset);
        }
    }

    fn switch_lines(&mut self) {
        self.by_thread = !self.by_thread;
        self.offset = 0;
        if !Column::all(self.by_thread, true).contains(&self.sort) {
            self.sort = Column::Cpu;
        }
    }

    /// The next of the columns that are seen, or the one before.
    fn sort_by_next(&mut self, forward: bool) {
        let policy = self.frame.policy.is_some();
        let seen: Vec<Column> = Column::fitting(self.by_thread, policy, self.width)
            .into_iter()
            .map(|one| one.column)
            .collect();
        let count = seen.len();
        let place = seen.iter().position(|column| *column == self.sort).unwrap_or(0);
        self.sort = seen[(place + if forward { 1 } else { count - 1 }) % count];
    }

    /// The last page stays full.
    fn scroll_to(&mut self, offset: usize) {
        // A decision may take more than a line.
        let page = if self.view == View::Decisions { 1 } else { self.page };
        self.offset = offset.min(self.length().saturating_sub(page));
    }
}

#[cfg(test)]
mod tests;
