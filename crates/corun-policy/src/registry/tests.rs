//! What holds for every policy of the registry.

use std::collections::BTreeMap;

use corun_machine::Machine;

use crate::{
    BuildError, BuildOptions, Event, Plan, Policy, PolicyKind, Scope, ScopedRate, ThreadId,
    ThreadView, build, fixture, registry,
};

fn policies() -> impl Iterator<Item = Box<dyn Policy>> {
    registry().iter().map(|entry| build(entry.name, &BuildOptions::default()).unwrap())
}

fn counted(machine: &Machine, count: usize) -> Vec<ThreadView> {
    let solo: Vec<Option<f64>> = (0..count).map(|i| Some((i * 7 % 13) as f64)).collect();
    let mut threads = fixture::threads(machine, &solo);
    for thread in &mut threads {
        let per_s = 1e6 * (thread.id.0 * 5 % 11) as f64;
        thread.rates.instructions_per_s = Some(1e9);
        thread.rates.llc_misses = Some(ScopedRate { per_s, scope: Scope::Demand });
    }
    threads
}

/// Arrivals, two intervals, an exit, an interval.
fn plans(policy: &mut dyn Policy, machine: &Machine, threads: &[ThreadView]) -> Vec<Plan> {
    let view = fixture::view(machine, threads);
    let arrived = |thread: &ThreadView| Event::Arrived(thread.id);
    let mut plans: Vec<Plan> =
        threads.iter().filter_map(|one| policy.on_event(&arrived(one), &view)).collect();
    plans.push(policy.decide(&view));
    plans.push(policy.decide(&view));
    if let Some((last, rest)) = threads.split_last() {
        let view = fixture::view(machine, rest);
        plans.extend(policy.on_event(&Event::Exited(last.id), &view));
        plans.push(policy.decide(&view));
    }
    plans
}

#[test]
fn names_are_unique_and_in_kebab_case() {
    let mut names: Vec<&str> = registry().iter().map(|entry| entry.name).collect();
    for name in &names {
        let kebab = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        assert!(name.split('-').all(kebab), "{name}");
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), registry().len());
}

#[test]
fn entries_and_policies_agree() {
    for (entry, policy) in registry().iter().zip(policies()) {
        assert_eq!(policy.name(), entry.name);
        assert!(!entry.summary.is_empty() && !entry.source.is_empty(), "{}", entry.name);
        for parameter in entry.parameters {
            assert!(parameter.takes(parameter.default), "{}", parameter.name);
        }
    }
}

#[test]
fn the_documentation_names_each_policy_and_parameter() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/");
    let read = |name: &str| std::fs::read_to_string(format!("{docs}{name}")).unwrap();
    let (placement, partitioning) = (read("policies.md"), read("partitioning.md"));
    for entry in registry() {
        let text = match entry.kind() {
            PolicyKind::Placement => &placement,
            PolicyKind::Partitioning => &partitioning,
        };
        assert!(text.contains(&format!("\n### `{}`\n", entry.name)), "{}", entry.name);
        for parameter in entry.parameters {
            assert!(text.contains(&format!("`{}`", parameter.name)), "{}", parameter.name);
        }
    }
}

#[test]
fn every_policy_takes_an_empty_view_and_one_without_figures() {
    let machine = fixture::x5365();
    for mut policy in policies() {
        for count in [0, 3, 8, 20] {
            let threads = fixture::threads(&machine, &vec![None; count]);
            plans(policy.as_mut(), &machine, &threads);
        }
    }
}

#[test]
fn every_policy_leaves_a_thread_alone_that_may_run_nowhere() {
    let machine = fixture::x5365();
    let mut threads = counted(&machine, 4);
    threads[1].may_run_on = "99".parse().unwrap();
    for mut policy in policies() {
        for plan in plans(policy.as_mut(), &machine, &threads) {
            let touches = |text: String| text.contains("ThreadId(1)");
            let step = plan.steps.iter().find(|step| touches(format!("{:?}", step.action)));
            assert_eq!(step, None, "{}", policy.name());
        }
    }
}

#[test]
fn every_step_is_of_a_kind_that_the_policy_said_it_needs_and_has_a_reason() {
    let machine = fixture::x5365();
    let threads = counted(&machine, 12);
    for mut policy in policies() {
        let controls = policy.needs().controls;
        for step in plans(policy.as_mut(), &machine, &threads).iter().flat_map(|plan| &plan.steps) {
            assert!(controls.contains(&step.action.kind()), "{}", policy.name());
            assert!(step.reason.contains("program"), "{}: {}", policy.name(), step.reason);
        }
    }
}

#[test]
fn same_views_same_plans() {
    let machine = fixture::x5365();
    let threads = counted(&machine, 12);
    for (mut one, mut other) in policies().zip(policies()) {
        let first = plans(one.as_mut(), &machine, &threads);
        assert_eq!(first, plans(other.as_mut(), &machine, &threads), "{}", one.name());
    }
}

#[test]
fn unknown_policies_and_parameters_are_refused_with_what_there_is() {
    let none = BuildOptions::default();
    let error = build("linux-defualt", &none).err().unwrap();
    let BuildError::UnknownPolicy { nearest, known, .. } = &error else { panic!("{error}") };
    assert_eq!(*nearest, Some("linux-default"));
    assert!(known.starts_with("linux-default, random"));
    assert!(error.to_string().contains("(did you mean `linux-default`?)"), "{error}");
    let far = build("xyzzy", &none).err().unwrap();
    assert!(!far.to_string().contains("did you mean"), "{far}");
    let parameters = BTreeMap::from([("speed".to_owned(), 1.0)]);
    let error = build("random", &BuildOptions { seed: 0, parameters }).err().unwrap();
    assert_eq!(error.to_string(), "policy `random` has no parameter `speed`: expected none");
}

#[test]
fn threads_are_found_by_id() {
    let machine = fixture::x5365();
    let threads = counted(&machine, 3);
    let view = fixture::view(&machine, &threads);
    assert_eq!(view.thread(ThreadId(2)).map(|thread| thread.id), Some(ThreadId(2)));
    assert_eq!(view.thread(ThreadId(3)), None);
}
