//! What the view shows and how keys and new frames change it. Nothing here draws or looks.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::columns::Column;
use crate::frame::{Frame, Line};
use crate::slider::Slider;

/// The parts of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Programs,
    Machine,
    Decisions,
}

impl View {
    pub(crate) const ALL: [Self; 3] = [Self::Programs, Self::Machine, Self::Decisions];

    pub(crate) fn title(self) -> &'static str {
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

/// What the table has a line for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    Programs,
    Threads,
    /// Units, pods, containers and other cgroups.
    Groups,
}

/// Is there more to come?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Go,
    Quit,
}

/// What tells a line of the table from all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineKey {
    program: String,
    tid: Option<u32>,
}

impl LineKey {
    pub(crate) fn of(line: &Line) -> Self {
        Self { program: line.program.clone(), tid: line.tid() }
    }
}

/// The view's state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    /// What is shown.
    pub(crate) frame: Frame,
    /// The newest frame while another is held.
    waiting: Option<Frame>,
    pub(crate) view: View,
    pub(crate) sort: Column,
    pub(crate) reverse: bool,
    pub(crate) paused: bool,
    pub(crate) help: bool,
    pub(crate) rows: Rows,
    /// Lines without this text are left out, whatever the case of its letters.
    pub(crate) filter: String,
    /// Is the filter being typed?
    pub(crate) typing: bool,
    /// The selected line of the table.
    pub(crate) cursor: usize,
    /// The line that the selection stays on, wherever it is sorted to.
    pub(crate) followed: Option<LineKey>,
    /// The first line shown.
    pub(crate) offset: usize,
    /// The width of the terminal and the lines of the view's body, as last drawn.
    pub(crate) width: u16,
    pub(crate) page: usize,
    /// Of a recording that is played: where it is. None where the machine itself is looked at.
    pub(crate) slider: Option<Slider>,
}

impl State {
    pub(crate) fn new(frame: Frame) -> Self {
        Self {
            frame,
            waiting: None,
            view: View::Programs,
            sort: Column::Cpu,
            reverse: false,
            paused: false,
            help: false,
            rows: Rows::Programs,
            filter: String::new(),
            typing: false,
            cursor: 0,
            followed: None,
            offset: 0,
            width: 80,
            page: 1,
            slider: None,
        }
    }

    /// The same over a recording.
    pub(crate) fn with_slider(self, slider: Slider) -> Self {
        Self { slider: Some(slider), ..self }
    }

    /// A new frame came.
    pub(crate) fn show(&mut self, frame: Frame) {
        // The looks of a recording wait themselves.
        if self.paused && self.slider.is_none() {
            self.waiting = Some(frame);
        } else {
            self.frame = frame;
        }
        self.settle();
    }

    /// The lines of the table, in order.
    pub(crate) fn lines(&self) -> Vec<&Line> {
        let lines = match self.rows {
            Rows::Programs => &self.frame.programs,
            Rows::Threads => &self.frame.threads,
            Rows::Groups => &self.frame.groups,
        };
        let wanted = self.filter.to_lowercase();
        let mut lines: Vec<&Line> = lines.iter().filter(|line| line.matches(&wanted)).collect();
        lines.sort_by(|one, other| self.sort.order(one, other, self.reverse));
        lines
    }

    /// Lines of the view that is shown.
    pub(crate) fn length(&self) -> usize {
        match self.view {
            View::Programs => self.lines().len(),
            View::Machine => self.frame.tree.len(),
            View::Decisions => self.frame.decisions.len(),
        }
    }

    /// What was drawn last: so wide, with so many lines of the view.
    pub(crate) fn drawn(&mut self, width: u16, page: usize) {
        (self.width, self.page) = (width, page.max(1));
        self.settle();
    }

    /// A key was pressed.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Flow {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if key.code == KeyCode::Char('c') && control {
            return Flow::Quit;
        }
        if self.typing {
            self.typed(key);
            return Flow::Go;
        }
        let is_slid = self.slider.as_mut().is_some_and(|slider| slider.key(key));
        if is_slid {
            return Flow::Go;
        }
        match key.code {
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Esc if !self.filter.is_empty() => self.filter_by(String::new()),
            KeyCode::Esc if self.followed.is_some() => self.followed = None,
            KeyCode::Char('q') | KeyCode::Esc | KeyCode::F(10) => return Flow::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = !self.help,
            KeyCode::Tab => self.look_at(self.view.step(1)),
            KeyCode::BackTab => self.look_at(self.view.step(View::ALL.len() - 1)),
            KeyCode::Char(digit @ '1'..='3') => {
                self.look_at(View::ALL[digit as usize - '1' as usize]);
            }
            KeyCode::Char('p' | ' ') => self.pause(),
            KeyCode::Char('r' | 'I') => self.reverse = !self.reverse,
            KeyCode::Char('t' | 'H') => self.switch_rows(Rows::Threads),
            KeyCode::Char('g') => self.switch_rows(Rows::Groups),
            KeyCode::Char('/' | '\\') | KeyCode::F(3 | 4) => self.begin_filter(),
            KeyCode::Char('F') => self.follow(),
            KeyCode::Char(letter @ ('P' | 'M' | 'C' | 'N')) => self.sort_by_letter(letter),
            KeyCode::Left | KeyCode::Char('<' | ',') => self.sort_by_next(false),
            KeyCode::Right | KeyCode::Char('>' | '.') | KeyCode::F(6) => self.sort_by_next(true),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.turn_page(false),
            KeyCode::PageDown => self.turn_page(true),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            _ => {}
        }
        self.settle();
        Flow::Go
    }

    fn look_at(&mut self, view: View) {
        self.view = view;
        (self.offset, self.cursor) = (0, 0);
        self.help = false;
        self.settle();
    }

    fn pause(&mut self) {
        self.paused = !self.paused;
        if let (false, Some(frame)) = (self.paused, self.waiting.take()) {
            self.frame = frame;
        }
    }

    /// These lines, or back to programs.
    fn switch_rows(&mut self, rows: Rows) {
        self.rows = if self.rows == rows { Rows::Programs } else { rows };
        (self.offset, self.cursor, self.followed) = (0, 0, None);
        if !Column::all(self.rows, true).contains(&self.sort) {
            self.sort = Column::Cpu;
        }
    }

    /// Letters are as in htop where the column is there: P for CPU time, M for memory (here its traffic), N for the
    /// number (here of threads); C is for cache misses.
    fn sort_by_letter(&mut self, letter: char) {
        let column = match letter {
            'P' => Column::Cpu,
            'M' => Column::Memory,
            'C' => Column::Mpki,
            _ if self.rows == Rows::Threads => Column::Thread,
            _ => Column::all(self.rows, true)[0],
        };
        (self.sort, self.reverse) = (column, false);
    }

    /// The next of the columns that are seen, or the one before.
    fn sort_by_next(&mut self, forward: bool) {
        let seen: Vec<Column> = Column::fitting(self.rows, &self.frame, self.width)
            .into_iter()
            .map(|one| one.column)
            .collect();
        let count = seen.len();
        let place = seen.iter().position(|column| *column == self.sort).unwrap_or(0);
        self.sort = seen[(place + if forward { 1 } else { count - 1 }) % count];
    }

    fn begin_filter(&mut self) {
        self.typing = true;
        if self.view != View::Programs {
            self.look_at(View::Programs);
        }
        self.help = false;
    }

    fn typed(&mut self, key: KeyEvent) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let mut filter = self.filter.clone();
        match key.code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                filter.clear();
            }
            KeyCode::Backspace => {
                filter.pop();
            }
            KeyCode::Char('u') if control => filter.clear(),
            KeyCode::Char(letter) if !control => filter.push(letter),
            _ => {}
        }
        self.filter_by(filter);
    }

    fn filter_by(&mut self, filter: String) {
        if filter != self.filter {
            self.filter = filter;
            (self.offset, self.cursor) = (0, 0);
        }
        self.settle();
    }

    /// The selection stays on the selected line, or no longer.
    fn follow(&mut self) {
        if self.followed.take().is_none() && self.view == View::Programs {
            self.followed = self.lines().get(self.cursor).map(|line| LineKey::of(line));
        }
    }

    /// Moves the selection where there is one, else the lines. As in htop that ends following.
    fn step(&mut self, by: isize) {
        if self.view == View::Programs {
            self.followed = None;
            self.cursor = self.cursor.saturating_add_signed(by);
        } else {
            self.offset = self.offset.saturating_add_signed(by);
        }
        self.settle();
    }

    fn turn_page(&mut self, down: bool) {
        let by = isize::try_from(self.page).unwrap_or(isize::MAX);
        self.offset = self.offset.saturating_add_signed(if down { by } else { -by });
        self.step(if down { by } else { -by });
    }

    /// The selection is on a line, and that line is on the page; the last page stays full.
    fn settle(&mut self) {
        let length = self.length();
        // A decision may take more than a line.
        let page = if self.view == View::Decisions { 1 } else { self.page };
        self.offset = self.offset.min(length.saturating_sub(page));
        if self.view != View::Programs {
            return;
        }
        if let Some(key) = &self.followed {
            let found = self.lines().iter().position(|line| LineKey::of(line) == *key);
            match found {
                Some(place) => self.cursor = place,
                // Its program ended, or the filter leaves it out.
                None => self.followed = None,
            }
        }
        self.cursor = self.cursor.min(length.saturating_sub(1));
        let least = (self.cursor + 1).saturating_sub(self.page);
        self.offset = self.offset.clamp(least, self.cursor.max(least));
    }
}

#[cfg(test)]
mod tests;
