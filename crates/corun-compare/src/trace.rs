//! Time lines as a standard trace viewer reads them: Chrome's trace events, which Perfetto opens.
//!
//! A policy's run is a process, a program's thread a track on it. Each stretch on a CPU is a slice;
//! steps of the policy are marks on a track of their own, with the reason.

use corun_machine::Machine;
use corun_sim::{Placement, RunResult, ThreadRecord};
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
        let end = record.end.map_or(run.simulated_s, |end| end.as_secs_f64());
        for (place, one) in placements.iter().enumerate() {
            let from = one.at.as_secs_f64();
            let to = placements.get(place + 1).map_or(end, |next| next.at.as_secs_f64());
            let cpu = &machine.cpus()[one.cpu];
            events.push(json!({
                "ph": "X",
                "name": format!("CPU {} (LLC {})", cpu.id.0, cpu.llc),
                "cat": "cpu",
                "pid": pid,
                "tid": tid,
                "ts": micros(from),
                "dur": micros(to - from),
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
            "ts": micros(step.at.as_secs_f64()),
            "args": {"policy": step.policy, "reason": step.reason},
        }));
    }
}

fn track(record: &ThreadRecord) -> u64 {
    let thread = u64::from(record.index).min(TRACKS_A_PROGRAM - 1);
    1 + record.app as u64 * TRACKS_A_PROGRAM + thread
}

fn micros(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e3
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use corun_model::ModelOptions;
    use corun_profile::Mix;

    use super::*;
    use crate::{Asked, Chosen, Setup};

    #[test]
    fn every_track_s_slices_follow_one_another_to_the_end() {
        let asked = Asked {
            library: None,
            machine: None,
            mix: Some((Mix::of_apps(&["sort", "xz", "numpy"]).unwrap(), None)),
            policies: Some(vec![Chosen::named("dio").unwrap()]),
            seeds: Some(1),
            instructions: None,
            options: ModelOptions::default(),
        };
        let setup = Setup::new(asked).unwrap();
        let run = setup.run(&setup.policies[0], 1, &AtomicBool::new(false)).unwrap();
        let document = trace_document(setup.model.machine(), &[("dio", &run)]);
        let events = document["traceEvents"].as_array().unwrap();
        let slices = |tid: u64| -> Vec<(f64, f64)> {
            let own = events.iter().filter(|one| one["ph"] == "X" && one["tid"] == tid);
            own.map(|one| (one["ts"].as_f64().unwrap(), one["dur"].as_f64().unwrap())).collect()
        };
        for app in 0..3 {
            let own = slices(1 + app * TRACKS_A_PROGRAM);
            assert!(own.len() > 2, "programs start again");
            for pair in own.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0 + 1e-2, "{pair:?}");
            }
            let (from, length) = own[own.len() - 1];
            assert!((from + length - run.simulated_s * 1e6).abs() < 1.0);
        }
        let steps = events.iter().filter(|one| one["ph"] == "i").count();
        assert_eq!(steps, run.log.len());
    }
}
