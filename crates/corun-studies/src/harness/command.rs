//! The command line of `corun-study`, made from the list of studies, and what it does.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use corun_app::{Cancel, Error, Result};
use corun_cli::{TableFormat, UsageError};
use corun_report::{check_target, check_targets, json, print, write_file};

use super::Study;
use super::inputs::{Programs, StudyInputs};
use super::page::{Page, index};

/// How a study's page is written.
#[derive(Debug, Args)]
struct OutputArgs {
    /// Format of the output
    #[arg(long, value_enum, default_value = "table")]
    format: TableFormat,
    /// Also write an HTML page with its plots
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Also write its first plot
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
}

/// Where the pages of all studies go.
#[derive(Debug, Args)]
struct AllArgs {
    /// Where the pages are written; made if it is missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

const ALL: &str = "all";

/// Does what was typed.
///
/// # Errors
/// Wrong usage; else what came of the command.
pub(crate) fn run(
    studies: &[Study],
    words: impl IntoIterator<Item = OsString>,
) -> Result<Result<String>, UsageError> {
    let typed = command(studies).try_get_matches_from(words)?;
    let Some((name, options)) = typed.subcommand() else { return Ok(Ok(String::new())) };
    Ok(match studies.iter().find(|study| study.name == name) {
        Some(study) => one(study, options),
        None => all(studies, options),
    })
}

fn command(studies: &[Study]) -> Command {
    let mut command = Command::new("corun-study")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Runs a paper's experiment again and shows its figures beside the paper's")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(
            "Examples:\n  corun-study classification --report classification.html\n  corun-study \
             n-mass --profiles solo.csv --format json\n  corun-study all --profiles solo.csv --out \
             studies/\n\nExit codes: 0 done, 1 failed, 2 wrong usage or bad input, 130 interrupted.",
        );
    let about = "Runs every study that needs no recordings and writes a page for each";
    let all = with_inputs(
        AllArgs::augment_args(Command::new(ALL)),
        Programs::BuiltInAndSpec,
        (true, true),
    );
    command = command.subcommand(described(all, about).after_help(
        "Writes NAME.html and NAME.json for every study, and index.html. Without --profiles the \
         studies that stand on SPEC programs are left out, and the output says so.",
    ));
    for study in studies {
        let own = (study.options)(Command::new(study.name));
        let own = with_inputs(own, study.programs, (study.seeds.is_some(), study.has_quick));
        let own = described(OutputArgs::augment_args(own), study.summary);
        let explained = format!("A run is described in {}.", study.explained_in);
        command = command.subcommand(own.after_help(explained));
    }
    command
}

/// Says what a command does, in the place of what clap took from its options' documentation.
fn described(command: Command, about: &'static str) -> Command {
    command.about(about).long_about(None)
}

/// Adds the options that say on what a study stands.
fn with_inputs(mut command: Command, programs: Programs, (seeds, quick): (bool, bool)) -> Command {
    if matches!(programs, Programs::Spec | Programs::BuiltInAndSpec) {
        let about = "The SPEC programs: a CSV of solo figures by LLC ways, or a folder with \
                     profiles of these names";
        let path = clap::value_parser!(PathBuf);
        let profiles = Arg::new("profiles").long("profiles").value_name("PATH");
        command = command.arg(profiles.help(about).value_parser(path));
    }
    if quick {
        let about = "A first look, with rougher figures: what takes longest is shorter, and one in so many programs, \
                     mixes, runs or machines is looked at; the page says what is less";
        let quick = Arg::new("quick").long("quick").action(ArgAction::SetTrue);
        command = command.arg(quick.help(about));
    }
    if seeds {
        let about = "Repeat what depends on chance with seeds 1 to N; the study's own number \
                     unless given";
        let count = clap::value_parser!(u32).range(1..=10_000);
        let seeds = Arg::new("seeds").long("seeds").value_name("N");
        command = command.arg(seeds.help(about).value_parser(count));
    }
    command
}

fn profiles(options: &ArgMatches) -> Option<&Path> {
    let given = options.try_get_one::<PathBuf>("profiles").ok().flatten();
    given.map(PathBuf::as_path)
}

fn seeds(options: &ArgMatches) -> Option<u32> {
    options.try_get_one("seeds").ok().flatten().copied()
}

fn is_quick(options: &ArgMatches) -> bool {
    options.try_get_one("quick").ok().flatten().copied().unwrap_or(false)
}

fn page_of(study: &Study, inputs: &StudyInputs) -> Result<Page> {
    let mut page = (study.page)(inputs)?;
    inputs.cancel.check()?;
    if let Some(shortened) = inputs.shortened() {
        page.about.push_str(&format!(" --quick: {shortened}."));
    }
    Ok(Page { name: study.name, explained_in: study.explained_in, ..page })
}

fn document(page: &Page) -> Result<String> {
    page.own_json.clone().map_or_else(|| json(page), Ok)
}

/// Runs one study and writes its page as asked.
fn one(study: &Study, options: &ArgMatches) -> Result<String> {
    let output = OutputArgs::from_arg_matches(options).map_err(Error::failed)?;
    check_targets([&output.report, &output.svg].into_iter().flatten())?;
    let count = seeds(options).or(study.seeds).unwrap_or(1);
    let inputs =
        StudyInputs::new(profiles(options), count, ArgMatches::default(), Cancel::on_signal()?)?;
    let inputs = inputs.with(count, options.clone(), is_quick(options));
    if study.programs == Programs::Spec {
        inputs.spec()?;
    }
    let page = page_of(study, &inputs)?;
    if let Some(path) = &output.report {
        write_file(path, page.html().as_bytes())?;
    }
    let text = match output.format {
        TableFormat::Table => page.text(),
        TableFormat::Json => document(&page)?,
        TableFormat::Csv => page.csv()?,
    };
    if let Some(path) = &output.svg {
        let Some(drawing) = page.svg() else {
            // What came out may have taken minutes.
            print(&text)?;
            let name = study.name;
            return Err(Error::input(format!("--svg: nothing in the study {name} is drawn")));
        };
        write_file(path, drawing.as_bytes())?;
    }
    Ok(text)
}

/// Runs all of them into a folder.
fn all(studies: &[Study], options: &ArgMatches) -> Result<String> {
    let AllArgs { out: folder } = AllArgs::from_arg_matches(options).map_err(Error::failed)?;
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    check_target(&folder.join("index.html"))?;
    let mut inputs =
        StudyInputs::new(profiles(options), 1, ArgMatches::default(), Cancel::on_signal()?)?;
    let (mut text, mut pages) = (String::new(), Vec::new());
    for study in studies.iter().filter(|study| study.programs != Programs::OwnOptions) {
        if study.programs == Programs::Spec && inputs.spec_if_given().is_none() {
            text.push_str(&format!("{}: left out, needs --profiles\n", study.name));
            continue;
        }
        let count = seeds(options).or(study.seeds).unwrap_or(1);
        inputs = inputs.with(count, defaults(study)?, is_quick(options));
        let page = page_of(study, &inputs)?;
        let path = folder.join(format!("{}.html", study.name));
        write_file(&path, page.html().as_bytes())?;
        let beside = folder.join(format!("{}.json", study.name));
        write_file(&beside, document(&page)?.as_bytes())?;
        text.push_str(&format!("{}: {}\n", study.name, path.display()));
        pages.push(page);
    }
    write_file(&folder.join("index.html"), index(&pages).as_bytes())?;
    Ok(text)
}

/// A study's own options as they are where nothing was typed.
fn defaults(study: &Study) -> Result<ArgMatches> {
    let command = (study.options)(Command::new(study.name)).no_binary_name(true);
    command.try_get_matches_from([""; 0]).map_err(Error::failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::no_options;
    use crate::studies::STUDIES;

    #[test]
    fn the_tree_of_commands_is_sound() {
        let command = command(STUDIES);
        for study in STUDIES {
            let found = command.find_subcommand(study.name).unwrap();
            assert_eq!(found.get_about().unwrap().to_string(), study.summary);
        }
        command.debug_assert();
    }

    #[test]
    fn every_study_has_its_document_and_runs_without_options() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        for study in STUDIES {
            assert!(Path::new(root).join(study.explained_in).is_file(), "{}", study.explained_in);
            let needed = study.programs == Programs::OwnOptions;
            assert!(needed || defaults(study).is_ok(), "{} in `all`", study.name);
        }
        assert!(no_options(Command::new("x")).get_arguments().next().is_none());
    }

    #[test]
    fn documentation_names_every_study_and_option() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/studies/README.md");
        let text = std::fs::read_to_string(path).unwrap();
        let mut missing = Vec::new();
        for sub in command(STUDIES).get_subcommands() {
            let heading = format!("## corun-study {}\n", sub.get_name());
            let Some((_, rest)) = text.split_once(&heading) else {
                missing.push(sub.get_name().to_owned());
                continue;
            };
            let part = rest.split_once("\n## ").map_or(rest, |(part, _)| part);
            let options = sub.get_arguments().filter_map(Arg::get_long);
            let lacks =
                options.filter(|one| *one != "help" && !part.contains(&format!("`--{one}")));
            missing.extend(lacks.map(|one| format!("{} --{one}", sub.get_name())));
        }
        assert!(missing.is_empty(), "docs/studies/README.md lacks {missing:?}");
    }
}
