//! Programs run on this machine, alone and together.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

use corun_calibrate::{
    CalibrateError, NeighbourLooks, NeighbourUse, farthest_transfer_ns, look_at_core,
};
use corun_machine::CpuId;
use corun_metrics::mean;

use crate::measure::{GroupRun, Runner, SoloRun};
use crate::once::{Run, RunError, bind, run};
use crate::watch::watched;
use crate::{Conditions, LastCache, TimedProgram};

/// Company slows a program down up to several times: beside others its limit is so many times as long.
const TIMES_LIMIT_BESIDE: u32 = 4;

/// The machine that is here.
pub(crate) struct Native<'a> {
    subjects: &'a [TimedProgram],
    conditions: &'a Conditions,
    neighbours: Option<Mutex<NeighbourLooks>>,
}

impl<'a> Native<'a> {
    pub(crate) fn new(
        subjects: &'a [TimedProgram],
        conditions: &'a Conditions,
    ) -> Result<Self, RunError> {
        let looks = conditions.shared_cache.map(|LastCache { private_bytes, bytes }| {
            let looks = NeighbourLooks::new(private_bytes, bytes);
            looks.map(Mutex::new).map_err(refused("looking at lines of the last cache"))
        });
        Ok(Self { subjects, conditions, neighbours: looks.transpose()? })
    }

    /// What the neighbours did while programs ran alone.
    pub(crate) fn neighbours(self) -> Option<NeighbourUse> {
        let looks = self.neighbours?.into_inner().unwrap_or_else(PoisonError::into_inner);
        looks.told()
    }

    fn look_at_neighbours(&self) {
        if let Some(looks) = &self.neighbours {
            looks.lock().unwrap_or_else(PoisonError::into_inner).look();
        }
    }
}

impl Runner for Native<'_> {
    fn alone(&self, subject: usize, stop: &(dyn Fn() -> bool + Sync)) -> Result<SoloRun, RunError> {
        let Conditions { cpus, folder, limit, .. } = self.conditions;
        // A thread of its own, so that the caller's CPUs stay as they are.
        thread::scope(|scope| {
            let timed = || {
                bind(cpus[0])?;
                self.look_at_neighbours();
                let before = look_at_core();
                let subject = &self.subjects[subject];
                let (run, mut looks) = watched(cpus[0], || run(subject, folder, *limit, &stop))?;
                let after = look_at_core();
                looks.extend([before.additions_per_cycle, after.additions_per_cycle]);
                Ok(SoloRun {
                    cpu_s: run?.cpu_s,
                    additions_per_cycle: mean(&looks).unwrap_or_default(),
                    clock_mhz: after.clock_mhz,
                })
            };
            scope.spawn(timed).join().unwrap_or(Err(RunError::Stopped))
        })
    }

    fn together(
        &self,
        members: &[usize],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<GroupRun, (usize, RunError)> {
        let members: Vec<&TimedProgram> =
            members.iter().map(|&member| &self.subjects[member]).collect();
        let cpus = self.conditions.cpus[..members.len()].iter().copied().map(CpuId);
        let cpus: Vec<CpuId> = cpus.collect();
        let look = || {
            let refused = refused("timing a cache line between CPUs");
            farthest_transfer_ns(&cpus).map_err(|why| (0, refused(why)))
        };
        let before = look()?;
        let runs = together(&members, self.conditions, stop)?;
        let line_transfer_ns = before.max(look()?);
        let cores = &self.conditions.cores[..members.len()];
        let is_own = |core: &usize| cores.iter().filter(|other| *other == core).count() == 1;
        let additions_of = |(runs, core): (&MemberRuns, &usize)| {
            mean(&runs.additions_per_cycle).filter(|_| is_own(core))
        };
        Ok(GroupRun {
            cpu_s: runs.iter().filter_map(|runs| mean(&runs.cpu_s)).collect(),
            additions_per_cycle: runs.iter().zip(cores).map(additions_of).collect(),
            line_transfer_ns,
        })
    }
}

fn refused(what: &'static str) -> impl FnOnce(CalibrateError) -> RunError {
    move |why| RunError::System { what, source: io::Error::other(why) }
}

/// Runs of a member of a group from beginning to end beside all others.
#[derive(Debug, Default)]
struct MemberRuns {
    /// CPU seconds by run.
    cpu_s: Vec<f64>,
    /// Of all looks during these runs.
    additions_per_cycle: Vec<f64>,
}

/// Runs members at once, each on its CPU and again and again, until each has run once from beginning
/// to end beside all others. An error comes with the member it is of.
fn together(
    members: &[&TimedProgram],
    conditions: &Conditions,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<MemberRuns>, (usize, RunError)> {
    let begin = Barrier::new(members.len());
    let enough = AtomicBool::new(false);
    let done: Mutex<Vec<MemberRuns>> =
        Mutex::new(members.iter().map(|_| MemberRuns::default()).collect());
    let again_and_again = |place: usize| -> Result<(), RunError> {
        let bound = bind(conditions.cpus[place]);
        begin.wait();
        bound?;
        let ends = || enough.load(Ordering::Relaxed) || stop();
        loop {
            let limit = TIMES_LIMIT_BESIDE * conditions.limit;
            let (found, looks) = watched(conditions.cpus[place], || {
                run(members[place], &conditions.folder, limit, &ends)
            })
            .inspect_err(|_| enough.store(true, Ordering::Relaxed))?;
            let Run { cpu_s, .. } = match found {
                Err(RunError::Stopped) if enough.load(Ordering::Relaxed) => return Ok(()),
                Err(why) => {
                    // The others need not go on.
                    enough.store(true, Ordering::Relaxed);
                    return Err(why);
                }
                Ok(run) => run,
            };
            if enough.load(Ordering::Relaxed) {
                return Ok(());
            }
            let mut all = done.lock().unwrap_or_else(PoisonError::into_inner);
            all[place].cpu_s.push(cpu_s);
            all[place].additions_per_cycle.extend(looks);
            if all.iter().all(|runs| !runs.cpu_s.is_empty()) {
                enough.store(true, Ordering::Relaxed);
                return Ok(());
            }
        }
    };
    let ends: Vec<Result<(), RunError>> = thread::scope(|scope| {
        let again_and_again = &again_and_again;
        let threads: Vec<_> =
            (0..members.len()).map(|place| scope.spawn(move || again_and_again(place))).collect();
        threads.into_iter().map(|one| one.join().unwrap_or(Err(RunError::Stopped))).collect()
    });
    // A failure of a program says more than that the others were stopped for it.
    let mut failures: Vec<(usize, RunError)> = ends
        .into_iter()
        .enumerate()
        .filter_map(|(place, end)| end.err().map(|why| (place, why)))
        .collect();
    failures.sort_by_key(|(_, why)| matches!(why, RunError::Stopped));
    if let Some(first) = failures.into_iter().next() {
        return Err(first);
    }
    Ok(done.into_inner().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{RoundPlan, measure};

    const WORK: &str = "i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done";

    fn subject(name: &str, script: &str) -> TimedProgram {
        TimedProgram {
            name: name.to_owned(),
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            good_codes: Vec::new(),
        }
    }

    /// CPUs that this process may use: at least one, given again where there are not enough.
    fn conditions(members: usize) -> Conditions {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let cpus: Vec<u32> = (0..rustix::thread::CpuSet::MAX_CPU)
            .filter(|&cpu| allowed.is_set(cpu))
            .map(|cpu| cpu as u32)
            .collect();
        Conditions {
            folder: std::env::temp_dir(),
            cpus: cpus.into_iter().cycle().take(members).collect(),
            cores: (0..members).collect(),
            same_llc_ns: None,
            additions_per_cycle: None,
            shared_cache: None,
            limit: Duration::from_secs(60),
        }
    }

    #[test]
    fn programs_run_alone_and_together() {
        let subjects = [subject("one", WORK), subject("bad", "exit 3")];
        let shared_cache = Some(LastCache { private_bytes: 65536.0, bytes: 1048576.0 });
        let conditions = Conditions { shared_cache, ..conditions(2) };
        let native = Native::new(&subjects, &conditions).unwrap();
        let alone = native.alone(0, &|| false).unwrap();
        assert!(alone.cpu_s > 0.0 && alone.additions_per_cycle > 0.0 && alone.clock_mhz > 0.0);
        let both = native.together(&[0, 0], &|| false).unwrap();
        assert!(
            both.cpu_s.len() == 2 && both.cpu_s.iter().all(|&seconds| seconds > 0.0),
            "{both:?}"
        );
        assert_eq!(both.additions_per_cycle.len(), 2);
        let on_one_core = Conditions { cores: vec![0, 0], ..conditions.clone() };
        let beside = Native::new(&subjects, &on_one_core).unwrap().together(&[0, 0], &|| false);
        assert_eq!(
            beside.unwrap().additions_per_cycle,
            [None, None],
            "each is the other's busy thread"
        );
        let bad = native.together(&[0, 1], &|| false);
        assert!(matches!(bad, Err((1, RunError::Code(3)))), "{bad:?}");
        assert_eq!(native.neighbours(), None, "one look, before the run alone");
    }

    #[test]
    fn the_caller_stops_it() {
        let subjects = [subject("one", "sleep 1000")];
        let plan = RoundPlan { rounds: 1, ..RoundPlan::default() };
        let found = measure(&subjects, &plan, &conditions(1), &|_, _| false);
        assert!(matches!(found, Err(RunError::Stopped)), "{found:?}");
    }
}
