//! `corun study`: a paper's experiment, one file a study.

mod dio_mixes;

use crate::cli::{StudyArgs, StudyName};
use crate::failure::Outcome;

pub(super) fn run(arguments: &StudyArgs) -> Outcome<String> {
    match arguments.study {
        StudyName::DioMixes => dio_mixes::run(arguments),
    }
}
