//! `corun study`: one module a study. An experiment of a paper is its module, its line in
//! [`PAPER_STUDIES`] and its name in [`StudyCommand`].

mod camps;
mod casc;
mod classification;
mod curve_pairs;
mod dio_mixes;
mod dio_power;
mod factors;
mod lamp;
mod lfoc;
mod mlb;
mod n_mass;
mod paper;
mod partitioning;
mod prediction;
mod runs;
mod sampling;

use self::paper::PaperStudy;
use crate::cli::StudyCommand;
use crate::failure::Outcome;

/// What `corun study all` runs, in the order in which it is shown.
const PAPER_STUDIES: &[PaperStudy] = &[
    classification::STUDY,
    factors::STUDY,
    dio_mixes::STUDY,
    lamp::STUDY,
    dio_power::STUDY,
    n_mass::STUDY,
    mlb::STUDY,
    casc::STUDY,
    camps::STUDY,
    lfoc::STUDY,
];

pub(super) fn run(command: &StudyCommand) -> Outcome<String> {
    match command {
        StudyCommand::All(arguments) => paper::run_all(PAPER_STUDIES, arguments),
        StudyCommand::Camps(arguments) => paper::run(&camps::STUDY, arguments),
        StudyCommand::Casc(arguments) => paper::run(&casc::STUDY, arguments),
        StudyCommand::Classification(arguments) => paper::run(&classification::STUDY, arguments),
        StudyCommand::Factors(arguments) => factors::run(arguments),
        StudyCommand::DioMixes(arguments) => paper::run(&dio_mixes::STUDY, arguments),
        StudyCommand::Lamp(arguments) => paper::run(&lamp::STUDY, arguments),
        StudyCommand::DioPower(arguments) => paper::run(&dio_power::STUDY, arguments),
        StudyCommand::Lfoc(arguments) => paper::run(&lfoc::STUDY, arguments),
        StudyCommand::NMass(arguments) => paper::run(&n_mass::STUDY, arguments),
        StudyCommand::Mlb(arguments) => paper::run(&mlb::STUDY, arguments),
        StudyCommand::Partitioning(arguments) => partitioning::run(arguments),
        StudyCommand::Prediction(arguments) => prediction::run(arguments),
        StudyCommand::Sampling(arguments) => sampling::run(arguments),
        StudyCommand::Rerecording(arguments) => sampling::run_again(arguments),
    }
}
