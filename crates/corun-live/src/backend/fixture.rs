//! Threads that tests make up.

use corun_linux::{Task, TaskFacts};
use corun_machine::{CpuId, CpuSet};
use corun_policy::{Nanoseconds, ProcessId, ThreadId, ThreadView};

use super::{ManagedThread, Threads};

/// What the kernel says of a thread that runs on CPU 0 and may run on these.
pub(crate) fn facts(task: Task, affinity: &CpuSet) -> TaskFacts {
    TaskFacts {
        task,
        parent: 1,
        name: "made-up".to_owned(),
        wants_cpu: true,
        cpu: CpuId(0),
        cpu_ns: 0,
        nice: 0,
        is_real_time: false,
        affinity: affinity.clone(),
    }
}

/// A table of these threads.
pub(crate) fn table(made: impl IntoIterator<Item = (u64, ManagedThread)>) -> Threads {
    let mut threads = Threads::new(0);
    for (id, thread) in made {
        let process = ProcessId(thread.task().pid.into());
        let view = ThreadView::new(ThreadId(id), process, &*thread.profile, &thread.may_run_on);
        threads.insert(view, thread);
    }
    threads
}

/// Adds a thread that may run on CPU 0.
pub(crate) fn insert(threads: &mut Threads, id: u64, task: Task, profile: &str) {
    let cpus = CpuSet::from_iter([CpuId(0)]);
    let view = ThreadView::new(ThreadId(id), ProcessId(task.pid.into()), profile, &cpus);
    threads.insert(view, ManagedThread::new(facts(task, &cpus), 0, profile));
}

/// As if a thread had run for a share of so many seconds since the tick before.
pub(crate) fn ran(threads: &mut Threads, index: usize, share: f64, seconds: f64) {
    let thread = threads.at_mut(index).1;
    thread.elapsed = Nanoseconds::from_secs_f64(seconds);
    thread.ran = Nanoseconds::from_secs_f64(share * seconds);
}
