//! Profiles that nodes learned, as the extender goes by them.

use corun_fleet::Extender;
use serde_json::{Value, json};

use crate::extender::{NOW, extender, node, pod, request, scores};

/// A program that was learned, `age_s` seconds ago: so many misses at any size, so sure.
fn entry(profile: &str, mpki: f64, confidence: f64, age_s: u64) -> Value {
    json!({
        "profile": profile, "at": NOW - age_s, "confidence": confidence, "llc_apki": 1.2 * mpki, "core_cpi": 0.6,
        "stall_cycles_per_miss": 100.0, "bytes_per_miss": 64.0, "llc_mpki": vec![mpki; 16],
    })
}

fn told(mut node: Value, entries: &[Value]) -> Value {
    let report = json!({"version": 1, "machine": "i7-2600", "programs": entries});
    node["metadata"]["annotations"]["corun.dev/learned"] = report.to_string().into();
    node
}

fn asking(profile: &str) -> Value {
    pod(json!({"corun.dev/profile": profile}), json!("1"))
}

fn scored(extender: &Extender, profile: &str, nodes: &[Value]) -> (Vec<i64>, Vec<String>) {
    let answer = extender.prioritize(&request(asking(profile), nodes.to_vec()), NOW).unwrap();
    (scores(&answer.body).into_iter().map(|one| one.1).collect(), answer.assumed)
}

/// A stream that was learned runs on one of two nodes: a needy pod avoids it, the more the surer it is. An older or less sure
/// entry of another node changes nothing, and what nobody believes any more is quiet.
#[test]
fn the_surest_entry_counts_as_far_as_it_is_sure() {
    let with = |entries: &[Value], others: &[Value]| {
        let nodes = [
            told(node("feeds", 0, &[("feed", 3, None)]), entries),
            told(node("calm", 0, &[]), others),
            node("stream", 0, &[("stream", 3, None)]),
        ];
        scored(&extender(), "needy", &nodes)
    };
    let sure = with(&[entry("feed", 8.0, 1.0, 0)], &[]);
    let half = with(&[entry("feed", 8.0, 0.5, 0)], &[]);
    let nobody = with(&[], &[]);
    assert_eq!((sure.0[1], nobody.0[0], nobody.0[2]), (10, 10, 0), "{sure:?} {nobody:?}");
    assert!(sure.0[0] < half.0[0] && half.0[0] < 10, "{sure:?} {half:?}");
    assert!(sure.1.iter().any(|one| one.contains("100 % sure")), "{:?}", sure.1);
    assert!(half.1.iter().any(|one| one.contains("50 % sure")), "{:?}", half.1);
    for other in [entry("feed", 1.0, 0.9, 0), entry("feed", 1.0, 1.0, 86_400)] {
        assert_eq!(with(&[entry("feed", 8.0, 1.0, 0)], &[other]).0, sure.0);
    }
    // A day and a half ago, ten days ago; and by a clock that is an hour ahead.
    assert_eq!(with(&[entry("feed", 8.0, 1.0, 86_400)], &[]).0, half.0);
    assert_eq!(with(&[entry("feed", 8.0, 1.0, 864_000)], &[]).0, nobody.0);
    let mut ahead = entry("feed", 8.0, 1.0, 0);
    ahead["at"] = (NOW + 3600).into();
    assert_eq!(with(&[ahead], &[]).0, nobody.0);
    // What was recorded is what it was, whatever a node has learned.
    let recorded = with(&[entry("stream", 0.1, 1.0, 0), entry("needy", 0.1, 1.0, 0)], &[]);
    assert_eq!(recorded, nobody);
}

#[test]
fn what_was_learned_keeps_no_pod_from_a_node() {
    let extender = extender();
    let stream = [entry("feed", 60.0, 1.0, 0)];
    let kept = |profile: &str, there: &str| {
        let notes = json!({"corun.dev/profile": profile, "corun.dev/slowdown-bound": "1.05"});
        let nodes = vec![told(node("n", 0, &[(there, 3, Some(1.05))]), &stream)];
        let answer = extender.filter(&request(pod(notes, json!("1")), nodes), NOW).unwrap();
        let answer: Value = serde_json::from_str(&answer.body).unwrap();
        !answer["Nodes"]["items"].as_array().unwrap().is_empty()
    };
    // By recorded profiles the bounds are broken, by what was learned alone they are not.
    assert!(!kept("needy", "stream"));
    assert!(kept("needy", "feed") && kept("feed", "stream") && kept("feed", "feed"));
}

#[test]
fn what_cannot_be_read_changes_nothing_and_is_said() {
    let nodes = |text: &str| {
        let mut busy = node("busy", 0, &[("stream", 2, None)]);
        busy["metadata"]["annotations"]["corun.dev/learned"] = text.into();
        [busy, node("calm", 0, &[])]
    };
    let plain =
        scored(&extender(), "needy", &nodes(r#"{"version":1,"machine":"x","programs":[]}"#));
    assert_eq!(plain.1, [] as [&str; 0]);
    let extender = extender();
    for text in ["", "{", "[]", r#"{"version":2}"#, r#"{"version":1,"programs":7}"#] {
        let found = scored(&extender, "needy", &nodes(text));
        assert_eq!(found.0, plain.0);
        let [said] = &found.1[..] else { panic!("{found:?}") };
        assert!(said.starts_with("node busy: corun.dev/learned: ") && said.ends_with("left out"));
    }
    let version = scored(&extender, "needy", &nodes(r#"{"version":2}"#));
    assert!(version.1[0].contains("version is 2"), "{version:?}");
}

/// Eight programs change again and again, more often than are kept: an extender that answered before says what one says that
/// begins.
#[test]
fn programs_that_change_for_ever_change_no_answer() {
    let remembers = extender();
    for round in 0..70u32 {
        let of = |at: u32| {
            let mpki = f64::from(1 + (7 * round + 13 * at) % 50);
            entry(&format!("p{at}"), mpki, 0.9, 0)
        };
        let entries: Vec<Value> = (0..8).map(of).collect();
        let (mine, theirs) = (format!("p{}", round % 8), format!("p{}", round / 3 % 8));
        let nodes = [
            told(node("a", 0, &[(&theirs, 2, None)]), &entries),
            node("b", 0, &[("stream", 1, None)]),
        ];
        let found = scored(&remembers, &mine, &nodes);
        if round % 5 == 0 || round > 60 {
            assert_eq!(found, scored(&extender(), &mine, &nodes), "{round}");
        }
    }
}
