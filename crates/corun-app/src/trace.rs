//! Time lines as a standard trace viewer reads them: Chrome's trace events, which Perfetto opens.
//!
//! A policy's run is a process, a program's thread a track on it. Each stretch on a CPU is a slice;
//! steps of the policy are marks on a track of their own, with the reason.

use corun_machine::Machine;
use corun_policy::Nanoseconds;
use corun_sim::{Placement, RunResult, ThreadLife};
use serde_json::{Value, json};

/// Tracks of one program: threads beyond are put on the last.
const TRACKS_A_PROGRAM: u64 = 1000;

/// The document of runs on a machine, each with the name of its policy. Times are in microseconds of
/// simulated time.
pub fn trace_document(machine: &Machine, runs: &[(&str, &RunResult)]) -> Value {
    let mut events = Vec::new();
    for (place, (policy, run)) in runs.iter().enumerate() {
        add_run(&mut events, machine, place as u64 + 1, policy, run);
    }
    json!({
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": { "machine": machine.name(), "source": "corun", "time": "simulated" },
    })
}

fn add_run(events: &mut Vec<Value>, machine: &Machine, pid: u64, policy: &str, run: &RunResult) {
    let name = |kind: &str, tid: u64, text: &str| json!({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": text}});
    events.push(name("process_name", 0, &format!("{policy} on {}", machine.name())));
    events.push(name("thread_name", 0, "policy"));
    let mut by_thread: Vec<Vec<&Placement>> = vec![Vec::new(); run.threads.len()];
    for one in &run.placements {
        if let Ok(place) = run.threads.binary_search_by_key(&one.thread, |record| record.id) {
            by_thread[place].push(one);
        }
    }
    let mut named = std::collections::BTreeSet::new();
    for (record, placements) in run.threads.iter().zip(&by_thread) {
        let tid = track(record);
        if named.insert(tid) {
            let app = &run.apps[record.app].name;
            let text = if record.index == 0 {
                app.clone()
            } else {
                format!("{app} thread {}", record.index)
            };
            events.push(name("thread_name", tid, &text));
        }
        let end = record.end.unwrap_or(Nanoseconds::from_secs_f64(run.simulated_s));
        for (place, one) in placements.iter().enumerate() {
            let to = placements.get(place + 1).map_or(end, |next| next.at);
            let cpu = &machine.cpus()[one.cpu];
            events.push(json!({
                "ph": "X",
                "name": format!("CPU {} (LLC {})", cpu.id.0, cpu.llc),
                "cat": "cpu",
                "pid": pid,
                "tid": tid,
                "ts": micros(one.at),
                "dur": micros(Nanoseconds(to.0.saturating_sub(one.at.0))),
                "args": {"program": run.apps[record.app].name, "run": record.run, "cpu": cpu.id.0, "llc": cpu.llc, "node": machine.nodes()[cpu.node].os_index},
            }));
        }
    }
    let app_of = |thread| {
        let found = run.threads.binary_search_by_key(&thread, |record| record.id);
        found.map_or(String::new(), |place| run.apps[run.threads[place].app].name.clone())
    };
    for step in &run.log {
        events.push(json!({
            "ph": "i",
            "s": "p",
            "name": step.action.in_words(&app_of),
            "cat": step.action.kind().name(),
            "pid": pid,
            "tid": 0,
            "ts": micros(step.at),
            "args": {"policy": step.policy, "reason": step.reason},
        }));
    }
}

fn track(record: &ThreadLife) -> u64 {
    let thread = u64::from(record.index).min(TRACKS_A_PROGRAM - 1);
    1 + record.app as u64 * TRACKS_A_PROGRAM + thread
}

fn micros(time: Nanoseconds) -> f64 {
    time.0 as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::atomic::AtomicBool;

    use corun_model::ModelOptions;
    use corun_profile::Mix;

    use super::*;
    use crate::{ComparisonRequest, ComparisonSetup, PolicySpec};

    fn traced() -> (RunResult, Value) {
        let asked = ComparisonRequest {
            library: None,
            machine: None,
            mix: Some((Mix::of_apps(&["sort", "xz", "numpy"]).unwrap(), None)),
            policies: Some(vec![PolicySpec::parse("dio").unwrap()]),
            seeds: Some(1),
            instructions: None,
            options: ModelOptions::default(),
        };
        let setup = ComparisonSetup::new(asked).unwrap();
        let run = setup.run(&setup.policies[0], 1, &AtomicBool::new(false)).unwrap();
        let runs = [("dio", &run), ("again", &run)];
        let document = trace_document(setup.model.machine(), &runs);
        (run, document)
    }

    /// A time of an event in ns; viewers keep whole ones.
    fn ns(event: &Value, key: &str) -> u64 {
        let us = event[key].as_f64().unwrap_or_else(|| panic!("no {key}: {event}"));
        let whole = (us * 1e3).round();
        assert!(us >= 0.0 && (us * 1e3 - whole).abs() < 1e-3, "{key}: {event}");
        whole as u64
    }

    /// The Trace Event Format's rules for what we write of it: the JSON Object Format, complete events
    /// (`X`), instant events (`i`) and metadata events (`M`).
    #[test]
    fn the_document_keeps_to_the_trace_event_format() {
        let (run, document) = traced();
        assert!(["ms", "ns"].contains(&document["displayTimeUnit"].as_str().unwrap()));
        let events = document["traceEvents"].as_array().unwrap();
        let (mut named, mut used) = (BTreeSet::new(), BTreeSet::new());
        let mut slices: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
        for event in events {
            let id = |key: &str| event[key].as_u64().unwrap_or_else(|| panic!("{key}: {event}"));
            let track = (id("pid"), id("tid"));
            assert!(event["name"].is_string() && event["args"].is_object(), "{event}");
            match event["ph"].as_str().unwrap() {
                "M" => {
                    let kind = event["name"].as_str().unwrap();
                    assert!(["process_name", "thread_name"].contains(&kind), "{event}");
                    assert!(event["args"]["name"].is_string(), "{event}");
                    assert!(event.get("ts").is_none(), "{event}");
                    assert!(named.insert((kind, track)), "named twice: {event}");
                }
                "X" => {
                    assert!(event["cat"].is_string(), "{event}");
                    let from = ns(event, "ts");
                    slices.entry(track).or_default().push((from, from + ns(event, "dur")));
                    used.insert(track);
                }
                "i" => {
                    assert!(event["cat"].is_string(), "{event}");
                    assert!(["g", "p", "t"].contains(&event["s"].as_str().unwrap()), "{event}");
                    assert!(ns(event, "ts") <= (run.simulated_s * 1e9).round() as u64);
                    used.insert(track);
                }
                other => panic!("{other}: {event}"),
            }
        }
        for track in used {
            assert!(named.contains(&("thread_name", track)), "{track:?} has no name");
            assert!(named.contains(&("process_name", (track.0, 0))), "{track:?}");
        }
        // Complete events of one track nest or follow each other; ours follow, to the nanosecond.
        assert_eq!(slices.len(), 2 * 3);
        for of_track in slices.values() {
            assert!(of_track.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{of_track:?}");
        }
    }

    #[test]
    fn every_track_s_slices_follow_one_another_to_the_end() {
        let (run, document) = traced();
        let events = document["traceEvents"].as_array().unwrap();
        let slices = |tid: u64| -> Vec<(f64, f64)> {
            let own = events
                .iter()
                .filter(|one| one["ph"] == "X" && one["pid"] == 1 && one["tid"] == tid);
            own.map(|one| (one["ts"].as_f64().unwrap(), one["dur"].as_f64().unwrap())).collect()
        };
        for app in 0..3 {
            let own = slices(1 + app * TRACKS_A_PROGRAM);
            assert!(own.len() > 2, "programs start again");
            for pair in own.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0 + 1e-3, "{pair:?}");
            }
            let (from, length) = own[own.len() - 1];
            assert!((from + length - run.simulated_s * 1e6).abs() < 1.0);
        }
        let steps = events.iter().filter(|one| one["ph"] == "i").count();
        assert_eq!(steps, 2 * run.log.len());
    }
}
