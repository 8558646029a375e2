use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::sample::{frame, threads};
use super::*;

const KEYS: [KeyCode; 18] = [
    KeyCode::Tab,
    KeyCode::BackTab,
    KeyCode::Char('?'),
    KeyCode::Char('t'),
    KeyCode::Char('r'),
    KeyCode::Char('p'),
    KeyCode::Left,
    KeyCode::Right,
    KeyCode::Up,
    KeyCode::Down,
    KeyCode::Down,
    KeyCode::PageUp,
    KeyCode::PageDown,
    KeyCode::Home,
    KeyCode::End,
    KeyCode::Char('1'),
    KeyCode::Char('2'),
    KeyCode::Char('3'),
];

fn press(state: &mut State, code: KeyCode) {
    state.key(KeyEvent::new(code, KeyModifiers::NONE));
}

fn drawn(state: &mut State, theme: Theme, width: u16, height: u16) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut page = 0;
    terminal.draw(|screen| page = draw(state, theme, screen)).unwrap();
    state.drawn(width, page);
    terminal.backend().clone()
}

/// All views and the help at one size.
fn all_views(policy: Option<&str>, width: u16, height: u16) -> String {
    let mut text = String::new();
    for keys in ["1", "1t", "2", "3", "1?"] {
        let mut state = State::new(frame(policy, &threads(), 3));
        keys.chars().for_each(|key| press(&mut state, KeyCode::Char(key)));
        text += &format!("keys {keys}\n{}\n", drawn(&mut state, Theme::plain(), width, height));
    }
    text
}

#[test]
fn at_120_by_40() {
    insta::assert_snapshot!(all_views(Some("dio"), 120, 40));
}

#[test]
fn at_80_by_24() {
    insta::assert_snapshot!(all_views(Some("dio"), 80, 24));
}

#[test]
fn at_40_by_20() {
    insta::assert_snapshot!(all_views(Some("dio"), 40, 20));
}

#[test]
fn without_a_policy_or_anything_to_watch() {
    let text = all_views(None, 60, 10);
    assert!(text.contains("no policy is asked") && !text.contains("WOULD"), "{text}");
    let mut state = State::new(frame(None, &[], 1));
    let text = drawn(&mut state, Theme::plain(), 60, 10).to_string();
    assert!(text.contains("no process of those that are watched runs"), "{text}");
}

#[test]
fn colours_say_the_class_and_only_where_they_are_wanted() {
    let mut state = State::new(frame(Some("dio"), &threads(), 3));
    let foregrounds = |backend: TestBackend| -> Vec<Color> {
        backend.buffer().content.iter().map(|cell| cell.fg).collect()
    };
    let with = foregrounds(drawn(&mut state, Theme { colours: true }, 120, 40));
    assert!(with.contains(&Color::Red) && with.contains(&Color::Cyan));
    for view in 0..3 {
        let without = foregrounds(drawn(&mut state, Theme::plain(), 120, 40));
        assert!(without.iter().all(|colour| *colour == Color::Reset), "view {view}");
        press(&mut state, KeyCode::Tab);
    }
}

/// Whatever is pressed, at whatever size, something is drawn and the place stays in the list.
#[test]
fn any_keys_at_any_size_draw() {
    let mut state = State::new(frame(Some("dio"), &threads(), 3));
    let mut number: usize = 1;
    for width in (0..=50).chain([80, 120, 200]) {
        for height in (0..=12).chain([24, 40]) {
            for _ in 0..3 {
                // A walk that comes to every key in every view.
                number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                press(&mut state, KEYS[(number >> 33) % KEYS.len()]);
            }
            drawn(&mut state, Theme { colours: true }, width, height);
            assert!(state.offset == 0 || state.offset < state.length(), "{width} x {height}");
        }
    }
}

#[test]
fn what_is_cut_is_marked() {
    assert_eq!(clip("abcdef", 6), "abcdef");
    assert_eq!(clip("abcdef", 4), "abc…");
    assert_eq!(clip("日本語", 4), "日…");
    assert_eq!(clip("abc", 0), "");
}
