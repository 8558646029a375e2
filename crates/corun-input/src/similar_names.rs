//! Names that look like the one that was typed.

/// How alike two names must be, by Jaro-Winkler's measure (1: equal).
const ALIKE: f64 = 0.8;

/// At most so many names are offered.
const OFFERED: usize = 6;

/// The known names that begin with `name`, contain it or are spelt like it, in this order, the nearest first; equally near ones
/// in the order given.
pub fn similar_names<'a>(name: &str, known: &[&'a str]) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    let scored = known.iter().filter_map(|&candidate| {
        let likeness = likeness(&wanted, &candidate.to_lowercase())?;
        Some((likeness, candidate))
    });
    let mut scored: Vec<(f64, &str)> = scored.collect();
    scored.sort_by(|one, other| other.0.total_cmp(&one.0));
    scored.truncate(OFFERED);
    scored.into_iter().map(|(_, candidate)| candidate).collect()
}

/// How near a candidate comes: the higher the nearer; none where it is another name.
fn likeness(wanted: &str, candidate: &str) -> Option<f64> {
    if wanted.len() >= 2 && candidate.contains(wanted) {
        let share = wanted.len() as f64 / candidate.len() as f64;
        return Some(if candidate.starts_with(wanted) { 2.0 } else { 1.0 } + share);
    }
    let alike = strsim::jaro_winkler(wanted, candidate);
    // Two letters of a short name that change places make it less alike than it reads.
    let one_slip = wanted.len() >= 2 && strsim::osa_distance(wanted, candidate) == 1;
    (alike >= ALIKE || one_slip).then_some(alike)
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
        assert_eq!(similar_names("xy", &["dio", "xz", "x264"]), ["xz"]);
        assert_eq!(similar_names("gz", &["pigz", "gzip", "xz"]), ["gzip", "pigz", "xz"]);
        assert_eq!(similar_names("x5365", &["xeon-x5365-2llc", "xeon-x5365"])[0], "xeon-x5365");
    }
}
