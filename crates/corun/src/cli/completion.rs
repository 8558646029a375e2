//! What can stand next on a command line, for the shell that asks.
//!
//! The script that `corun completions` prints calls corun with [`VARIABLE`] set and the words typed so far. The
//! answer comes from the definitions that `--help` comes from. Here the definitions get what they lack: which option
//! takes the name of a machine, of a program or of a policy.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use clap::ValueEnum;
use clap_complete::CompleteEnv;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};
use corun_policy::{PolicyEntry, PolicyKind, registry};

use super::definitions;

/// The variable by which a shell says that it wants completions.
const VARIABLE: &str = "CORUN_COMPLETE";

/// A shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShellName {
    /// Bash 4.4 or later
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
}

/// Answers a shell and ends the process, where a shell asks.
pub(crate) fn answer_shell() {
    CompleteEnv::with_factory(|| with_names(definitions())).var(VARIABLE).complete();
}

/// The script that makes a shell ask.
///
/// # Errors
/// None are known: the script is written to memory.
pub(crate) fn registration(shell: ShellName) -> io::Result<String> {
    let completer: &dyn EnvCompleter = match shell {
        ShellName::Bash => &Bash,
        ShellName::Zsh => &Zsh,
        ShellName::Fish => &Fish,
    };
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "corun", "corun", "corun", &mut script)?;
    if shell == ShellName::Zsh {
        script.extend_from_slice(FIRST_OF_ZSH.as_bytes());
    }
    String::from_utf8(script).map_err(io::Error::other)
}

/// Zsh reads a file of `fpath` at the first Tab, as the body of the function that is to answer. Without these lines
/// that Tab would be lost.
const FIRST_OF_ZSH: &str = "
if [[ $funcstack[1] == _corun ]]; then
    _clap_dynamic_completer_corun
fi
";

/// The definitions with the names that each option takes.
fn with_names(command: clap::Command) -> clap::Command {
    let line = command.get_name().to_owned();
    command.mut_args(move |argument| named(&line, argument)).mut_subcommands(with_names)
}

fn named(command: &str, argument: clap::Arg) -> clap::Arg {
    let value = argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let completer = match (argument.get_id().as_str(), value.as_deref()) {
        ("machine", Some("NAME|FILE")) => ArgValueCompleter::new(machines),
        ("machine" | "core", Some("CORE")) => ArgValueCompleter::new(cores),
        ("apps" | "beside" | "profile" | "programs", Some(_)) => ArgValueCompleter::new(programs),
        ("policy", _) if command == "place" => {
            policies(&["optimal", "worst", "optimal-cluster"], Some(PolicyKind::Placement))
        }
        ("policy", _) if command == "partition" => {
            policies(&["optimal", "worst"], Some(PolicyKind::Partitioning))
        }
        ("policy", _) => policies(&[], None),
        ("names", _) if command == "policies" => policies(&[], None),
        ("set", _) => ArgValueCompleter::new(parameters),
        _ => return argument,
    };
    argument.add(completer)
}

fn starting_with<'a>(
    typed: &OsStr,
    names: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let names = names.into_iter().filter(|(name, _)| name.starts_with(typed));
    names
        .map(|(name, help)| {
            let candidate = CompletionCandidate::new(name);
            if help.is_empty() { candidate } else { candidate.help(Some(help.to_owned().into())) }
        })
        .collect()
}

/// Presets, this machine, and machine files where none of them begins so.
fn machines(typed: &OsStr) -> Vec<CompletionCandidate> {
    let presets = corun_machine::presets();
    let names = presets.iter().map(|name| (*name, "")).chain([("this", "the machine in use")]);
    let found = starting_with(typed, names);
    if found.is_empty() { PathCompleter::any().complete(typed) } else { found }
}

fn cores(typed: &OsStr) -> Vec<CompletionCandidate> {
    let presets = corun_machine::presets();
    let generic = [("big-out-of-order", ""), ("small-in-order", "")];
    starting_with(typed, presets.iter().map(|name| (*name, "")).chain(generic))
}

/// Programs of the library that `--profiles` names on this command line, else of the shipped one; files where none
/// of them begins so.
fn programs(typed: &OsStr) -> Vec<CompletionCandidate> {
    let own = typed_after("--profiles")
        .and_then(|path| corun_app::open_library(Some(Path::new(&path))).ok());
    let found = match &own {
        Some(library) => starting_with(typed, library.names().map(|name| (name, ""))),
        None => {
            let names = corun_profile::shipped_names();
            starting_with(typed, names.into_iter().map(|name| (name, "")))
        }
    };
    if found.is_empty() { PathCompleter::any().complete(typed) } else { found }
}

/// Policies of a kind, or all; after `dio+`, those that partition.
fn policies(more: &'static [&'static str], kind: Option<PolicyKind>) -> ArgValueCompleter {
    ArgValueCompleter::new(move |typed: &OsStr| {
        let Some(text) = typed.to_str() else { return Vec::new() };
        let (first, rest) = match text.rsplit_once('+') {
            Some((first, rest)) => (format!("{first}+"), rest),
            None => (String::new(), text),
        };
        let wanted = if first.is_empty() { kind } else { Some(PolicyKind::Partitioning) };
        let fits = |entry: &&PolicyEntry| wanted.is_none_or(|kind| entry.kind() == kind);
        let entries = registry().iter().filter(fits).map(|entry| (entry.name, entry.summary));
        let more = more.iter().map(|name| (*name, "")).filter(|_| first.is_empty());
        let found = starting_with(OsStr::new(rest), entries.chain(more));
        found.into_iter().map(|one| one.add_prefix(&first)).collect()
    })
}

/// Parameters of the policy that stands on this command line; of all policies where none does.
fn parameters(typed: &OsStr) -> Vec<CompletionCandidate> {
    let policy = typed_after("--policy").and_then(|name| name.into_string().ok());
    let is_meant = |entry: &&PolicyEntry| {
        policy.as_deref().is_none_or(|typed| typed.split('+').any(|one| one == entry.name))
    };
    let mut names: Vec<String> = registry()
        .iter()
        .filter(is_meant)
        .flat_map(|entry| entry.parameters)
        .flat_map(|parameter| {
            let names = parameter.names().iter().copied();
            let alone = names.len() == 0;
            names.chain(alone.then_some("")).map(|value| format!("{}={value}", parameter.name))
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    starting_with(typed, names.iter().map(|name| (name.as_str(), "")))
}

/// What stands after an option among the words that the shell passed on.
fn typed_after(option: &str) -> Option<OsString> {
    let words: Vec<OsString> = std::env::args_os().collect();
    value_of(option, &words)
}

fn value_of(option: &str, words: &[OsString]) -> Option<OsString> {
    let with_value = format!("{option}=");
    let joined = words.iter().find_map(|word| word.to_str()?.strip_prefix(&with_value));
    joined.map(OsString::from).or_else(|| {
        let at = words.iter().position(|word| word == option)?;
        words.get(at + 1).cloned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a shell is offered for the last of these words.
    fn offered(words: &[&str]) -> Vec<String> {
        let words = words.iter().map(OsString::from).collect::<Vec<_>>();
        let last = words.len() - 1;
        let mut command = with_names(definitions());
        let found = clap_complete::engine::complete(&mut command, words, last, None).unwrap();
        found.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn names_of_machines_programs_and_policies_are_offered() {
        assert_eq!(
            offered(&["corun", "compare", "--machine", "xeon-e5-"]),
            ["xeon-e5-2620v4", "xeon-e5-2690"]
        );
        assert_eq!(offered(&["corun", "predict", "--machine", "th"]), ["this"]);
        assert_eq!(
            offered(&["corun", "predict", "--apps", "sort,zs"]),
            ["sort,zstd", "sort,zstd-mt"]
        );
        assert_eq!(offered(&["corun", "profiles", "show", "sq"]), ["sqlite3"]);
        assert_eq!(offered(&["corun", "compare", "--policy", "dio,cas"]), ["dio,casc"]);
        assert_eq!(
            offered(&["corun", "run", "--policy", "dio+lfo"]),
            [
                "dio+lfoc",
                "dio+lfoc-plus",
                "dio+lfoc-caps",
                "dio+lfoc-online",
                "dio+lfoc-plus-online"
            ]
        );
        assert_eq!(offered(&["corun", "place", "--policy", "opt"]), ["optimal", "optimal-cluster"]);
        // What places is not offered where a cache is partitioned.
        let partitioners = offered(&["corun", "partition", "--policy", ""]);
        assert!(partitioners.contains(&"ucp".to_owned()) && !partitioners.contains(&"dio".into()));
    }

    #[test]
    fn commands_options_and_fixed_values_are_offered() {
        assert_eq!(offered(&["corun", "comp"]), ["compare", "completions"]);
        assert_eq!(offered(&["corun", "completions", "f"]), ["fish"]);
        assert!(offered(&["corun", "compare", "--seed"]).contains(&"--seeds".to_owned()));
        assert_eq!(offered(&["corun", "topology", "--format", "j"]), ["json"]);
    }

    #[test]
    fn a_value_stands_after_its_option() {
        let words: Vec<OsString> =
            ["--", "corun", "--profiles", "a", "--policy=b"].map(OsString::from).into();
        assert_eq!(value_of("--profiles", &words), Some("a".into()));
        assert_eq!(value_of("--policy", &words), Some("b".into()));
        assert_eq!(value_of("--machine", &words), None);
    }
}
