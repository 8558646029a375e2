//! Actions on a machine that is not here: what they would change, made up from nothing but the plan.

use std::collections::BTreeMap;

use corun_machine::Machine;
use corun_policy::{Action, ActionKind, Nanoseconds, ThreadId};

use super::{Actuator, Change, Refusal, managed};
use crate::Threads;

/// Prepares partitions, caps, moves of pages and weights as a machine would that can do all of
/// them. What it prepares must never be carried out.
#[derive(Debug, Default)]
pub struct DryRunActuator {
    /// By what is changed: as it is now.
    now: BTreeMap<String, String>,
}

impl DryRunActuator {
    /// The change of one thing; none where it is so already.
    fn set(&mut self, thing: String, after: String) -> Option<Change> {
        let before = self.now.insert(thing.clone(), after.clone()).unwrap_or_default();
        let group = thing.into();
        (before != after).then_some(Change::ResctrlSchemata { group, before, after })
    }
}

impl Actuator for DryRunActuator {
    fn name(&self) -> &'static str {
        "paper"
    }

    fn kinds(&self) -> Vec<ActionKind> {
        vec![
            ActionKind::Partition,
            ActionKind::CapBandwidth,
            ActionKind::MovePages,
            ActionKind::SetWeight,
        ]
    }

    fn prepare(
        &mut self,
        action: &Action,
        machine: &Machine,
        threads: &Threads,
        _now: Nanoseconds,
    ) -> Result<Vec<Change>, Refusal> {
        let all = |ids: &[ThreadId]| -> Result<String, Refusal> {
            let tasks = ids.iter().map(|&id| Ok(managed(threads, id)?.1.task().to_string()));
            Ok(tasks.collect::<Result<Vec<_>, Refusal>>()?.join(","))
        };
        let change = match action {
            Action::Partition { llc, parts } => {
                if machine.llcs().get(*llc).is_none() {
                    return Err(Refusal(format!("there is no LLC {llc}")));
                }
                let mut lines = Vec::new();
                for part in parts {
                    lines.push(format!("L3:{llc}={:x} for {}", part.mask, all(&part.threads)?));
                }
                self.set(format!("llc-{llc}"), lines.join("; "))
            }
            Action::CapBandwidth { threads: capped, mb_per_s } => {
                let cap = mb_per_s.map_or("none".to_owned(), |cap| format!("{cap} MB/s"));
                self.set(format!("cap-{}", all(capped)?), cap)
            }
            Action::MovePages { thread, node } => {
                let task = managed(threads, *thread)?.1.task();
                self.set(format!("pages-{}", task.pid), format!("node {node}"))
            }
            Action::SetWeight { thread, weight, .. } => {
                let task = managed(threads, *thread)?.1.task();
                self.set(format!("weight-{task}"), weight.to_string())
            }
            _ => return Err(Refusal::not_by(self.name())),
        };
        Ok(change.into_iter().collect())
    }
}
