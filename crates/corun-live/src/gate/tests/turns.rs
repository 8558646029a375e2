//! Threads that change places with threads on cores of another type.

use super::*;

/// What becomes of a plan on two big cores (CPUs 0 and 1) and four little ones, in a dry run.
fn asked_on_juno(
    programs: &[(&str, u32)],
    from: &[&'static str],
    to: &[&'static str],
) -> Vec<String> {
    let policy = Holds::default();
    let machine = Arc::new(preset("juno-2b4s").unwrap());
    let (_folder, mut host) =
        dry_host_on(machine.clone(), programs, Box::new(policy.clone()), Vec::new());
    policy.tell(from);
    host.tick_at(at(1)).unwrap();
    host.gate_by(gate(&machine, GateOptions::default()));
    policy.tell(to);
    verdicts(&host.tick_at(at(2)).unwrap())
}

/// perl takes more than twice as long on a little core, and lua as much less on a big one: neither is the gate's to weigh.
#[test]
fn threads_may_change_places_with_those_on_another_type_of_core() {
    let programs = [("perl", 0), ("lua", 2), ("openssl", 1)];
    assert_eq!(asked_on_juno(&programs, &["0", "2", "1"], &["2", "0", "1"]), ["made"; 2]);
    let sides = [("perl", 0), ("lua", 2)];
    assert_eq!(asked_on_juno(&sides, &["0-1", "2-5"], &["2-5", "0-1"]), ["made"; 2]);
}

/// A big core that stays empty is no turn of anybody.
#[test]
fn a_plan_that_leaves_a_big_core_is_a_loss() {
    let refused = asked_on_juno(&[("perl", 0), ("lua", 2)], &["0", "2"], &["3", "2"]);
    assert!(refused[0].ends_with(" in all, which is a loss"), "{refused:?}");
}

/// Two that need much memory come under one cache by their turns, where each had one that needs little beside it.
#[test]
fn turns_that_bring_programs_in_each_others_way_are_a_loss() {
    let programs = [("kernel-triad", 0), ("openssl", 1), ("kernel-chase", 2), ("flac", 3)];
    let (from, to) = (["0", "1", "2", "3"], ["0", "2", "1", "3"]);
    let refused = asked_on_juno(&programs, &from, &to);
    assert!(refused[0].contains("in all, besides turns"), "{refused:?}");
    assert_eq!(asked_on_juno(&programs, &to, &from), ["made"; 2]);
}

const BIG_AND_LITTLE: &str = "
version = 1
name = 'big-and-little'
memory_latency_ns = [[90.0]]
[[core_type]]
name = 'big'
clock_mhz = 2000.0
[[core_type]]
name = 'little'
capacity = 0.4
clock_mhz = 1000.0
[[bandwidth]]
name = 'imc'
kind = 'memory-controller'
stage = 0
peak_mb_per_s = 20000.0
[[object]]
kind = 'package'
  [[object.object]]
  kind = 'cache'
  level = 2
  size_kib = 1024
  ways = 16
    [[object.object.object]]
    kind = 'core'
    core_type = 'big'
  [[object.object]]
  kind = 'cache'
  level = 2
  size_kib = 512
  ways = 16
    [[object.object.object]]
    kind = 'core'
    core_type = 'little'
";

/// Instructions a second of a thread that is held on CPU 0, on CPU 1, and of one that is not held.
#[derive(Clone)]
struct ByCore(Arc<Mutex<[f64; 3]>>);

impl Source for ByCore {
    fn name(&self) -> &'static str {
        "told"
    }

    fn counters(&self) -> Vec<CounterKind> {
        vec![CounterKind::Instructions]
    }

    fn count(&mut self, _: Nanoseconds, threads: &mut Threads) -> Result<(), SourceError> {
        let rates = *self.0.lock().unwrap();
        for (view, thread) in threads.iter_mut() {
            let held: Vec<CpuId> = thread.facts.affinity.iter().collect();
            let per_s = match held[..] {
                [CpuId(0)] => rates[0],
                [CpuId(1)] => rates[1],
                _ => rates[2],
            };
            let done = per_s * thread.elapsed().as_secs_f64();
            view.counts.add(CounterKind::Instructions, done, thread.elapsed(), Scope::Demand);
        }
        Ok(())
    }
}

/// Three real processes of which the first two change places while the third stays. What is noted then, with the third at these
/// rates before and after; none where there is one CPU only.
fn notes_of_a_turn(bystander: [f64; 2]) -> Option<Vec<String>> {
    let programs: Vec<Sleeper> =
        (0..3).map(|_| Sleeper(Command::new("sleep").arg("1000").spawn().unwrap())).collect();
    let pids: Vec<u32> = programs.iter().map(|one| one.0.id()).collect();
    if ![CpuId(0), CpuId(1)].iter().all(|&cpu| affinity(pids[0]).unwrap().contains(cpu)) {
        eprintln!("skipped: CPUs 0 and 1 are not both there");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots::default();
    let target = |&pid: &u32| {
        let rule = Rule { pid: Some(facts(&roots, pid, pid).unwrap().task.pid), ..Rule::default() };
        Target::new(format!("nobody-knows-{pid}"), ProcessSelector::Rule(rule))
    };
    let targets = pids.iter().map(target).collect();
    let machine = Arc::new(Machine::from_toml(BIG_AND_LITTLE, "big-and-little.toml").unwrap());
    let policy = Holds::default();
    let source = ByCore(Arc::new(Mutex::new([1e9, 0.3e9, bystander[0]])));
    let mut host = Host::new(
        machine.clone(),
        vec![Box::new(policy.clone())],
        Box::new(crate::Processes::new(&roots, targets).unwrap()),
        vec![Box::new(source.clone())],
        vec![Box::new(PlacementActuator::new(&roots))],
        roots.clone(),
        HostOptions::default(),
    )
    .unwrap();
    host.act_under(Journal::create(&folder.path().join("journals"), &roots).unwrap());
    policy.tell(&["0", "1"]);
    let mut seconds = 1..;
    let mut tick = |host: &mut Host| host.tick_at(at(seconds.next().unwrap())).unwrap();
    tick(&mut host);
    host.gate_by(gate(&machine, GateOptions::default()));
    (0..6).for_each(|_| assert!(tick(&mut host).decisions.is_empty()));
    policy.tell(&["1", "0"]);
    let made = tick(&mut host);
    assert!(made.decisions.iter().all(|one| matches!(one.verdict, Verdict::Done(_))), "{made:?}");
    source.0.lock().unwrap()[2] = bystander[1];
    let notes = (0..8).flat_map(|_| tick(&mut host).unread).collect();
    let undone = host.undo();
    assert!(undone.iter().all(|one| one.outcome.is_ok()), "{undone:?}");
    Some(notes)
}

#[test]
fn what_a_turn_costs_the_one_who_leaves_the_big_core_is_no_harm() {
    let Some(notes) = notes_of_a_turn([1e9, 1e9]) else { return };
    assert_eq!(notes, [""; 0]);
}

#[test]
fn a_turn_that_harms_a_third_is_undone() {
    let Some(notes) = notes_of_a_turn([1e9, 0.6e9]) else { return };
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("made all programs -40.0 %"), "{notes:?}");
    assert!(notes[0].ends_with("the plan is undone"), "{notes:?}");
}
