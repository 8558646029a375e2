//! Figures as people read them.

/// `1 seed`, `2 seeds`.
pub fn counted(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_no_plural() {
        assert_eq!([counted(1, "seed"), counted(0, "seed")], ["1 seed", "0 seeds"]);
    }
}
