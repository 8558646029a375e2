use std::collections::BTreeSet;

use super::super::sample::{frame, threads};
use super::*;

fn press(state: &mut State, code: KeyCode) -> Flow {
    state.key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn names(state: &State) -> Vec<&str> {
    state.lines().iter().map(|line| line.program.as_str()).collect()
}

#[test]
fn keys_that_quit() {
    let new = || State::new(Frame::default());
    assert_eq!(press(&mut new(), KeyCode::Char('q')), Flow::Quit);
    assert_eq!(press(&mut new(), KeyCode::Esc), Flow::Quit);
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(new().key(control_c), Flow::Quit);
    assert_eq!(press(&mut new(), KeyCode::Char('c')), Flow::Go);
    // Esc leaves the help first.
    let mut state = new();
    press(&mut state, KeyCode::Char('?'));
    assert!(state.help);
    assert_eq!(press(&mut state, KeyCode::Esc), Flow::Go);
    assert!(!state.help);
}

#[test]
fn lines_are_sorted_by_any_column_either_way_with_the_unknown_last() {
    let mut state = State::new(frame(None, &threads(), 2));
    state.drawn(200, 10);
    assert_eq!(names(&state), ["stream", "solver", "\\u001b[2Jodd"]);
    state.sort = Column::Mpki;
    assert_eq!(names(&state), ["stream", "solver", "\\u001b[2Jodd"]);
    press(&mut state, KeyCode::Char('r'));
    assert_eq!(names(&state), ["solver", "stream", "\\u001b[2Jodd"]);
    let mut seen = BTreeSet::new();
    for _ in 0..Column::all(false, false).len() {
        press(&mut state, KeyCode::Right);
        seen.insert(state.sort.head());
        assert_eq!(state.lines().len(), 3);
    }
    assert_eq!(seen.len(), Column::all(false, false).len());
    let sort = state.sort;
    press(&mut state, KeyCode::Char('<'));
    press(&mut state, KeyCode::Char('>'));
    assert_eq!(state.sort, sort);
}

#[test]
fn held_figures_stay_until_it_goes_on() {
    let mut state = State::new(frame(None, &threads(), 2));
    press(&mut state, KeyCode::Char('p'));
    state.show(frame(None, &threads()[..2], 3));
    assert_eq!(state.frame.programs.len(), 3);
    press(&mut state, KeyCode::Char(' '));
    assert_eq!((state.frame.programs.len(), state.frame.time_s), (1, 3.0));
}

#[test]
fn scrolling_ends_with_the_last_page() {
    let mut state = State::new(frame(None, &threads(), 2));
    press(&mut state, KeyCode::Char('t'));
    state.drawn(80, 2);
    press(&mut state, KeyCode::End);
    assert_eq!(state.offset, 3);
    press(&mut state, KeyCode::Down);
    assert_eq!(state.offset, 3);
    press(&mut state, KeyCode::PageUp);
    assert_eq!(state.offset, 1);
    // Threads end, the terminal grows.
    state.show(frame(None, &threads()[..2], 2));
    assert_eq!(state.offset, 0);
    press(&mut state, KeyCode::End);
    state.drawn(80, 50);
    assert_eq!(state.offset, 0);
}

#[test]
fn views_come_round() {
    let mut state = State::new(frame(Some("dio"), &threads(), 2));
    let mut seen = Vec::new();
    for _ in 0..3 {
        press(&mut state, KeyCode::Tab);
        seen.push(state.view);
    }
    assert_eq!(seen, [View::Machine, View::Decisions, View::Programs]);
    press(&mut state, KeyCode::BackTab);
    assert_eq!(state.view, View::Decisions);
    press(&mut state, KeyCode::Char('2'));
    assert_eq!(state.view, View::Machine);
}
