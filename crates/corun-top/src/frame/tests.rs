use super::*;
use crate::sample::{frame, frame_by, threads};

fn near(found: Option<f64>, expected: f64) -> bool {
    found.is_some_and(|found| (found - expected).abs() < 1e-9 * expected.abs().max(1.0))
}

#[test]
fn a_programs_figures_are_those_of_its_threads_together() {
    let frame = frame(None, &threads(), 2);
    let names: Vec<&str> = frame.programs.iter().map(|line| line.program.as_str()).collect();
    assert_eq!(names, ["\\u001b[2Jodd", "solver", "stream"]);
    let [odd, solver, stream] = &frame.programs[..] else { panic!("{frame:?}") };
    assert_eq!(solver.of, Of::Program { processes: 1, threads: 2 });
    assert_eq!(stream.of, Of::Program { processes: 2, threads: 2 });
    assert!(near(solver.figures.cpus_busy, 1.5));
    assert!(near(solver.figures.instructions_per_s, 3e9));
    assert!(near(solver.figures.ipc, 0.8));
    // 1e6 misses of 2e9 instructions and 1.5e6 of 1e9.
    assert!(near(solver.figures.llc_mpki, 2.5 / 3.0));
    assert!(near(solver.figures.llc_occupancy_bytes, 201.0 * 8192.0));
    assert_eq!((stream.class, stream.solo_mpki), (Some("streaming"), Some(27.5)));
    // Nobody counted it: unknown, but for what the kernel says.
    let known = Figures { cpus_busy: Some(0.0), ..Figures::default() };
    assert_eq!((odd.figures, odd.class), (known, None));
    assert_eq!(frame.not_measured, ["memory traffic", "waiting for a CPU"]);
}

#[test]
fn at_the_first_look_no_cpu_time_is_known() {
    let frame = frame(None, &threads(), 1);
    assert!(frame.threads.iter().all(|line| line.figures.cpus_busy.is_none()));
}

#[test]
fn a_policys_plan_is_shown_and_not_done() {
    let frame = frame(Some("dio"), &threads(), 3);
    assert_eq!(frame.policy.as_deref(), Some("dio"));
    assert!(frame.decisions.iter().all(|one| one.verdict == "proposed"), "{:?}", frame.decisions);
    assert!(frame.decisions.is_sorted_by(|one, other| one.at_s >= other.at_s));
    let solver = frame.decisions.iter().find(|one| one.action == "solver on CPU 2").unwrap();
    assert_eq!(
        solver.reason,
        "solver: 0.5 MPKI, from LLC 0 (with stream, solver) to LLC 1 (with odd)"
    );
    let would: Vec<&CpuSet> = frame.threads.iter().filter_map(|line| line.would.as_ref()).collect();
    assert_eq!(would.len(), 5, "{:?}", frame.threads);
}

#[test]
fn the_tree_names_who_is_on_each_cpu() {
    let frame = frame(None, &threads(), 2);
    let cpu = |number| frame.tree.iter().find(|line| line.cpu == Some(CpuId(number))).unwrap();
    let who: Vec<(&str, u32)> =
        cpu(0).who.iter().map(|who| (who.program.as_str(), who.tid)).collect();
    assert_eq!(who, [("solver", 100), ("stream", 200)]);
    assert!(cpu(7).who.is_empty());
    let llcs: Vec<&TreeLine> = frame.tree.iter().filter(|line| line.llc.is_some()).collect();
    assert_eq!(llcs.len(), 4);
    let threads: usize = llcs.iter().map(|line| line.threads).sum();
    assert_eq!(threads, 5);
    let cpus: usize = frame.tree.iter().filter(|line| line.cpu.is_some()).count();
    assert_eq!(cpus, 8);
}

#[test]
fn processes_are_put_together_by_their_cgroups() {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots::below(folder.path());
    for (pid, group) in
        [(100, "/system.slice/a.service"), (200, "/batch"), (201, "/system.slice/a.service")]
    {
        let own = roots.proc.join(pid.to_string());
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("cgroup"), format!("0::{group}\n")).unwrap();
    }
    let mut collector = Collector::new(false).with_roots(roots);
    let frame = frame_by(&mut collector, None, &threads(), 2);
    let shown: Vec<(&str, &Of)> =
        frame.groups.iter().map(|line| (line.program.as_str(), &line.of)).collect();
    let of = |processes, threads| Of::Program { processes, threads };
    assert_eq!(shown, [("/batch", &of(1, 1)), ("a.service", &of(2, 3))]);
    assert!(near(frame.groups[1].figures.cpus_busy, 1.0 + 0.5 + 0.875));
    // A program in two groups is in none; of a process without a file nothing is known.
    let groups: Vec<Option<&str>> =
        frame.programs.iter().map(|line| line.group.as_deref()).collect();
    assert_eq!(groups, [None, Some("a.service"), None]);
    assert_eq!(frame.threads[2].group.as_deref(), Some("/batch"));
}

#[test]
fn who_is_not_looked_at_and_takes_cpus_is_told() {
    let others = |cpus_busy, cpus_stolen| Others { cpus_busy, cpus_stolen, cpus: 4 }.text();
    assert_eq!(others(0.04, 0.04), None);
    assert_eq!(others(1.5, 0.0).unwrap(), "others keep 1.50 of 4 CPUs busy");
    assert_eq!(others(1.5, 0.25).unwrap(), "others keep 1.50 of 4 CPUs busy, the host takes 0.25");
    assert_eq!(others(0.0, 0.25).unwrap(), "the host takes 0.25 of 4 CPUs");
}

/// Of two CPUs others than corun were busy for as long as a look was apart from the next: what is looked at is
/// taken off, and where the kernel tells nothing, nothing is known.
#[test]
fn the_others_are_what_is_busy_and_not_looked_at() {
    let proc = tempfile::tempdir().unwrap();
    let roots = Roots { proc: proc.path().to_owned(), ..Roots::default() };
    let machine = corun_machine::preset("i7-2600").unwrap();
    let mut meter = OthersMeter { roots, meter: None };
    assert_eq!(meter.others(&machine, 0.0), None);
    assert_eq!(meter.others(&machine, 0.0), None);
    let stat = |ticks: u64| {
        std::fs::write(proc.path().join("stat"), format!("cpu0 {ticks} 0 0 0 0 0 0 0 0 0\n"))
            .unwrap();
    };
    stat(0);
    assert_eq!(meter.others(&machine, 0.0), None);
    // Far more than there was: all CPUs, of which half a one is looked at.
    stat(1_000_000_000);
    let all = machine.cpus().len() as f64;
    assert_eq!(meter.others(&machine, 0.5).unwrap().cpus_busy, all - 0.5);
}
