//! Where a recording that is played is, and the keys that move it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// How many times as fast as it was recorded.
const SPEEDS: [f64; 9] = [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0];
/// Its place where nothing was pressed.
const AS_RECORDED: usize = 3;
/// Large steps that a recording has.
const LARGE_STEPS: usize = 20;

/// The place in a recording.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slider {
    /// When each look was, in seconds since the first.
    times_s: Vec<f64>,
    /// The look that is wanted, from 0.
    pub(crate) look: usize,
    speed: usize,
}

impl Slider {
    /// At a look of those at these times, of which there must be one.
    pub(crate) fn new(times_s: Vec<f64>, look: usize) -> Self {
        let look = look.min(times_s.len().saturating_sub(1));
        Self { times_s, look, speed: AS_RECORDED }
    }

    pub(crate) fn looks(&self) -> usize {
        self.times_s.len()
    }

    /// When this look was, and the last one, in seconds.
    pub(crate) fn at_of_s(&self) -> (f64, f64) {
        let of = |look: usize| self.times_s.get(look).copied().unwrap_or(0.0);
        (of(self.look), of(self.last()))
    }

    fn last(&self) -> usize {
        self.looks().saturating_sub(1)
    }

    /// Is this the last look?
    pub(crate) fn is_at_end(&self) -> bool {
        self.look == self.last()
    }

    /// Times as fast as it was recorded.
    pub(crate) fn speed(&self) -> f64 {
        SPEEDS[self.speed]
    }

    /// Seconds for which this look is shown before the next one.
    pub(crate) fn shown_s(&self) -> f64 {
        let next = (self.look + 1).min(self.last());
        (self.times_s[next] - self.times_s[self.look]).max(0.0) / self.speed()
    }

    /// The next look.
    pub(crate) fn step(&mut self, by: isize) {
        self.look = self.look.saturating_add_signed(by).min(self.last());
    }

    /// Takes a key, if it is one of the slider's.
    pub(crate) fn key(&mut self, key: KeyEvent) -> bool {
        let large = isize::try_from(self.looks().div_ceil(LARGE_STEPS)).unwrap_or(1).max(1);
        let far = key.modifiers.contains(KeyModifiers::SHIFT);
        match key.code {
            KeyCode::Left => self.step(if far { -large } else { -1 }),
            KeyCode::Right => self.step(if far { large } else { 1 }),
            KeyCode::Char('[') => self.step(-large),
            KeyCode::Char(']') => self.step(large),
            KeyCode::Char('{') => self.look = 0,
            KeyCode::Char('}') => self.look = self.last(),
            KeyCode::Char('+' | '=') => self.speed = (self.speed + 1).min(SPEEDS.len() - 1),
            KeyCode::Char('-') => self.speed = self.speed.saturating_sub(1),
            _ => return false,
        }
        true
    }

    /// The bar with a knob, so many columns wide.
    pub(crate) fn bar(&self, width: usize) -> String {
        if width == 0 {
            return String::new();
        }
        let (at, end) = self.at_of_s();
        let share = if end > 0.0 { at / end } else { 0.0 };
        let knob = (share * (width - 1) as f64).round() as usize;
        (0..width)
            .map(|place| match place.cmp(&knob) {
                std::cmp::Ordering::Less => '━',
                std::cmp::Ordering::Equal => '●',
                std::cmp::Ordering::Greater => '─',
            })
            .collect()
    }
}

/// The look that was shown at a time, in seconds since the first: the last one up to then.
pub(crate) fn look_at(times_s: &[f64], at_s: f64) -> usize {
    times_s.partition_point(|&time| time <= at_s).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(slider: &mut Slider, code: KeyCode) -> bool {
        slider.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn keys_move_it_and_stop_at_both_ends() {
        let mut slider = Slider::new((0..100).map(f64::from).collect(), 7);
        for (code, look) in [
            (KeyCode::Right, 8),
            (KeyCode::Left, 7),
            (KeyCode::Char(']'), 12),
            (KeyCode::Char('['), 7),
            (KeyCode::Char('{'), 0),
            (KeyCode::Left, 0),
            (KeyCode::Char('}'), 99),
            (KeyCode::Right, 99),
        ] {
            assert!(press(&mut slider, code));
            assert_eq!(slider.look, look, "{code:?}");
        }
        assert!(slider.is_at_end());
        assert!(slider.key(KeyEvent::new(KeyCode::Left, KeyModifiers::SHIFT)));
        assert_eq!(slider.look, 94);
        assert!(!press(&mut slider, KeyCode::Up) && !press(&mut slider, KeyCode::Char('q')));
    }

    /// Looks 2 s apart take 2 s as recorded, and 0.5 s four times as fast; the last stays.
    #[test]
    fn a_look_is_shown_as_long_as_it_was_true() {
        let mut slider = Slider::new(vec![0.0, 2.0, 4.0], 0);
        assert_eq!(slider.shown_s(), 2.0);
        press(&mut slider, KeyCode::Char('+'));
        press(&mut slider, KeyCode::Char('+'));
        assert_eq!((slider.speed(), slider.shown_s()), (4.0, 0.5));
        for _ in 0..20 {
            assert!(press(&mut slider, KeyCode::Char('-')));
        }
        assert_eq!(slider.speed(), 0.125);
        for _ in 0..20 {
            assert!(press(&mut slider, KeyCode::Char('+')));
        }
        assert_eq!(slider.speed(), 64.0);
        press(&mut slider, KeyCode::Char('}'));
        assert_eq!(slider.shown_s(), 0.0);
    }

    #[test]
    fn the_knob_is_where_the_time_is() {
        let mut slider = Slider::new(vec![0.0, 1.0, 4.0], 0);
        assert_eq!(slider.bar(5), "●────");
        slider.step(1);
        assert_eq!(slider.bar(5), "━●───");
        slider.step(1);
        assert_eq!(
            (slider.bar(5), slider.bar(1), slider.bar(0)),
            ("━━━━●".into(), "●".into(), String::new())
        );
        // A single look.
        assert_eq!(Slider::new(vec![0.0], 3).bar(3), "●──");
    }

    #[test]
    fn a_time_is_that_of_the_look_before_it() {
        let times = [0.0, 1.0, 2.0];
        assert_eq!([-1.0, 0.0, 0.9, 1.0, 99.0].map(|at| look_at(&times, at)), [0, 0, 0, 1, 2]);
    }
}
