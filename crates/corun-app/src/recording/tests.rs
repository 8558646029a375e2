use std::fmt::Write as _;

use super::recorded::Look;
use super::*;
use crate::Error;

/// A recording of one thread of `work` on a CPU of xeon-x5365, and of `idle`, which sleeps: a look a second; per
/// look CPU, share of the time on it, and instructions a second (each in two cycles, a thousandth of them a miss).
fn recording(looks: &[(u32, f64, f64)]) -> LiveRecording {
    let machine = corun_machine::preset("xeon-x5365").unwrap();
    let mut text = serde_json::json!({
        "corun_live_recording": 1, "written_by": "test", "interval_s": 1.0, "profiles": false,
        "counters": ["instructions", "cycles", "llc-misses"],
        "machine": machine.spec(),
    })
    .to_string();
    let mut ns = 0;
    for (look, (cpu, share, instructions)) in looks.iter().enumerate() {
        ns += (share * 1e9) as u64;
        let mut thread = serde_json::json!({
            "tid": 7, "state": "running", "cpu": cpu, "cpu_ns": ns,
        });
        let mut line = serde_json::json!({ "at_ns": 1_000_000_000 * (look as u64 + 5) });
        if look == 0 {
            line["programs"] = serde_json::json!([{ "name": "work" }, { "name": "idle" }]);
            let facts = |one: &mut serde_json::Value, tid: u32, program: usize| {
                one["new"] =
                    serde_json::json!({ "pid": tid, "start_ticks": 1, "program": program });
                one["affinity"] = "0-7".into();
                one["nice"] = 0.into();
                one["parent"] = 1.into();
                one["name"] = "thread".into();
            };
            facts(&mut thread, 7, 0);
            let mut idle = serde_json::json!({
                "tid": 8, "state": "sleeping", "cpu": 0, "cpu_ns": 0,
            });
            facts(&mut idle, 8, 1);
            line["threads"] = serde_json::json!([thread, idle]);
        } else {
            thread["instructions_per_s"] = (*instructions).into();
            thread["cycles_per_s"] = (2.0 * instructions).into();
            thread["llc_misses"] =
                serde_json::json!({ "per_s": instructions / 1000.0, "prefetches": false });
            line["threads"] = serde_json::json!([thread]);
        }
        let _ = write!(text, "\n{line}");
    }
    text.push('\n');
    LiveRecording::read(text.as_bytes()).unwrap()
}

fn compared_work(before: &[(u32, f64, f64)], after: &[(u32, f64, f64)]) -> ComparedProgram {
    let never = AtomicBool::new(false);
    let found = compare_recordings(recording(before), recording(after), &never).unwrap();
    let names: Vec<&str> = found.programs.iter().map(|one| one.program.as_str()).collect();
    assert_eq!(names, ["work", "idle"]);
    assert_eq!(found.before.looks, before.len());
    assert_eq!(found.after.seconds, after.len() as f64 - 1.0);
    found.programs.into_iter().next().unwrap()
}

#[test]
fn figures_are_ratios_of_sums_over_the_recording() {
    // CPUs 0 and 1 of the preset are under one LLC, CPU 4 is under another.
    let machine = corun_machine::preset("xeon-x5365").unwrap();
    let llc = |cpu: usize| machine.cpus()[cpu].llc;
    assert_ne!(llc(0), llc(4));
    let before = [(0, 0.0, 0.0), (0, 0.5, 1e9), (0, 1.0, 3e9)];
    let after = [(4, 0.0, 0.0), (4, 1.0, 3e9), (0, 1.0, 3e9), (0, 1.0, 3e9), (4, 1.0, 3e9)];
    let work = compared_work(&before, &after);
    let figure = |place: usize| &work.figures[place];
    // CPUs busy: 0.75 and 1.
    assert_eq!((figure(0).before, figure(0).after), (Some(0.75), Some(1.0)));
    assert_eq!(figure(0).before_parts, [Some(0.5), Some(1.0)]);
    // Instructions a second: 2e9 and 3e9, a half more.
    assert_eq!((figure(1).before, figure(1).after), (Some(2e9), Some(3e9)));
    assert_eq!(figure(1).change_percent, Some(50.0));
    // IPC and misses per 1000 instructions do not depend on the speed.
    assert_eq!((figure(2).before, figure(2).change_percent), (Some(0.5), Some(0.0)));
    assert_eq!((figure(3).before, figure(3).after), (Some(1.0), Some(1.0)));
    // What is not counted is unknown, not zero.
    assert_eq!((figure(4).before, figure(4).change_percent), (None, None));
    // Too short for an interval.
    assert_eq!(figure(1).low_percent, None);
    let shares = |one: &Option<ProgramPresence>| one.clone().unwrap().llc_shares;
    assert_eq!(shares(&work.before)[llc(0)], 1.0);
    assert_eq!((shares(&work.after)[llc(0)], shares(&work.after)[llc(4)]), (0.5, 0.5));
    assert_eq!(work.after.unwrap().seconds, 4.0);
}

#[test]
fn the_interval_of_a_change_is_as_wide_as_the_recordings_are_unsteady() {
    // Twenty intervals: ten batches of two. The rates of a batch are 1 or 3 by turns, and 4 always.
    let unsteady = |look: u32| (0, 1.0, if look.div_ceil(2).is_multiple_of(2) { 3e9 } else { 1e9 });
    let before: Vec<_> = (0..=20).map(unsteady).collect();
    let after = vec![(0, 1.0, 4e9); 21];
    let work = compared_work(&before, &after);
    let speed = &work.figures[1];
    assert_eq!(
        (speed.before, speed.after, speed.change_percent),
        (Some(2e9), Some(4e9), Some(100.0))
    );
    // Ten batches, five of 1 and five of 3: deviation sqrt(10 / 9), standard error sqrt(1 / 9), over the mean 2:
    // 1 / 6.
    let wide = (2.262_f64 / 6.0).exp();
    assert!((speed.low_percent.unwrap() - 100.0 * (2.0 / wide - 1.0)).abs() < 1e-3, "{speed:?}");
    assert!((speed.high_percent.unwrap() - 100.0 * (2.0 * wide - 1.0)).abs() < 1e-3, "{speed:?}");
    // Steady figures have an interval of no width.
    let ipc = &work.figures[2];
    assert_eq!((ipc.low_percent, ipc.high_percent), (Some(0.0), Some(0.0)));
}

#[test]
fn the_time_before_a_look_is_shared_among_the_parts_in_which_it_is() {
    let shares = |from_s, to_s| -> Vec<(usize, f64)> {
        Look { from_s, to_s, all_s: 8.0 }.shares(4).collect()
    };
    assert_eq!(shares(0.0, 2.0), [(0, 1.0)]);
    assert_eq!(shares(1.0, 5.0), [(0, 0.25), (1, 0.5), (2, 0.25)]);
    assert_eq!(shares(7.0, 8.0), [(3, 1.0)]);
    // Parts whose ends are no round numbers.
    let all: f64 =
        Look { from_s: 0.1, to_s: 7.9, all_s: 8.0 }.shares(7).map(|(_, share)| share).sum();
    assert!((all - 1.0).abs() < 1e-12, "{all}");
}

#[test]
fn a_program_of_one_recording_alone_has_no_change() {
    let own = recording(&[(0, 0.0, 0.0), (0, 1.0, 1e9)]);
    let empty = recording(&[]);
    let never = AtomicBool::new(false);
    let found = compare_recordings(own, empty, &never).unwrap();
    let work = &found.programs[0];
    assert!(work.after.is_none() && work.before.is_some());
    assert_eq!((work.figures[1].before, work.figures[1].after), (Some(1e9), None));
    assert_eq!((work.figures[1].change_percent, found.after.looks), (None, 0));
}

#[test]
fn nothing_is_compared_for_whom_nobody_waits() {
    let own = || recording(&[(0, 0.0, 0.0), (0, 1.0, 1e9)]);
    let stopped = compare_recordings(own(), own(), &AtomicBool::new(true));
    assert!(matches!(stopped, Err(Error::Interrupted)));
}

/// Two looks at a thread each of so many programs.
fn crowd(programs: usize) -> LiveRecording {
    let machine = corun_machine::preset("xeon-x5365").unwrap();
    let header = serde_json::json!({
        "corun_live_recording": 1, "written_by": "test", "interval_s": 1.0, "profiles": false,
        "counters": [], "machine": machine.spec(),
    });
    let names: Vec<_> =
        (0..programs).map(|one| serde_json::json!({ "name": format!("p{one}") })).collect();
    let thread = |one: usize| {
        serde_json::json!({
            "tid": one + 1, "state": "sleeping", "cpu": 0, "cpu_ns": 0, "affinity": "0-7", "nice": 0,
            "parent": 1, "name": "t", "new": { "pid": one + 1, "start_ticks": 1, "program": one },
        })
    };
    let threads: Vec<_> = (0..programs).map(thread).collect();
    let first = serde_json::json!({ "at_ns": 1, "programs": names, "threads": threads });
    let second = serde_json::json!({ "at_ns": 1_000_000_001_u64, "threads": [] });
    LiveRecording::read(format!("{header}\n{first}\n{second}\n").as_bytes()).unwrap()
}

/// A file from elsewhere takes no more memory than so many programs do.
#[test]
fn so_many_programs_are_compared_and_no_more() {
    let never = AtomicBool::new(false);
    let found = compare_recordings(crowd(300), crowd(0), &never).unwrap();
    assert_eq!((found.programs.len(), found.programs_left_out), (MOST_PROGRAMS, 44));
    let refused = compare_recordings(crowd(0), crowd(20_001), &never).unwrap_err();
    assert!(refused.to_string().contains("more than 20000 programs"), "{refused}");
}
