//! `corun doctor`: what can be measured and controlled here, and which policies run.

use std::fmt::Write as _;

use corun_linux::{Reach, Roots};
use corun_live::default_folder;
use corun_live::doctor::{
    Area, Beside, Facts, Finding, PolicyVerdict, Runs, State, Tracer, findings, probe, verdicts,
};
use serde::Serialize;

use super::topology::no_machine;
use crate::cli::{DoctorArgs, DocumentFormat};
use crate::failure::Outcome;
use corun_report::{counted, filled, json, size};

/// How the verdict on a policy begins that this machine is not made for.
const UNFIT: &str = "a machine that it is for";
/// Where the words of a finding begin.
const WORDS: usize = 28;

#[derive(Debug, Serialize)]
struct Document {
    facts: Facts,
    findings: Vec<Finding>,
    policies: Vec<PolicyVerdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    may_use: Option<Reach>,
}

pub(super) fn run(arguments: &DoctorArgs) -> Outcome<String> {
    if let Some(root) = &arguments.root {
        corun_machine::check_root(root).map_err(|error| no_machine(root, error))?;
    }
    let roots = arguments.root.as_deref().map_or_else(Roots::default, Roots::below);
    let beside = Beside { tracer: Some(tracer()), journal: Some(default_folder()) };
    let facts = probe(&roots, beside);
    let may_use = Reach::of_self(&roots);
    let document =
        Document { findings: findings(&facts), policies: verdicts(&facts), facts, may_use };
    match arguments.format {
        DocumentFormat::Json => json(&document),
        DocumentFormat::Text => Ok(text(&document, arguments.policies)),
    }
}

/// Can this machine's own programs be recorded?
fn tracer() -> Tracer {
    let own = std::env::current_exe().unwrap_or_else(|_| "/bin/sh".into());
    let missing = corun_trace::check(&[own.into_os_string()]).err().map(|error| match error {
        corun_trace::TraceError::NoQemu { qemu, .. } => {
            format!("{qemu} is not installed: apt-get install qemu-user")
        }
        other => other.to_string(),
    });
    Tracer { missing }
}

/// `all`: in full also policies that do not run here.
fn text(document: &Document, all: bool) -> String {
    let mut text = wrapped(&headline(&document.facts), 0, 2);
    if let Some(reach) = document.may_use.as_ref().filter(|reach| reach.is_limited()) {
        text.push_str(&wrapped(&format!("This process may use {reach}"), 0, 2));
    }
    for (area, title) in [
        (Area::Measure, "It can measure"),
        (Area::Control, "It can control"),
        (Area::Keep, "corun can keep"),
    ] {
        let _ = write!(text, "\n{title}\n");
        for finding in document.findings.iter().filter(|finding| finding.area == area) {
            let state = state(finding.state);
            line(&mut text, &format!("{state:5}{}", finding.name), &finding.found);
            if let Some(advice) = &finding.advice {
                line(&mut text, "", &format!("-> {advice}"));
            }
        }
    }
    let (shown, short): (Vec<_>, Vec<_>) =
        document.policies.iter().partition(|one| all || one.runs != Runs::No);
    text.push_str("\nPolicies\n");
    for group in groups(&shown) {
        policies(&mut text, &group);
    }
    if !short.is_empty() {
        text.push_str("\nPolicies that do not run here (corun doctor --policies says more)\n");
    }
    for (lack, names) in by_lack(&short) {
        text.push_str(&wrapped(&format!("{lack}: {}", names.join(", ")), 2, 4));
    }
    text
}

/// Policies by what they lack, in the order of the first of each.
fn by_lack<'a>(policies: &[&'a PolicyVerdict]) -> Vec<(String, Vec<&'a str>)> {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for policy in policies {
        let lacking = policy.missing.iter().filter(|one| !one.unknown);
        // What is in brackets or behind a colon are details.
        let heads = lacking.filter_map(|one| one.what.split([':', '(']).next()).map(str::trim);
        let heads: Vec<&str> = heads.collect();
        let lack = if heads.contains(&UNFIT) {
            "is for other machines".to_owned()
        } else {
            format!("lacks {}", heads.join(" and "))
        };
        match found.iter_mut().find(|(other, _)| *other == lack) {
            Some((_, names)) => names.push(&policy.policy),
            None => found.push((lack, vec![&policy.policy])),
        }
    }
    found
}

fn headline(facts: &Facts) -> String {
    let mut parts = Vec::new();
    if let Some(maker) = &facts.maker {
        parts.push(maker.clone());
    }
    if facts.virtual_machine == Some(true) {
        parts.push("a virtual machine".to_owned());
    }
    if let Some(shape) = &facts.shape {
        parts.push(counted(shape.packages, "package"));
        parts.push(counted(shape.cores, "core"));
        parts.push(counted(shape.cpus, "CPU"));
        let ways = shape.llc_ways.map_or_else(String::new, |ways| format!(" {ways}-way"));
        let of = shape.llc_bytes.map_or_else(String::new, |b| format!(" of {}", size(b as f64)));
        parts.push(format!("{}{of}{ways}", counted(shape.llcs, "LLC")));
        parts.push(counted(shape.numa_nodes, "NUMA node"));
        if let [_, _, ..] = &shape.core_types[..] {
            let kind = |kind: &corun_live::doctor::CoreKind| {
                format!("{} on {}", kind.name, kind.cpus.in_words())
            };
            parts.extend(shape.core_types.iter().map(kind));
        }
    }
    if let Some(kernel) = &facts.kernel {
        parts.push(format!("Linux {kernel}"));
    }
    parts.push(match (facts.here, facts.user) {
        (false, _) => "a captured tree: what only a system call tells is not known".to_owned(),
        (true, Some(0)) => "as root".to_owned(),
        (true, Some(user)) => format!("as user {user}"),
        (true, None) => "as this user".to_owned(),
    });
    parts.join(", ")
}

fn state(state: State) -> &'static str {
    match state {
        State::Yes => "yes",
        State::Partly => "part",
        State::No => "no",
        State::Unknown => "?",
    }
}

/// One line of a group, wrapped under itself.
fn line(text: &mut String, left: &str, words: &str) {
    let indent = " ".repeat(WORDS);
    let first = format!("  {left}");
    let first = format!("{first:WORDS$}");
    text.push_str(&filled(words, &first, &indent));
}

fn wrapped(words: &str, first: usize, rest: usize) -> String {
    filled(words, &" ".repeat(first), &" ".repeat(rest))
}

/// Policies that differ in name alone, in the order of the first of each.
fn groups<'a>(policies: &[&'a PolicyVerdict]) -> Vec<Vec<&'a PolicyVerdict>> {
    let mut groups: Vec<Vec<&PolicyVerdict>> = Vec::new();
    for &policy in policies {
        let alike = |group: &&mut Vec<&PolicyVerdict>| {
            let other = group[0];
            (other.runs, &other.missing, &other.instead, &other.note)
                == (policy.runs, &policy.missing, &policy.instead, &policy.note)
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(policy),
            None => groups.push(vec![policy]),
        }
    }
    groups
}

fn policies(text: &mut String, group: &[&PolicyVerdict]) {
    let names: Vec<&str> = group.iter().map(|one| one.policy.as_str()).collect();
    let policy = group[0];
    let state = match policy.runs {
        Runs::Yes => "yes",
        Runs::WithProfiles => "yes, with profiles of the programs (corun profile)",
        Runs::No => "no",
        Runs::Unknown => "not known",
    };
    text.push_str(&wrapped(&format!("{}: {state}", names.join(", ")), 2, 4));
    let mut remedies: Vec<&str> = Vec::new();
    for missing in &policy.missing {
        let lacks = if missing.unknown { "not known" } else { "lacks" };
        text.push_str(&wrapped(&format!("{lacks}: {}", missing.what), 6, 8));
        let remedy = missing.remedy.as_deref().filter(|_| !missing.unknown);
        remedies.extend(remedy.filter(|one| !remedies.contains(one)));
    }
    for remedy in remedies {
        text.push_str(&wrapped(&format!("-> {remedy}"), 6, 9));
    }
    if !policy.instead.is_empty() {
        let instead = format!("-> or use {}", policy.instead.join(" or "));
        text.push_str(&wrapped(&instead, 6, 9));
    }
    if let Some(note) = &policy.note {
        text.push_str(&wrapped(&format!("note: {note}"), 6, 8));
    }
}
