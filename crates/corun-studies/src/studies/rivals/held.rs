//! A clustering that was found beforehand, held throughout a run.

use corun_policy::{
    Action, ActionKind, CachePart, Event, Needs, Partition, Plan, Policy, View,
};

/// Gives each program the ways of its cluster, by its name: a program that is started again gets them again.
pub(super) struct Held {
    /// Names and masks.
    masks: Vec<(String, u64)>,
    asked: Vec<CachePart>,
}

impl Held {
    /// The programs by their names, in the order of the partition.
    pub(super) fn new(names: &[&str], partition: &Partition) -> Self {
        let mask = |(place, name): (usize, &&str)| ((*name).to_owned(), partition.mask(place));
        Self { masks: names.iter().enumerate().map(mask).collect(), asked: Vec::new() }
    }
}

impl Policy for Held {
    fn name(&self) -> &str {
        "best"
    }

    fn needs(&self) -> Needs {
        Needs {
            controls: vec![ActionKind::Partition],
            ..Needs::default()
        }
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        matches!(event, Event::Arrived(_)).then(|| self.decide(view))
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        let mut parts: Vec<CachePart> = Vec::new();
        for thread in view.threads {
            let Some((_, mask)) = self.masks.iter().find(|(name, _)| *name == thread.program) else {
                continue;
            };
            match parts.iter_mut().find(|part| part.mask == *mask) {
                Some(part) => part.threads.push(thread.id),
                None => parts.push(CachePart { mask: *mask, threads: vec![thread.id] }),
            }
        }
        let mut plan = Plan::none();
        if parts != self.asked {
            self.asked.clone_from(&parts);
            plan.push(Action::Partition { llc: 0, parts }, "the best clustering");
        }
        plan
    }
}
