use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;
use crate::sample::{frame, threads};
use crate::slider::Slider;

const KEYS: [KeyCode; 26] = [
    KeyCode::Char('g'),
    KeyCode::Char('F'),
    KeyCode::Char('/'),
    KeyCode::Char('s'),
    KeyCode::Enter,
    KeyCode::Backspace,
    KeyCode::Char(']'),
    KeyCode::Char('C'),
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
    let slider = Slider::new(vec![0.0, 1.0, 2.5], 1);
    let mut state = State::new(frame(Some("dio"), &threads(), 3)).with_slider(slider);
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
    assert_eq!([clip_front("/a/bcd", 4), clip_front("/a", 4)], ["…bcd", "/a"]);
}

#[test]
fn a_recording_has_a_slider_and_a_filter_a_prompt() {
    let slider = Slider::new(vec![0.0, 1.0, 4.0], 1);
    let mut state = State::new(frame(None, &threads(), 3)).with_slider(slider);
    let text = drawn(&mut state, Theme::plain(), 80, 24).to_string();
    assert!(text.contains("corun top, recorded"), "{text}");
    assert!(
        text.contains("1.0 s ━") && text.contains("●") && text.contains("4.0 s  look 2 of 3"),
        "{text}"
    );
    // A narrow terminal has the bar alone.
    let text = drawn(&mut state, Theme::plain(), 30, 12).to_string();
    assert!(text.contains("●") && !text.contains("look 2 of 3"), "{text}");
    press(&mut state, KeyCode::Char('/'));
    press(&mut state, KeyCode::Char('z'));
    let text = drawn(&mut state, Theme::plain(), 80, 24).to_string();
    assert!(text.contains("filter: z█  Enter keeps it"), "{text}");
    assert!(text.contains("no line has the text of the filter"), "{text}");
    press(&mut state, KeyCode::Esc);
    press(&mut state, KeyCode::Char('g'));
    let text = drawn(&mut state, Theme::plain(), 80, 24).to_string();
    assert!(text.contains("UNIT OR POD") && text.contains("cgroups are not known here"), "{text}");
}
