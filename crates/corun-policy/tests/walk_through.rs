//! The example of ARCHITECTURE.md, compiled and run.

// Begin of the example.
use corun_machine::{CpuId, CpuSet};
use corun_policy::{Action, ActionKind, Event, Interval, Needs, Plan, Policy, View};

/// Fills one LLC after the other.
struct Pack;

impl Policy for Pack {
    fn name(&self) -> &str {
        "pack"
    }

    fn needs(&self) -> Needs {
        Needs { interval: Interval::Never, controls: vec![ActionKind::Place], ..Needs::default() }
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        matches!(event, Event::Arrived(_) | Event::Exited(_)).then(|| self.decide(view))
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        let mut plan = Plan::none();
        let llcs = view.machine.llcs();
        let cpus: Vec<CpuId> = llcs.iter().flat_map(|llc| llc.cpus.iter()).collect();
        for (thread, &cpu) in view.threads.iter().zip(cpus.iter().cycle()) {
            let place = CpuSet::from_iter([cpu]);
            if thread.allowed != place && thread.may_run_on.contains(cpu) {
                let reason = format!("{}: packed on CPU {cpu}", thread.program);
                plan.push(Action::Allow { thread: thread.id, cpus: place }, reason);
            }
        }
        plan
    }
}
// End of the example.

use corun_machine::{Machine, MachineSpec};
use corun_policy::{Nanoseconds, ProcessId, ThreadId, ThreadView};

const MACHINE: &str = "
version = 1
name = 'two-llcs'
[[core_type]]
name = 'core'
clock_mhz = 3000
[[object]]
kind = 'cache'
level = 2
size_kib = 4096
count = 2
[[object.object]]
kind = 'core'
count = 2
";

fn thread(id: u64, machine: &Machine) -> ThreadView {
    ThreadView::new(ThreadId(id), ProcessId(id), format!("program{id}"), &machine.cpu_set())
}

#[test]
fn the_example_packs_two_threads_on_the_first_llc() {
    let spec: MachineSpec = toml::from_str(MACHINE).unwrap();
    let machine = Machine::from_spec(spec).unwrap();
    let mut threads = vec![thread(0, &machine), thread(1, &machine)];
    let view = View { machine: &machine, threads: &threads, now: Nanoseconds(0) };
    let mut policy = Pack;
    assert_eq!((policy.name(), policy.needs().interval), ("pack", Interval::Never));
    let plan = policy.on_event(&Event::Arrived(ThreadId(1)), &view).unwrap();
    let reasons: Vec<&str> = plan.steps.iter().map(|step| step.reason.as_str()).collect();
    assert_eq!(reasons, ["program0: packed on CPU 0", "program1: packed on CPU 1"]);
    for (thread, cpu) in threads.iter_mut().zip([0, 1]) {
        thread.allowed = CpuSet::from_iter([CpuId(cpu)]);
    }
    let view = View { machine: &machine, threads: &threads, now: Nanoseconds(0) };
    assert_eq!(policy.decide(&view), Plan::none());
}

#[test]
fn the_page_holds_this_very_example() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ARCHITECTURE.md");
    let page = std::fs::read_to_string(path).unwrap();
    let source = include_str!("walk_through.rs");
    let (_, rest) = source.split_once("// Begin of the example.\n").unwrap();
    let (example, _) = rest.split_once("// End of the example.\n").unwrap();
    assert!(page.contains(&format!("```rust\n{example}```\n")));
}

/// The trait without its documentation, as the page shows it.
fn signatures() -> String {
    let source = include_str!("../src/api/policy.rs");
    let (_, rest) = source.split_once("pub trait Policy").unwrap();
    let (body, _) = rest.split_once("\n}\n").unwrap();
    let methods = body.lines().filter(|line| line.starts_with("    fn "));
    methods
        .map(|line| format!("{}\n", line.trim().trim_end_matches([';', '{', '}', ' '])))
        .collect()
}

#[test]
fn the_page_holds_every_method_of_the_trait() {
    let page = include_str!("../../../ARCHITECTURE.md");
    let signatures = signatures();
    assert!(signatures.lines().count() >= 3);
    assert!(page.contains(&format!("```text\n{signatures}```\n")), "{signatures}");
}
