//! Policies as they are typed: one, or one that places and one that partitions, `dio+lfoc`.

use anyhow::anyhow;
use corun_policy::{BuildOptions, Policy, PolicyKind, registry};

use crate::failure::{Failure, Outcome};

/// The policies of a name such as `dio+lfoc`. Each decides something else.
pub(crate) fn together(name: &str) -> Outcome<Vec<&str>> {
    let mut kinds: Vec<(PolicyKind, &str)> = Vec::new();
    for part in name.split('+').map(str::trim) {
        let Some(entry) = registry().iter().find(|entry| entry.name == part) else {
            let known = registry().iter().map(|entry| entry.name);
            return Err(Failure::unknown("policy", part, known));
        };
        let kind = entry.kind();
        if let Some((_, first)) = kinds.iter().find(|(known, _)| *known == kind) {
            let both = match kind {
                PolicyKind::Placement => "place programs",
                PolicyKind::Partitioning => "partition caches",
            };
            return Err(Failure::input(format!(
                "`{name}`: `{first}` and `{part}` both {both}, and one at a time can"
            )));
        }
        kinds.push((kind, part));
    }
    // Placement first: who is on a cache comes before its partition.
    kinds.sort_by_key(|(kind, _)| *kind == PolicyKind::Partitioning);
    Ok(kinds.into_iter().map(|(_, part)| part).collect())
}

/// The policies of a name with a seed.
///
/// # Errors
/// As [`together`].
pub(crate) fn build(name: &str, seed: u64) -> Outcome<Vec<Box<dyn Policy>>> {
    let options = BuildOptions { seed, ..Default::default() };
    let one = |part| Ok(corun_policy::build(part, &options).map_err(|error| anyhow!(error))?);
    together(name)?.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_and_a_partitioning_policy_run_together() {
        assert_eq!(together("lfoc+dio").unwrap(), ["dio", "lfoc"]);
        assert_eq!(build("dio+lfoc", 1).unwrap().len(), 2);
        let both = together("kpart+lfoc").unwrap_err().report();
        assert!(both.contains("both partition caches"), "{both}");
        assert!(together("dio+").is_err() && together("di+dio").is_err());
    }
}
