//! What to do after a run: the command that measures what the policy is worth, from the command line of the run.

use super::summary::Told;
use corun_app::NO_POLICY;
use corun_hosting::{HostSettings, counts_instructions};
use corun_linux::Roots;
use corun_report::counted;

/// Options of `corun run` that `corun ab` has not: by name, and whether a value follows.
const OF_RUN_ALONE: [(&str, bool); 5] = [
    ("--duration", true),
    ("--output", true),
    ("-o", true),
    ("--dry-run", false),
    ("--wakers", false),
];

/// What the run was worth, and what comes next: lines for people. `words`: the run's own command line.
pub(super) fn lines(
    words: &[String],
    told: &Told,
    is_dry_run: bool,
    settings: &HostSettings,
) -> Vec<String> {
    let policy = &settings.policy;
    if is_dry_run && told.has_decided() {
        return vec![
            "next: the same without --dry-run does it, and undoes it at the end".to_owned(),
        ];
    }
    if told.has_acted() {
        let is_counted = counts_instructions(&Roots::default(), settings.counters);
        let mut lines = vec![
            "what the policy was worth a single run cannot tell".to_owned(),
            format!("next: {}", measure(words, is_counted)),
            "    measures it, by turns with the policy and without".to_owned(),
        ];
        if !is_counted {
            let count = "    --count: what prints how much is done so far, since nothing here counts instructions";
            lines.push(count.to_owned());
        }
        return lines;
    }
    if told.has_decided() || policy == NO_POLICY {
        return Vec::new();
    }
    let rounds = counted(told.rounds(), "time");
    vec![
        format!("{policy} looked {rounds} and had nothing to change"),
        format!("next: corun doctor    says what {policy} needs here"),
        "      corun explain PID    says why a program is slow while it runs".to_owned(),
    ]
}

/// The command line of `corun ab` for the same programs under the same policy. Where nothing counts instructions, it takes
/// something else that tells how far the programs are.
fn measure(words: &[String], is_counted: bool) -> String {
    let mut kept = vec!["corun".to_owned(), "ab".to_owned()];
    if !is_counted {
        kept.extend(["--count", "done=wc -l < OUTPUT"].map(str::to_owned));
    }
    let mut words = words.iter().skip_while(|word| *word != "run").skip(1);
    while let Some(word) = words.next() {
        if word == "--" {
            kept.push(word.clone());
            break;
        }
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        match OF_RUN_ALONE.iter().find(|(option, _)| *option == name) {
            Some((_, true)) if name == word => _ = words.next(),
            Some(_) => {}
            None => kept.push(word.clone()),
        }
    }
    kept.extend(words.cloned());
    shlex::try_join(kept.iter().map(String::as_str)).unwrap_or_else(|_| kept.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> String {
        measure(&line.split(' ').map(str::to_owned).collect::<Vec<_>>(), true)
    }

    #[test]
    fn ab_takes_what_is_kept() {
        use clap::CommandFactory as _;

        let command = crate::cli::Cli::command();
        let options = |name: &str| {
            let found = command.find_subcommand(name).unwrap();
            let all = found.get_arguments().filter_map(|one| {
                let takes_value = one.get_action().takes_values();
                Some((format!("--{}", one.get_long()?), takes_value))
            });
            all.collect::<Vec<_>>()
        };
        let known: Vec<String> = options("ab").into_iter().map(|(name, _)| name).collect();
        let mut of_run: Vec<(String, bool)> = options("run");
        of_run.retain(|(name, _)| !known.contains(name));
        of_run.sort();
        let mut left_out = OF_RUN_ALONE.map(|(name, value)| (name.to_owned(), value)).to_vec();
        left_out.retain(|(name, _)| name.starts_with("--"));
        left_out.sort();
        assert_eq!(of_run, left_out);
    }

    #[test]
    fn the_policy_and_the_programs_stay() {
        assert_eq!(
            of("target/quick/corun run --duration 30 mix.toml --policy di -o out.json"),
            "corun ab mix.toml --policy di"
        );
        assert_eq!(
            of(
                "corun run --policy=dio --seed=3 --dry-run --set curvature=2 -- ./solver --duration 9"
            ),
            "corun ab '--policy=dio' '--seed=3' --set 'curvature=2' -- ./solver --duration 9"
        );
        let words = ["corun", "run", "--policy", "di", "--", "./solver"].map(str::to_owned);
        assert_eq!(
            measure(&words, false),
            "corun ab --count 'done=wc -l < OUTPUT' --policy di -- ./solver"
        );
    }
}
