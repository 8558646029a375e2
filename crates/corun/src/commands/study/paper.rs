//! The papers' experiments: each makes a page, from the same ground.

use std::path::Path;
use std::sync::OnceLock;

use anyhow::Context as _;
use corun_app::open_library;
use corun_profile::Library;

use crate::cli::{AllStudiesArgs, PaperStudyArgs, TableFormat};
use crate::failure::{Failure, Outcome};
use crate::output::{check_target, json, write_file};
use crate::report::{StudyReport, index_of_studies};
use corun_app::Cancel;

/// An experiment of a paper.
pub(super) struct PaperStudy {
    /// Its name on the command line.
    pub(super) name: &'static str,
    /// The programs it stands on.
    pub(super) stands_on: StandsOn,
    /// Seeds unless told.
    pub(super) seeds: u32,
    /// Makes its page.
    pub(super) page: fn(&Ground) -> Outcome<StudyReport>,
}

/// Which programs a study needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StandsOn {
    /// The SPEC programs of a table that is not part of corun.
    Spec,
    /// The shipped library; the SPEC programs beside it where they are given.
    Shipped,
}

/// What every study gets.
pub(super) struct Ground {
    spec: Option<Library>,
    shipped: OnceLock<Library>,
    /// Repeat what depends on chance with seeds 1 to this.
    pub(super) seeds: u32,
    /// Set when the user wants to stop.
    pub(super) cancel: Cancel,
}

impl Ground {
    pub(super) fn new(profiles: Option<&Path>, seeds: u32, cancel: Cancel) -> Outcome<Self> {
        let spec = profiles.map(|path| open_library(Some(path))).transpose()?;
        Ok(Self { spec, shipped: OnceLock::new(), seeds, cancel })
    }

    /// The programs that corun ships.
    pub(super) fn shipped(&self) -> Outcome<&Library> {
        if let Some(library) = self.shipped.get() {
            return Ok(library);
        }
        let shipped = open_library(None)?;
        Ok(self.shipped.get_or_init(|| shipped))
    }

    /// The SPEC programs.
    ///
    /// # Errors
    /// Bad input when the user gave none.
    pub(super) fn spec(&self) -> Outcome<&Library> {
        self.spec.as_ref().ok_or_else(|| {
            Failure::input("this study stands on SPEC CPU programs, which are not part of corun")
                .hint("--profiles FILE.csv: their solo figures by LLC ways, as `corun profiles import` takes them")
        })
    }
}

/// Runs one study.
pub(super) fn run(study: &PaperStudy, arguments: &PaperStudyArgs) -> Outcome<String> {
    run_with(study.seeds, arguments, study.page)
}

/// Makes a page and writes it as asked.
pub(super) fn run_with(
    seeds: u32,
    arguments: &PaperStudyArgs,
    page: impl Fn(&Ground) -> Outcome<StudyReport>,
) -> Outcome<String> {
    if let Some(path) = &arguments.report {
        check_target(path)?;
    }
    let seeds = arguments.seeds.unwrap_or(seeds);
    let ground = Ground::new(arguments.profiles.as_deref(), seeds, Cancel::on_signal()?)?;
    let page = page(&ground)?;
    ground.cancel.check()?;
    if let Some(path) = &arguments.report {
        write_file(path, page.render().as_bytes())?;
    }
    match arguments.format {
        TableFormat::Table => Ok(page.text()),
        TableFormat::Json => json(&page),
        TableFormat::Csv => page.csv(),
    }
}

/// Runs all of them into a folder.
pub(super) fn run_all(studies: &[PaperStudy], arguments: &AllStudiesArgs) -> Outcome<String> {
    let folder = &arguments.out;
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    check_target(&folder.join("index.html"))?;
    let mut ground = Ground::new(arguments.profiles.as_deref(), 1, Cancel::on_signal()?)?;
    let (mut text, mut pages) = (String::new(), Vec::new());
    for study in studies {
        if study.stands_on == StandsOn::Spec && ground.spec.is_none() {
            text.push_str(&format!("{}: left out, needs --profiles\n", study.name));
            continue;
        }
        ground.seeds = arguments.seeds.unwrap_or(study.seeds);
        let page = (study.page)(&ground)?;
        ground.cancel.check()?;
        let path = folder.join(format!("{}.html", study.name));
        write_file(&path, page.render().as_bytes())?;
        write_file(&folder.join(format!("{}.json", study.name)), json(&page)?.as_bytes())?;
        text.push_str(&format!("{}: {}\n", study.name, path.display()));
        pages.push(page);
    }
    write_file(&folder.join("index.html"), index_of_studies(&pages).as_bytes())?;
    Ok(text)
}
