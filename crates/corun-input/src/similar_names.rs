//! Names that look like the one that was typed.

/// How alike two names must be, by Jaro-Winkler's measure (1: equal).
const ALIKE: f64 = 0.8;

/// At most so many names are offered.
const OFFERED: usize = 6;

/// The known names that come near `name`, the nearest first; equally near ones in the order given.
pub fn similar_names<'a>(name: &str, known: &[&'a str]) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    let mut scored: Vec<(f64, &str)> = known
        .iter()
        .filter_map(|&candidate| {
            let lower = candidate.to_lowercase();
            let part = wanted.len() >= 3 && lower.contains(&wanted);
            let score = strsim::jaro_winkler(&wanted, &lower) + if part { 1.0 } else { 0.0 };
            // Two letters of a short name that change places make it less alike than it reads.
            let one_slip = wanted.len() >= 3 && strsim::osa_distance(&wanted, &lower) == 1;
            (score >= ALIKE || one_slip).then_some((score, candidate))
        })
        .collect();
    scored.sort_by(|one, other| other.0.total_cmp(&one.0));
    scored.truncate(OFFERED);
    scored.into_iter().map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::similar_names;

    #[test]
    fn misspelt_and_partial_names_are_found() {
        let known = ["lbm06", "milc06", "mcf06", "mcf00"];
        assert_eq!(similar_names("lmb06", &known)[0], "lbm06");
        assert_eq!(similar_names("mcf", &known)[..2], ["mcf06", "mcf00"]);
        assert!(similar_names("gromacs", &known).is_empty());
        assert_eq!(similar_names("doi", &["dio", "ucp"]), ["dio"]);
    }
}
