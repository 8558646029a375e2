//! `corun policies`.

use corun_policy::{PolicyKind, registry};

use crate::fixture::Fixture;

#[test]
fn all_policies_are_listed_by_what_they_decide() {
    let text = Fixture::new().run(&["policies"]).done();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let (placing, dividing) = text.split_once("Policies that divide caches").unwrap();
    for entry in registry() {
        let listed = if entry.kind() == PolicyKind::Placement { placing } else { dividing };
        assert!(listed.contains(&format!("\n  {} ", entry.name)), "{} in {text}", entry.name);
    }
}

#[test]
fn a_named_policy_is_described_with_what_can_be_set() {
    let fixture = Fixture::new();
    let text = fixture.run(&["policies", "ucp", "linux-default"]).done();
    insta::assert_snapshot!("policies", text);
    let text = fixture.run(&["policies", "corun"]).done();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    fixture.run(&["policies", "ucpp"]).refused(&["unknown policy `ucpp`", "try: ucp"]);
}

#[test]
fn the_document_has_what_each_policy_takes() {
    let fixture = Fixture::new();
    let all = fixture.run(&["policies", "--format", "json"]).json();
    assert_eq!(all["policies"].as_array().unwrap().len(), registry().len());
    let one = fixture.run(&["policies", "corun", "--format", "json"]).json();
    let parameters = one["policies"][0]["parameters"].as_array().unwrap();
    let named = |name: &str| parameters.iter().find(|one| one["name"] == name).unwrap();
    assert_eq!(named("objective")["kind"], "choice");
    assert_eq!(named("objective")["names"][3], "energy");
    assert_eq!(named("target-slowdown")["kind"], "zero-or-number");
    assert_eq!(named("target-slowdown")["min"], 1.0);
}
