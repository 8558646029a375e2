//! What a person orders (`corun serve --act`) is done whole or not at all, whatever fails.

use std::sync::Arc;

use corun_linux::{Roots, Task, facts};
use corun_live::{
    Host, HostOptions, Journal, LiveError, PlacementActuator, ProcessSelector, ScannedThread,
    Scanner, Target,
};
use corun_policy::{Action, Step, ThreadState};

use super::inject::run;
use super::world::World;
use super::{assert_all_undone, is_empty, walk};

/// The programs of the world, as the kernel shows them.
struct Told {
    tasks: Vec<Task>,
    targets: Vec<Target>,
}

impl Scanner for Told {
    fn targets(&self) -> &[Target] {
        &self.targets
    }

    fn scan(&mut self) -> Result<Vec<ScannedThread>, LiveError> {
        let seen = |task: &Task| {
            let facts = facts(&Roots::default(), task.pid, task.tid).ok()?;
            Some(ScannedThread { facts, state: ThreadState::Sleeping, target: 0 })
        };
        Ok(self.tasks.iter().filter_map(seen).collect())
    }

    fn add(&mut self, target: Target) -> Result<(), LiveError> {
        self.targets.push(target);
        Ok(())
    }
}

fn host(world: &World) -> Host {
    let mut tasks: Vec<Task> = world.sleepers.iter().map(|one| one.task).collect();
    tasks.sort_unstable();
    let targets = vec![Target::new("sleepers", ProcessSelector::Descendants(tasks[0]))];
    let machine = Arc::new(corun_machine::preset("xeon-x5365").unwrap());
    let mut host = Host::new(
        machine,
        Vec::new(),
        Box::new(Told { tasks, targets }),
        Vec::new(),
        vec![Box::new(PlacementActuator::new(&world.roots))],
        world.roots.clone(),
        HostOptions::default(),
    )
    .unwrap();
    host.act_under(Journal::create(&world.folder(), &world.roots).unwrap());
    host.tick().unwrap();
    host
}

#[test]
fn an_order_is_done_whole_or_not_at_all_whatever_fails() {
    walk(40, |world, place, fault| {
        let mut host = host(world);
        let allow = |view: &corun_policy::ThreadView| Step {
            action: Action::Allow { thread: view.id, cpus: world.first.clone() },
            reason: "asked for".to_owned(),
        };
        let steps: Vec<Step> = host.views().iter().map(allow).collect();
        assert_eq!(steps.len(), 3);
        let ran = run(place, fault, || world.end_first(), || host.carry_out_whole(steps));
        let when = format!("{fault:?} at place {place}, call {:?}", ran.hit);
        let moved = world.others().len();
        match &ran.answer {
            Ok(()) => assert!(moved + usize::from(world.has_ended()) == 3, "{when}: {moved} moved"),
            Err(half) => {
                assert_eq!(moved, 0, "{when}: {half}");
                assert_eq!(half.stuck, [""; 0], "{when}: {half}");
                assert!(half.to_string().starts_with("nothing was done: "), "{when}: {half}");
            }
        }
        assert_all_undone(world, &host.undo(), fault, &when);
        assert!(is_empty(world), "{when}");
        ran.hit
    });
}
