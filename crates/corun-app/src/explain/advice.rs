//! The commands that would help, as typed in a shell, and what takes them back.

use std::borrow::Cow;
use std::path::Path;

use corun_linux::quoted_controls;
use corun_machine::CpuSet;

use super::diagnosis::Advice;
use super::facts::{Competitor, NiceFacts, ProgramFacts};

/// The most characters of a command line that is shown again.
const LONGEST_COMMAND: usize = 300;

pub(super) fn advice(does: impl Into<String>, command: impl Into<String>) -> Advice {
    Advice { does: does.into(), command: command.into(), undo: None }
}

/// A name as a shell takes it for one word. Names of groups have backslashes, and whoever makes a group names it. One
/// with a character 0, as a profile may have, cannot be typed.
pub(super) fn word(name: &str) -> Cow<'_, str> {
    if name.contains('\0') {
        return Cow::Borrowed("NAME");
    }
    let quoted = quoted_controls(name).map(Cow::Owned);
    quoted.unwrap_or_else(|| shlex::try_quote(name).unwrap_or(Cow::Borrowed("NAME")))
}

/// Writes a value to a file of the kernel. `may`: this user may; else root may.
pub(super) fn write_to(value: &str, file: &Path, may: bool) -> String {
    let file = file.to_string_lossy();
    let file = word(&file);
    if may { format!("echo {value} > {file}") } else { format!("echo {value} | sudo tee {file}") }
}

/// Has all threads of the program run on these CPUs.
pub(super) fn run_on(cpus: &CpuSet, does: String, facts: &ProgramFacts) -> Advice {
    let undo = facts.all_may_run_on_same.then(|| taskset(&facts.may_run_on, &facts.pids));
    Advice { undo, ..advice(does, taskset(cpus, &facts.pids)) }
}

/// `taskset` for each process, since it takes one at a time.
fn taskset(cpus: &CpuSet, pids: &[u32]) -> String {
    match pids {
        [pid] => format!("taskset -a -cp {cpus} {pid}"),
        pids => {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            format!("for pid in {}; do taskset -a -cp {cpus} $pid; done", pids.join(" "))
        }
    }
}

/// Lets another program give way; none where it already does as much as it can.
pub(super) fn give_way(other: &Competitor) -> Option<Advice> {
    let nice = [10, 19].into_iter().find(|&nice| nice > other.nice)?;
    let renice = |nice: i32| renice(nice, other.pid, other.threads);
    let does = format!("lets {} give way", other.name);
    let root = if other.may_be_given_back { "" } else { "sudo " };
    let undo = format!("{root}{}", renice(other.nice));
    Some(Advice { undo: Some(undo), ..advice(does, renice(nice)) })
}

/// Gives the program the nice value 0, of which the process has another.
pub(super) fn no_nice(nice: NiceFacts, pid: u32) -> Advice {
    let root = if nice.may_be_0 { "" } else { "sudo " };
    let set = advice(
        "gives it the nice value that programs have by default",
        format!("{root}{}", renice(0, pid, nice.threads)),
    );
    Advice { undo: Some(renice(nice.value, pid, nice.threads)), ..set }
}

/// Has the program scheduled as others are, where `SCHED_IDLE` is its policy.
pub(super) fn no_idle_policy(nice: NiceFacts, pid: u32) -> Advice {
    let root = if nice.may_be_0 { "" } else { "sudo " };
    let set = advice(
        "has it scheduled as programs are by default",
        format!("{root}chrt --all-tasks --other --pid 0 {pid}"),
    );
    Advice { undo: Some(format!("chrt --all-tasks --idle --pid 0 {pid}")), ..set }
}

/// Linux knows a nice value of each thread.
fn renice(nice: i32, pid: u32, threads: u32) -> String {
    match threads {
        1 => format!("renice -n {nice} -p {pid}"),
        _ => format!("renice -n {nice} -p $(ls /proc/{pid}/task)"),
    }
}

/// A file of profiles, and those that were asked for.
fn with_stored(file: &str, facts: &ProgramFacts) -> String {
    format!("{file},{}", facts.cache.profiles.as_deref().unwrap_or("shipped"))
}

/// The option that names the profiles that were asked for; nothing for the shipped ones.
pub(super) fn profiles_option(facts: &ProgramFacts) -> String {
    let named = facts.cache.profiles.as_deref();
    named.map_or(String::new(), |profiles| format!(" --profiles {}", word(profiles)))
}

/// Records the program, and explains it again by what was recorded.
pub(super) fn record(facts: &ProgramFacts) -> Vec<Advice> {
    let command = facts.command.as_deref().filter(|words| !words.is_empty());
    let typed =
        command.map(|words| words.iter().map(|one| word(one)).collect::<Vec<_>>().join(" "));
    let typed = typed.filter(|typed| typed.chars().count() <= LONGEST_COMMAND);
    let name = command.and_then(|words| Path::new(&words[0]).file_name()?.to_str());
    let name = name.filter(|name| corun_profile::check_name(name).is_ok()).unwrap_or("mine");
    let typed = typed.unwrap_or_else(|| "PROGRAM ARGUMENTS".to_owned());
    let file = format!("{name}.toml");
    let list = with_stored(&file, facts);
    let pid = facts.pids.first().copied().unwrap_or(0);
    let there = facts
        .command_folder
        .as_ref()
        .map_or(String::new(), |folder| format!("cd {} && ", word(&folder.to_string_lossy())));
    vec![
        advice(
            "runs the program anew, some ten times as slow, and records its use of caches, without counters; Ctrl-C ends \
             one that does not end",
            format!("{there}corun profile -o {} -- {typed}", word(&file)),
        ),
        advice(
            "then tells its own misses from those that others cause",
            format!("corun explain {pid} --profiles {} --profile {}", word(&list), word(name)),
        ),
    ]
}

/// Records a program that runs beside this one, so that it is known among the neighbours.
pub(super) fn record_neighbour(name: &str, facts: &ProgramFacts) -> Vec<Advice> {
    let is_name = corun_profile::check_name(name).is_ok();
    let file = format!("{}.toml", if is_name { name } else { "neighbour" });
    let list = with_stored(&file, facts);
    let pid = facts.pids.first().copied().unwrap_or(0);
    vec![
        advice(
            format!("records {name}, with the arguments that it has here"),
            format!("corun profile -o {} -- {} ARGUMENTS", word(&file), word(name)),
        ),
        advice(
            format!("then tells what {name} does to it"),
            format!("corun explain {pid} --profiles {}", word(&list)),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_shown_as_it_is_typed() {
        assert_eq!(word("/opt/my solver"), "'/opt/my solver'");
        assert_eq!(word("/opt/\u{1b}[31m's"), r"$'/opt/\u001b[31m\'s'");
        assert_eq!(word("a\0b"), "NAME");
    }

    #[test]
    fn what_only_root_may_write_is_written_as_root() {
        let file = Path::new("/proc/9/autogroup");
        assert_eq!(write_to("10", file, true), "echo 10 > /proc/9/autogroup");
        assert_eq!(write_to("10", file, false), "echo 10 | sudo tee /proc/9/autogroup");
    }
}
