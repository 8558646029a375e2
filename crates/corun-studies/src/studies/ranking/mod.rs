//! Which placement policy for which machine, and what it is worth: all online policies over several machines
//! and seeded mixes, as on a real machine, between the kernel's own scheduler and the best placement.

mod figures;
mod kept;
mod moments;
mod runs;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use corun_app::{Error, Result, fingerprint, profile_sources};
use corun_profile::{Library, Profile};
use corun_report::counted;
use rayon::prelude::*;
use serde::Serialize;

use self::figures::{Ranked, by_mix, rank};
use self::kept::Folder;
use self::runs::{Contest, MixResult};
use crate::harness::{
    AsLiveArgs, Figure, Page, Programs, Study, StudyInputs,
};

/// The study.
pub(super) const STUDY: Study = Study {
    name: "ranking",
    summary: "All online placement policies over machines and mixes, from the kernel's scheduler to the optimum",
    programs: Programs::BuiltInAndSpec,
    seeds: Some(1),
    has_quick: true,
    options: RankingArgs::augment_args,
    page,
    explained_in: "docs/studies/ranking.md",
};

/// The highest seed: a mix has a seed of its own, made of this one and of [`MIX_BITS`] bits for its number.
const MOST_SEED: u64 = u64::MAX >> MIX_BITS;

/// Bits for the number of a mix.
const MIX_BITS: u32 = 20;

/// Which programs mixes are drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Half {
    /// Those on which thresholds of policies are chosen
    Chosen,
    /// Those on which policies are judged
    Judged,
    /// Both
    All,
}

/// Its own options.
#[derive(Debug, Args)]
struct RankingArgs {
    /// Mixes on each machine
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    mixes: u32,
    /// Seed of the mixes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    seed: u64,
    /// The programs that mixes are drawn from: every second one by name is one half
    #[arg(long, value_enum, default_value = "judged")]
    half: Half,
    /// Length of each program: the time that it takes alone
    #[arg(long, value_name = "S", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    seconds: u32,
    /// Only on these machines
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    machines: Vec<String>,
    /// These policies in place of all online ones; each is compared with linux-default
    #[arg(long, value_name = "POLICY", value_delimiter = ',')]
    policies: Vec<String>,
    /// Show the loss of each policy on each mix, too
    #[arg(long)]
    by_mix: bool,
    /// Keep each run in this folder, and take from it those that are there: a ranking that was interrupted goes on, one
    /// with more mixes, machines or policies runs what is new alone. Runs by other settings are refused; those by another
    /// corun are not told apart
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    #[command(flatten)]
    as_live: AsLiveArgs,
}

/// The machines and how many programs run on each: from two LLCs to eight, of one node and of two; then one of a
/// single LLC, where there are ways to divide and no place to choose.
const MACHINES: [(&str, usize); 7] = [
    ("xeon-x5365-2llc", 4),
    ("xeon-x5365", 8),
    ("epyc-9554", 16),
    ("opteron-2350", 8),
    ("2x-gold-6138-4c", 8),
    ("2x-e5-2650", 12),
    (ONE_LLC, 8),
];

/// The machine that is no part of what all machines have in common.
const ONE_LLC: &str = "xeon-gold-6138";

/// What every policy is measured from.
const BASELINE: &str = "linux-default";

/// The placement policies that decide while programs run, without and with stored profiles, and a random
/// placement; those that divide caches, too, for machines that can. Left out are those that do nothing here: the
/// ones for more threads than CPUs (`casc`, `mlb`, `vbsc`) and the ones for several core types.
const POLICIES: [&str; 18] = [
    BASELINE,
    "random",
    "linux-sched-cache",
    "linux-power-saving",
    "dio-power",
    "dio-2010",
    "dio",
    "dino",
    "maximum-local",
    "n-mass",
    "dio+lfoc-online",
    "dio+fair-clusters-online",
    "dio-lfoc",
    "corun+fair-clusters",
    "corun:profiles=0",
    "corun:ways=0",
    "corun:objective=2",
    "corun",
];

fn page(inputs: &StudyInputs) -> Result<Page> {
    let asked: RankingArgs = inputs.options()?;
    let library = pool(inputs, asked.half)?;
    let observation = asked.as_live.observation()?;
    let machines: Vec<(&'static str, usize)> = MACHINES
        .into_iter()
        .filter(|(name, _)| {
            asked.machines.is_empty() || asked.machines.iter().any(|one| one == name)
        })
        // Machines that were named all run, also for a first look.
        .step_by(if asked.machines.is_empty() { inputs.every(3, "machines") } else { 1 })
        .collect();
    if let Some(unknown) =
        asked.machines.iter().find(|name| !MACHINES.iter().any(|(one, _)| one == name))
    {
        return Err(Error::unknown("machine of the ranking", unknown, MACHINES.map(|one| one.0)));
    }
    let policies = compared(&asked.policies);
    let folder = match asked.keep.clone() {
        Some(path) => Some(Folder::new(path, settings(inputs, &asked, &library))?),
        None => None,
    };
    let contest = |&(machine, programs): &(&'static str, usize)| {
        Contest::new(
            inputs,
            machine,
            programs,
            &library,
            &policies,
            observation.clone(),
            (inputs.length_s(f64::from(asked.seconds)), folder.as_ref()),
        )
    };
    let contests: Vec<Contest<'_>> = machines.iter().map(contest).collect::<Result<_>>()?;
    for policy in &asked.policies {
        check_has_machine(policy, &contests)?;
    }
    let count = (asked.mixes as usize).div_ceil(inputs.every(2, "mixes"));
    let jobs: Vec<(&Contest<'_>, u64)> = contests
        .iter()
        .flat_map(|contest| (0..count as u64).map(move |mix| (contest, mix)))
        .collect();
    let results: Vec<MixResult> = jobs
        .par_iter()
        .map(|(contest, mix)| contest.play(asked.seed << MIX_BITS | mix))
        .collect::<Result<_>>()?;
    let profiles: Vec<Profile> = library.iter().cloned().collect();
    let about = format!(
        "Profiles: {}. {} on each machine, {}, programs that take {} s alone and \
         start again until the longest has ended three times. Policies see the machine as live ({}). Loss: \
         mean slowdown above that of the best placement held throughout, in %; the interval holds 95 % of \
         what the mean over mixes may be.",
        profile_sources(&profiles),
        counted(count, "mix"),
        counted(inputs.seeds as usize, "seed"),
        asked.seconds,
        asked.as_live.settings(),
    );
    let ranked = rank(&policies, &results, ONE_LLC);
    let mut figures: Vec<Figure> = ranked.iter().map(Ranked::figure).collect();
    if asked.by_mix {
        figures.extend(by_mix(&policies, &results));
    }
    Ok(Page::new("Which placement policy, and what it is worth", about, vec![], figures))
}

/// The policies that run, each once: those that were named, and the one that all are compared with.
fn compared(named: &[String]) -> Vec<&str> {
    if named.is_empty() {
        return POLICIES.to_vec();
    }
    let mut policies: Vec<&str> = Vec::new();
    for name in named {
        if !policies.contains(&name.as_str()) {
            policies.push(name);
        }
    }
    if !policies.contains(&BASELINE) {
        policies.insert(0, BASELINE);
    }
    policies
}

/// # Errors
/// A policy that was named and is for none of the machines: no table would mention it.
fn check_has_machine(policy: &str, contests: &[Contest<'_>]) -> Result {
    let mut whys = Vec::new();
    for contest in contests {
        match contest.unfit_for(policy)? {
            Some(why) => whys.push(format!("{}: {why}", contest.machine)),
            None => return Ok(()),
        }
    }
    let whys = whys.join("; ");
    Err(Error::input(format!("--policies {policy}: is for none of the machines ({whys})")))
}

/// All that decides on a run beside machine, mix and policy, in words; profiles by their contents.
fn settings(inputs: &StudyInputs, asked: &RankingArgs, library: &Library) -> String {
    let names: Vec<&str> = library.iter().map(|profile| profile.name.as_str()).collect();
    let contents: Vec<String> = library.iter().map(Profile::to_toml).collect();
    format!(
        "{}, {} s, {}, programs: {} ({})",
        counted(inputs.seeds as usize, "seed"),
        inputs.length_s(f64::from(asked.seconds)),
        asked.as_live.settings(),
        names.join(" "),
        fingerprint(&contents)
    )
}

/// The programs that mixes are drawn from.
fn pool(inputs: &StudyInputs, half: Half) -> Result<Library> {
    let mut all: Vec<&Profile> = inputs.shipped()?.iter().collect();
    all.extend(inputs.spec_if_given().into_iter().flat_map(Library::iter));
    half_of(all, half)
}

/// Every second program by name, or all.
pub(super) fn half_of(mut all: Vec<&Profile>, half: Half) -> Result<Library> {
    all.sort_by(|one, other| one.name.cmp(&other.name));
    let mut library = Library::default();
    for (place, profile) in all.into_iter().enumerate() {
        let belongs = match half {
            Half::Chosen => place % 2 == 0,
            Half::Judged => place % 2 == 1,
            Half::All => true,
        };
        if belongs {
            let from = format!("{}.toml", profile.name);
            library.insert(profile.clone(), from).map_err(Error::input)?;
        }
    }
    Ok(library)
}

#[cfg(test)]
mod tests {
    use corun_app::Cancel;
    use serde_json::Value;

    use super::*;

    fn asked(words: &[&str]) -> std::result::Result<RankingArgs, clap::Error> {
        let command = RankingArgs::augment_args(clap::Command::new("ranking"));
        let typed = command.no_binary_name(true).try_get_matches_from(words)?;
        clap::FromArgMatches::from_arg_matches(&typed)
    }

    /// A first look runs shorter programs, and a profile is what is in it, whatever its name.
    #[test]
    fn kept_runs_are_of_a_length_and_of_the_profiles_contents() {
        let asked = asked(&[]).unwrap();
        let inputs = |quick| {
            let own = StudyInputs::new(None, 1, clap::ArgMatches::default(), Cancel::default());
            own.unwrap().with(1, clap::ArgMatches::default(), quick)
        };
        let shipped = Library::shipped().unwrap();
        let library = |contents: &str| {
            let mut profile = shipped.get(contents).unwrap().clone();
            profile.name = "sort".to_owned();
            let mut library = Library::default();
            library.insert(profile, "sort.toml".to_owned()).unwrap();
            library
        };
        let [same, changed] = ["sort", "xz"].map(library);
        let settings = |quick, library| settings(&inputs(quick), &asked, library);
        let own = settings(false, &same);
        assert!(own.contains("1 seed, 15 s, "), "{own}");
        assert_eq!(settings(false, &same), own);
        assert_ne!(settings(true, &same), own);
        assert_ne!(settings(false, &changed), own);
    }

    #[test]
    fn each_policy_runs_once_and_the_baseline_always() {
        let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let given: Vec<String> = named(&["dio", "di", "dio"]);
        assert_eq!(compared(&given), [BASELINE, "dio", "di"]);
        let given: Vec<String> = named(&["dio", BASELINE]);
        assert_eq!(compared(&given), ["dio", BASELINE]);
        assert_eq!(compared(&[]), POLICIES);
    }

    #[test]
    fn seeds_of_mixes_do_not_meet() {
        assert_eq!(asked(&["--seed", "17592186044415"]).unwrap().seed, MOST_SEED);
        assert!(asked(&["--seed", "17592186044416"]).is_err());
    }

    #[test]
    fn each_program_is_in_one_half() {
        let shipped = Library::shipped().unwrap();
        let names = |half| -> Vec<String> {
            let library = half_of(shipped.iter().collect(), half).unwrap();
            library.iter().map(|profile| profile.name.clone()).collect()
        };
        let [chosen, judged, all] = [Half::Chosen, Half::Judged, Half::All].map(names);
        assert_eq!(judged.len(), all.len() / 2);
        assert!(judged.iter().all(|name| !chosen.contains(name)));
        assert_eq!(chosen.len() + judged.len(), all.len());
    }

    /// The run whose figures the documents show.
    const RUN: &str = include_str!("../../../../../docs/studies/ranking.json");

    /// A row of a figure by its policy.
    fn row<'a>(figure: &'a Value, policy: &str) -> Option<&'a Vec<Value>> {
        let rows = figure["rows"].as_array()?;
        rows.iter().filter_map(Value::as_array).find(|row| row[0] == policy)
    }

    fn figures() -> Vec<Value> {
        let run: Value = serde_json::from_str(RUN).unwrap();
        run["figures"].as_array().unwrap().clone()
    }

    /// The policies of the table that docs/policies.md opens with.
    const SHOWN: [&str; 12] = [
        "linux-default",
        "dio-power",
        "dio-2010",
        "dio",
        "dino",
        "maximum-local",
        "n-mass",
        "dio-lfoc",
        "dio+fair-clusters-online",
        "corun:profiles=0",
        "corun:ways=0",
        "corun",
    ];

    #[test]
    fn the_table_of_policies_has_the_figures_of_the_stored_run() {
        let text = include_str!("../../../../../docs/policies.md");
        let percent = |figure: &Value, policy: &str, place: usize| {
            let cell = row(figure, policy).map(|row| row[place].as_f64().unwrap());
            cell.map_or("-".to_owned(), |value| format!("{value:.2}"))
        };
        for figure in figures() {
            let machine = figure["heading"].as_str().unwrap().trim_start_matches("On ").to_owned();
            let cells: Vec<String> = SHOWN.map(|policy| percent(&figure, policy, 2)).to_vec();
            let line = format!("| {machine} | {} |\n", cells.join(" | "));
            assert!(text.contains(&line), "docs/policies.md lacks: {line}");
        }
        let all = &figures()[0];
        let cells: Vec<String> = SHOWN.map(|policy| percent(all, policy, 7)).to_vec();
        let line = format!("| worst mix against `linux-default` | {} |\n", cells.join(" | "));
        assert!(text.contains(&line), "docs/policies.md lacks: {line}");
        for figure in figures().iter().skip(1) {
            let machine = figure["heading"].as_str().unwrap().trim_start_matches("On ");
            let (mixes, proven) = proven(figure["about"].as_str().unwrap());
            let line = format!("The best placements of `{machine}` are not proven on {} of ", mixes - proven);
            assert_eq!(text.contains(&line), proven < mixes, "docs/policies.md: {line}");
        }
    }

    /// docs/policies.md leaves them out of its table for this reason.
    #[test]
    fn two_policies_of_linux_do_what_its_default_does() {
        for figure in figures() {
            let figures = |policy| &row(&figure, policy).unwrap()[1..];
            for policy in ["linux-sched-cache", "linux-power-saving"] {
                assert_eq!(figures(policy), figures("linux-default"), "{policy}");
            }
        }
    }

    /// Mixes, and those whose best placements are proven, out of a figure's text.
    fn proven(about: &str) -> (u64, u64) {
        let number = |text: &str| text.split(' ').next().unwrap().parse().unwrap();
        (number(about), number(about.split("; of ").nth(1).unwrap()))
    }

    #[test]
    fn the_page_has_every_row_of_the_stored_run() {
        let text = include_str!("../../../../../docs/studies/ranking.md");
        for figure in figures() {
            for row in figure["rows"].as_array().unwrap() {
                let cell = |value: &Value| match value {
                    Value::String(text) => format!("`{text}`"),
                    Value::Null => "-".to_owned(),
                    number => number.to_string(),
                };
                let cells: Vec<String> = row.as_array().unwrap().iter().map(cell).collect();
                let line = format!("| {} |\n", cells.join(" | "));
                assert!(text.contains(&line), "docs/studies/ranking.md lacks: {line}");
            }
        }
    }
}
