//! Figures and words as people read them.

/// Columns of text for a terminal.
const COLUMNS: usize = 80;

/// Words in lines of 80 columns, the first behind `first` and the others behind `rest`. No word is broken.
pub fn filled(words: &str, first: &str, rest: &str) -> String {
    let options = textwrap::Options::new(COLUMNS)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .initial_indent(first)
        .subsequent_indent(rest);
    let lines = textwrap::wrap(words, options);
    lines.iter().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

/// A size in the largest binary unit in which it is at least 1: `1.5 MiB`.
pub fn size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = format!("{value:.1}");
    format!("{} {}", text.strip_suffix(".0").unwrap_or(&text), units[unit])
}

/// A count in engineering form: `150 G`.
pub fn engineering(value: u64) -> String {
    let units = ["", " k", " M", " G", " T", " P"];
    let mut scaled = value as f64;
    let mut unit = 0;
    while scaled >= 999.5 && unit + 1 < units.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    let decimals = if unit == 0 || scaled >= 99.95 { 0 } else { 1 };
    format!("{scaled:.decimals$}{}", units[unit])
}

/// A figure with so many decimals, never `-0.0`.
pub fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let is_zero = text.bytes().all(|one| matches!(one, b'-' | b'0' | b'.'));
    if is_zero { text.trim_start_matches('-').to_owned() } else { text }
}

/// The same with its sign: `+3.2`.
pub fn signed(value: f64, decimals: usize) -> String {
    let text = fixed(value, decimals);
    if text.starts_with('-') { text } else { format!("+{text}") }
}

/// `3.2 %`, on a page.
pub fn percent(value: f64) -> String {
    format!("{}\u{a0}%", fixed(value, 1))
}

/// `+3.2 %`, on a page: a distance to something.
pub fn signed_percent(value: f64) -> String {
    format!("{}\u{a0}%", signed(value, 1)).replace('-', "\u{2212}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        let texts = [512.0, 1536.0, 4_194_304.0, 3_221_225_472.0].map(size);
        assert_eq!(texts, ["512 B", "1.5 KiB", "4 MiB", "3 GiB"]);
    }

    #[test]
    fn counts_keep_three_digits() {
        let texts = [999, 1500, 150_000_000_000, u64::MAX].map(engineering);
        assert_eq!(texts, ["999", "1.5 k", "150 G", "18447 P"]);
    }

    #[test]
    fn no_figure_is_a_negative_zero() {
        assert_eq!([fixed(-0.04, 1), fixed(-0.06, 1), fixed(0.0, 0)], ["0.0", "-0.1", "0"]);
        assert_eq!(
            [signed_percent(-0.01), signed_percent(-3.21)],
            ["+0.0\u{a0}%", "\u{2212}3.2\u{a0}%"]
        );
    }
}
