//! `corun study`: one module a study.

mod curve_pairs;
mod dio_mixes;
mod partitioning;
mod prediction;
mod sampling;

use crate::cli::StudyCommand;
use crate::failure::Outcome;

pub(super) fn run(command: &StudyCommand) -> Outcome<String> {
    match command {
        StudyCommand::DioMixes(arguments) => dio_mixes::run(arguments),
        StudyCommand::Partitioning(arguments) => partitioning::run(arguments),
        StudyCommand::Prediction(arguments) => prediction::run(arguments),
        StudyCommand::Sampling(arguments) => sampling::run(arguments),
        StudyCommand::Rerecording(arguments) => sampling::run_again(arguments),
    }
}
