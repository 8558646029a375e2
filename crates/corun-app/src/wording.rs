//! Figures as people read them.

/// `1 seed`, `2 seeds`, `2 mixes`.
pub fn counted(count: usize, one: &str) -> String {
    let ending = if one.ends_with('x') { "es" } else { "s" };
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}{ending}") }
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_no_plural() {
        assert_eq!([counted(1, "seed"), counted(0, "seed")], ["1 seed", "0 seeds"]);
        assert_eq!([counted(1, "mix"), counted(2, "mix")], ["1 mix", "2 mixes"]);
    }
}
