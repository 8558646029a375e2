use clap::CommandFactory as _;

use super::*;

#[test]
fn the_tree_of_commands_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn documentation_names_every_subcommand_and_long_option() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut missing = Vec::new();
    visit(&Cli::command(), &mut |command_line, command| {
        if !text.contains(&format!("corun {command_line}").trim_end().to_owned()) {
            missing.push(command_line.to_owned());
        }
        // Each command's own part of the page has to name its options.
        let heading = format!("## corun {command_line}\n");
        let part = text
            .split_once(&heading)
            .map_or("", |(_, rest)| rest.split_once("\n## ").map_or(rest, |(part, _)| part));
        for option in command.get_arguments().filter_map(clap::Arg::get_long) {
            if !part.contains(&format!("`--{option}")) && !["help", "version"].contains(&option) {
                missing.push(format!("{command_line} --{option}"));
            }
        }
    });
    assert!(missing.is_empty(), "docs/commands.md lacks {missing:?}");
}

fn visit(command: &clap::Command, see: &mut impl FnMut(&str, &clap::Command)) {
    fn below(command: &clap::Command, line: &str, see: &mut impl FnMut(&str, &clap::Command)) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let line = format!("{line} {}", sub.get_name()).trim().to_owned();
            if sub.has_subcommands() {
                below(sub, &line, see);
            } else {
                see(&line, sub);
            }
        }
    }
    below(command, "", see);
}
