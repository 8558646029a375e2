//! What a profile does not hold, in words for the user.

use super::Request;
use super::child::Ended;
use super::gather::Gathered;
use crate::report::RunState;

/// The notes on a recording; none as a rule.
pub(super) fn notes(
    state: RunState,
    untraced: u64,
    cut_off: u64,
    gathered: &Gathered,
    ended: &Ended,
    request: &Request,
) -> Vec<String> {
    let mut notes = Vec::new();
    // Whoever came to its end by itself and still has an unfinished report could not hand in another one.
    let main_is_cut_off = cut_off > 0
        && matches!(state, RunState::Running | RunState::Replaced)
        && ended.status.code().is_some();
    let cut_off = cut_off - u64::from(main_is_cut_off);
    let end = match state {
        _ if main_is_cut_off => Some(
            "the program gave up rights or took another root folder, from where the profile could \
             not be written; what it did from then on is not in it",
        ),
        RunState::Ended if gathered.main_is_passed_over => Some(
            "the program ended within the instructions that were left out; the profile is of what \
             it started",
        ),
        RunState::Ended => None,
        RunState::Signalled => {
            Some("a signal ended the program; the profile is of the part before")
        }
        RunState::Running | RunState::Replaced => Some(
            "the program crashed or was killed; the last second of it may be missing from the \
             profile",
        ),
        RunState::Untraced => Some(
            "the program replaced itself by another one that cannot be traced and ran natively",
        ),
        RunState::InstructionLimit => {
            Some("stopped at the instruction limit; the profile is of the part before")
        }
        RunState::TimeLimit => Some("stopped at the time limit; the profile is of the part before"),
    };
    notes.extend(end.map(str::to_owned));
    let untraced = untraced - u64::from(state == RunState::Untraced).min(untraced);
    if untraced > 0 {
        let why = if request.settings.main_only { ", as asked" } else { "" };
        notes.push(format!(
            "{} ran that {} not in the profile{why}",
            processes(untraced),
            is(untraced)
        ));
    }
    if cut_off > 0 {
        notes.push(format!(
            "{} gave up rights or took another root folder, from where the profile could not be \
             written; what {} did from then on is not in it",
            processes(cut_off),
            if cut_off == 1 { "it" } else { "they" },
        ));
    }
    let crashed = gathered.crashed.saturating_sub(cut_off);
    if crashed > 0 && ended.limit.is_none() && ended.left == 0 {
        notes.push(format!(
            "{} that the program started crashed or {} killed; the last second may be missing \
             from the profile",
            processes(crashed),
            if crashed == 1 { "was" } else { "were" },
        ));
    }
    if ended.left > 0 {
        let count = ended.left as u64;
        notes.push(format!(
            "{} of the program still ran when it ended; what {} from then on is not in the profile",
            processes(count),
            if count == 1 { "it does" } else { "they do" },
        ));
    }
    if gathered.lost_threads > 0 {
        notes.push(format!("{} threads could not be followed", gathered.lost_threads));
    }
    notes
}

fn processes(count: u64) -> String {
    if count == 1 { "1 process".to_owned() } else { format!("{count} processes") }
}

fn is(count: u64) -> &'static str {
    if count == 1 { "is" } else { "are" }
}
