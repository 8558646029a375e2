use std::collections::BTreeSet;

use super::*;
use crate::sample::{frame, threads};

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
    // Nobody's memory traffic is known: the busiest comes first.
    press(&mut state, KeyCode::Char('M'));
    assert_eq!(names(&state), ["stream", "solver", "\\u001b[2Jodd"]);
    let mut seen = BTreeSet::new();
    for _ in 0..Column::all(Rows::Programs, false).len() {
        press(&mut state, KeyCode::Right);
        seen.insert(state.sort.head());
        assert_eq!(state.lines().len(), 3);
    }
    assert_eq!(seen.len(), Column::all(Rows::Programs, false).len());
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

fn type_in(state: &mut State, text: &str) {
    for letter in text.chars() {
        assert_eq!(press(state, KeyCode::Char(letter)), Flow::Go);
    }
}

#[test]
fn a_filter_leaves_lines_with_its_text_and_letters_are_no_keys_meanwhile() {
    let mut state = State::new(frame(None, &threads(), 2));
    state.drawn(200, 10);
    // Of these letters q, t and r are keys elsewhere.
    type_in(&mut state, "/STr");
    assert_eq!((names(&state), state.typing), (vec!["stream"], true));
    press(&mut state, KeyCode::Backspace);
    press(&mut state, KeyCode::Enter);
    assert_eq!((state.filter.as_str(), state.typing), ("ST", false));
    // A thread goes by its own name and its numbers, too.
    press(&mut state, KeyCode::Esc);
    assert_eq!(names(&state).len(), 3);
    type_in(&mut state, "t/worker");
    assert_eq!(state.lines()[0].tid(), Some(101));
    assert_eq!(state.length(), 1);
    press(&mut state, KeyCode::Esc);
    type_in(&mut state, "/201");
    assert_eq!(state.lines()[0].tid(), Some(201));
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(state.key(control_c), Flow::Quit);
    press(&mut state, KeyCode::Esc);
    assert_eq!((state.length(), state.filter.as_str()), (5, ""));
    // Without a filter Esc quits.
    assert_eq!(press(&mut state, KeyCode::Esc), Flow::Quit);
}

#[test]
fn letters_sort_as_in_htop() {
    let mut state = State::new(frame(None, &threads(), 2));
    state.drawn(200, 10);
    for (letter, column) in
        [('C', Column::Mpki), ('M', Column::Memory), ('N', Column::Program), ('P', Column::Cpu)]
    {
        press(&mut state, KeyCode::Char('I'));
        press(&mut state, KeyCode::Char(letter));
        assert_eq!((state.sort, state.reverse), (column, false));
    }
    type_in(&mut state, "HN");
    let tids: Vec<Option<u32>> = state.lines().iter().map(|line| line.tid()).collect();
    assert_eq!(tids, [100, 101, 200, 201, 300].map(Some));
}

#[test]
fn the_selection_stays_in_its_row_unless_it_follows() {
    let mut state = State::new(frame(None, &threads(), 2));
    state.drawn(200, 10);
    let selected = |state: &State| state.lines()[state.cursor].program.clone();
    press(&mut state, KeyCode::Down);
    assert_eq!(selected(&state), "solver");
    press(&mut state, KeyCode::Char('r'));
    assert_eq!((state.cursor, selected(&state)), (1, "solver".to_owned()));
    press(&mut state, KeyCode::Char('F'));
    type_in(&mut state, "N");
    // By name it comes after the one whose name begins with an escape.
    assert_eq!((state.cursor, selected(&state)), (1, "solver".to_owned()));
    type_in(&mut state, "r");
    type_in(&mut state, "M");
    assert_eq!(selected(&state), "solver");
    // Where only the others are left, nothing is followed.
    state.show(frame(None, &threads()[2..], 2));
    assert_eq!(state.followed, None);
    assert!(state.cursor < state.length());
    // Moving it by hand ends following.
    press(&mut state, KeyCode::Char('F'));
    assert!(state.followed.is_some());
    press(&mut state, KeyCode::Down);
    assert_eq!(state.followed, None);
}

#[test]
fn the_selected_line_is_always_on_the_page() {
    let mut state = State::new(frame(None, &threads(), 2));
    press(&mut state, KeyCode::Char('t'));
    state.drawn(80, 2);
    for _ in 0..4 {
        press(&mut state, KeyCode::Down);
        assert!((state.offset..state.offset + 2).contains(&state.cursor));
    }
    assert_eq!((state.cursor, state.offset), (4, 3));
    for _ in 0..6 {
        press(&mut state, KeyCode::Up);
        assert!((state.offset..state.offset + 2).contains(&state.cursor));
    }
    assert_eq!((state.cursor, state.offset), (0, 0));
}

#[test]
fn in_a_recording_arrows_move_the_time_and_new_frames_are_shown_while_it_waits() {
    let slider = Slider::new(vec![0.0, 1.0, 2.0], 0);
    let mut state = State::new(frame(None, &threads(), 1)).with_slider(slider);
    let sort = state.sort;
    press(&mut state, KeyCode::Right);
    assert_eq!((state.slider.as_ref().unwrap().look, state.sort), (1, sort));
    press(&mut state, KeyCode::Char(' '));
    assert!(state.paused);
    press(&mut state, KeyCode::Right);
    state.show(frame(None, &threads(), 3));
    assert_eq!(state.frame.time_s, 3.0);
}
