//! `corun policies`: which policies there are, where they come from, and what can be set.

use std::fmt::Write as _;

use corun_app::policy_names;
use corun_policy::{LiveForm, Parameter, ParameterKind, PolicyEntry, PolicyKind, registry};
use corun_report::{filled, json};
use serde::Serialize;

use crate::cli::{DocumentFormat, PoliciesArgs};
use crate::failure::Outcome;

/// Where the words of a policy's description begin.
const WORDS: usize = 12;

#[derive(Debug, Serialize)]
struct Document {
    policies: Vec<Described>,
}

#[derive(Debug, Serialize)]
struct Described {
    name: &'static str,
    kind: &'static str,
    summary: &'static str,
    source: &'static str,
    /// By which test or study it was evaluated as it runs on a real machine.
    evaluated_live_by: Option<&'static str>,
    /// Why it may not act on one unless the user insists.
    untested_live: Option<&'static str>,
    parameters: Vec<Settable>,
}

#[derive(Debug, Serialize)]
struct Settable {
    name: &'static str,
    kind: &'static str,
    default: f64,
    min: f64,
    max: f64,
    /// Of a choice, from 0 on.
    names: &'static [&'static str],
    summary: &'static str,
}

pub(super) fn run(arguments: &PoliciesArgs) -> Outcome<String> {
    let mut named = Vec::new();
    for name in &arguments.names {
        named.extend(policy_names(name)?.into_iter().filter_map(PolicyEntry::named));
    }
    let shown = if named.is_empty() { registry().iter().collect() } else { named };
    match arguments.format {
        DocumentFormat::Json => {
            json(&Document { policies: shown.into_iter().map(described).collect() })
        }
        DocumentFormat::Text if arguments.names.is_empty() => Ok(list()),
        DocumentFormat::Text => {
            let texts: Vec<String> = shown.into_iter().map(description).collect();
            Ok(texts.join("\n"))
        }
    }
}

fn list() -> String {
    let mut text = String::new();
    let column = column_beside(registry().iter().map(|entry| entry.name));
    for (kind, title) in [
        (PolicyKind::Placement, "Policies that place threads"),
        (PolicyKind::Partitioning, "\nPolicies that divide caches"),
    ] {
        let _ = writeln!(text, "{title}");
        for entry in registry().iter().filter(|entry| entry.kind() == kind) {
            text.push_str(&beside(entry.name, entry.summary, column));
        }
    }
    text.push_str("\ncorun policies NAME says where a policy comes from, and what can be set\n");
    text
}

fn description(entry: &'static PolicyEntry) -> String {
    let mut text = format!("{}\n", entry.name);
    let live = match entry.live {
        LiveForm::Evaluated { by } => format!("evaluated: {by}"),
        LiveForm::Untested { why } => format!("not evaluated: {why}"),
    };
    let lines = [("does", entry.summary), ("source", entry.source), ("as live", &live)];
    for (head, words) in lines {
        text.push_str(&beside(head, words, WORDS));
    }
    if entry.parameters.is_empty() {
        text.push_str("  nothing can be set\n");
        return text;
    }
    let _ = writeln!(text, "  parameters, set by {}:NAME=VALUE", entry.name);
    let column = 2 + column_beside(entry.parameters.iter().map(|parameter| parameter.name));
    for parameter in entry.parameters {
        let told = format!(
            "{}; {}. {}",
            default(parameter),
            parameter.expected(),
            sentence(parameter.summary)
        );
        text.push_str(&beside(&format!("  {}", parameter.name), &told, column));
    }
    text
}

/// Its default, by name where it is a choice.
fn default(parameter: &Parameter) -> String {
    match parameter.names().get(parameter.default as usize) {
        Some(name) => format!("default {name}"),
        None => format!("default {}", parameter.default),
    }
}

fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The column behind the longest name.
fn column_beside<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    4 + names.map(str::len).max().unwrap_or_default()
}

/// A name and words beside it, from a column on.
fn beside(name: &str, words: &str, column: usize) -> String {
    let head = format!("  {name} ");
    let first = format!("{head:column$}");
    filled(words, &first, &" ".repeat(column))
}

fn described(entry: &'static PolicyEntry) -> Described {
    let (evaluated_live_by, untested_live) = match entry.live {
        LiveForm::Evaluated { by } => (Some(by), None),
        LiveForm::Untested { why } => (None, Some(why)),
    };
    let kind = match entry.kind() {
        PolicyKind::Placement => "placement",
        PolicyKind::Partitioning => "partitioning",
    };
    let PolicyEntry { name, summary, source, .. } = *entry;
    let parameters = entry.parameters.iter().map(settable).collect();
    Described { name, kind, summary, source, evaluated_live_by, untested_live, parameters }
}

fn settable(parameter: &Parameter) -> Settable {
    let Parameter { name, default, min, max, summary, .. } = *parameter;
    let kind = match parameter.kind {
        ParameterKind::Number => "number",
        ParameterKind::ZeroOrFrom(_) => "zero-or-number",
        ParameterKind::WholeNumber => "whole-number",
        ParameterKind::Choice(_) => "choice",
    };
    let min = match parameter.kind {
        ParameterKind::ZeroOrFrom(least) => least,
        _ => min,
    };
    Settable { name, kind, default, min, max, names: parameter.names(), summary }
}
