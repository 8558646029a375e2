//! Time in which somebody holds a program still: by a signal, by a tracer or by its cgroup's freezer.

use std::collections::BTreeMap;

use corun_linux::procfs::Process;
use corun_linux::{Freezer, Roots, Task};

use super::advice::{advice, write_to};
use super::causes::TimeSplit;
use super::diagnosis::{Advice, Cause, CauseKind, LostShare};
use super::facts::{ProgramFacts, StandstillFacts, Tracer};

/// Watches who holds a program still.
#[derive(Debug)]
pub(super) struct StandstillWatch {
    freezers: BTreeMap<u32, Freezer>,
    found: StandstillFacts,
}

impl StandstillWatch {
    pub(super) fn start(roots: &Roots, pids: &[u32]) -> Self {
        let freezers = pids.iter().map(|&pid| (pid, Freezer::of_process(roots, pid))).collect();
        let may_be_signalled = pids.iter().all(|&pid| Process::new(roots, pid).may_be_signalled());
        Self { freezers, found: StandstillFacts { may_be_signalled, ..StandstillFacts::default() } }
    }

    /// Which processes are frozen at this moment?
    pub(super) fn frozen(&mut self) -> Vec<u32> {
        let frozen = self.freezers.iter().filter(|(_, freezer)| freezer.is_frozen());
        let frozen: Vec<u32> = frozen.map(|(&pid, _)| pid).collect();
        if let Some(first) = frozen.first()
            && self.found.frozen_groups.is_empty()
        {
            self.found.frozen_groups = self.freezers[first].frozen_groups();
        }
        frozen
    }

    /// A thread is held by a tracer at this moment.
    pub(super) fn traced(&mut self, roots: &Roots, task: Task) {
        if self.found.tracer.is_none() {
            let pid = Process::new(roots, task.pid).thread_tracer(task.tid);
            self.found.tracer = pid.map(|pid| {
                let stat = Process::new(roots, pid).stat().ok().flatten();
                Tracer { pid, name: stat.map_or_else(String::new, |stat| stat.name) }
            });
        }
    }

    pub(super) fn found(self) -> StandstillFacts {
        self.found
    }
}

fn held(
    kind: CauseKind,
    seconds: f64,
    split: &TimeSplit,
    found: String,
    advice: Vec<Advice>,
) -> Cause {
    Cause { kind, lost: LostShare::Estimated(split.share(seconds)), found, advice }
}

pub(super) fn stopped(facts: &ProgramFacts, split: &TimeSplit) -> Option<Cause> {
    let seconds = facts.time.stopped_s;
    let found = format!(
        "Stopped for {seconds:.2} s, by samples: by a signal (SIGSTOP), by Ctrl-Z, or since it wanted to read from a terminal \
         in the background."
    );
    let root = if facts.standstill.may_be_signalled { "" } else { "sudo " };
    let pids: Vec<String> = facts.pids.iter().map(u32::to_string).collect();
    let signal = |name: &str| format!("{root}kill -{name} {}", pids.join(" "));
    let go_on = Advice { undo: Some(signal("STOP")), ..advice("lets it go on", signal("CONT")) };
    Some(held(CauseKind::Stopped, seconds, split, found, vec![go_on]))
}

pub(super) fn traced(facts: &ProgramFacts, split: &TimeSplit) -> Option<Cause> {
    let seconds = facts.time.traced_s;
    let (who, shows) = match &facts.standstill.tracer {
        Some(Tracer { pid, name }) => {
            let does = "shows the tracer: there it is let go on, or left by the tracer";
            (format!("{name} ({pid})"), advice(does, format!("ps -fp {pid}")))
        }
        None => {
            let pid = facts.pids.first().copied().unwrap_or(0);
            let does = "shows the number of the tracer, where there is one now";
            (
                "a tracer".to_owned(),
                advice(does, format!("grep TracerPid /proc/{pid}/task/*/status")),
            )
        }
    };
    let found = format!(
        "Held by {who} for {seconds:.2} s, by samples: a debugger, or a program that follows its system calls."
    );
    Some(held(CauseKind::HeldByTracer, seconds, split, found, vec![shows]))
}

pub(super) fn frozen(facts: &ProgramFacts, split: &TimeSplit) -> Option<Cause> {
    let seconds = facts.time.frozen_s;
    let groups = &facts.standstill.frozen_groups;
    let names: Vec<&str> = groups.iter().map(|one| one.group.as_str()).collect();
    let which = if names.is_empty() { String::new() } else { format!(" {}", names.join(" and ")) };
    let found = format!("Frozen with all of its cgroup{which} for {seconds:.2} s, by samples.");
    let thaw = |one: &corun_linux::FrozenGroup| {
        let set = |value: &str| write_to(value, &one.file, one.may_be_thawed);
        let does = format!(
            "thaws {}; who froze it may count on it (a pause of containers, systemctl freeze)",
            one.group
        );
        Advice { undo: Some(set(one.freeze)), ..advice(does, set(one.thaw)) }
    };
    Some(held(CauseKind::Frozen, seconds, split, found, groups.iter().map(thaw).collect()))
}
