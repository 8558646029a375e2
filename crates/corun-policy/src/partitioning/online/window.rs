//! What a program does, counted over windows of instructions.

use crate::{Count, Counts, ThreadId, ThreadView};

/// Bytes that a miss brings.
const LINE_BYTES: f64 = crate::REQUEST_BYTES;

/// A program's figures over a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// Instructions per cycle.
    pub(crate) ipc: f64,
    /// LLC misses per 1000 instructions.
    pub(crate) llc_mpki: f64,
    /// LLC references per 1000 instructions, where they are counted.
    pub(crate) llc_apki: Option<f64>,
    /// LLC misses per 1000 cycles.
    pub(crate) llc_mpkc: f64,
    /// Bytes of misses a second on a CPU; 0 where the time is not known.
    pub(crate) bytes_per_s: f64,
    /// Share of cycles stalled on memory, 0 to 1, where it is counted.
    pub(crate) memory_stalls: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    instructions: f64,
    cycles: f64,
    misses: f64,
    references: f64,
    /// Instructions in which references were counted.
    references_of: f64,
    cpu_s: f64,
    stall_cycles: f64,
    /// Cycles in which stalls were counted.
    stalls_of_cycles: f64,
}

/// The counts of a program's threads since its window began.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Each thread's counts at the last look.
    before: Vec<(ThreadId, Counts)>,
    sums: Sums,
}

impl Window {
    /// Takes in what the threads did since the last look. Of a thread that was not there then, that
    /// lacks a count or whose counts go backwards, nothing is known this time.
    pub(crate) fn look<'a>(&mut self, threads: impl Iterator<Item = &'a ThreadView>) {
        let now: Vec<(ThreadId, Counts)> =
            threads.map(|thread| (thread.id, thread.counts)).collect();
        for (id, after) in &now {
            let before = self.before.iter().find(|(known, _)| known == id);
            if let Some(more) = before.and_then(|(_, before)| difference(before, after)) {
                self.sums.add(&more);
            }
        }
        self.before = now;
    }

    /// Instructions since the window began.
    pub(crate) fn instructions(&self) -> f64 {
        self.sums.instructions
    }

    /// The window's figures and the start of the next one, once it has so many instructions.
    pub(crate) fn close(&mut self, instructions: f64) -> Option<Sample> {
        if self.sums.instructions < instructions || self.sums.cycles <= 0.0 {
            return None;
        }
        let sums = std::mem::take(&mut self.sums);
        let per_second = |amount: f64| if sums.cpu_s > 0.0 { amount / sums.cpu_s } else { 0.0 };
        Some(Sample {
            ipc: sums.instructions / sums.cycles,
            llc_mpki: 1e3 * sums.misses / sums.instructions,
            llc_apki: (sums.references_of > 0.0)
                .then(|| 1e3 * sums.references / sums.references_of),
            llc_mpkc: 1e3 * sums.misses / sums.cycles,
            bytes_per_s: per_second(sums.misses * LINE_BYTES),
            memory_stalls: (sums.stalls_of_cycles > 0.0)
                .then(|| (sums.stall_cycles / sums.stalls_of_cycles).min(1.0)),
        })
    }

    /// Forgets what was counted since the window began.
    pub(crate) fn restart(&mut self) {
        self.sums = Sums::default();
    }
}

impl Sums {
    fn add(&mut self, more: &Self) {
        self.instructions += more.instructions;
        self.cycles += more.cycles;
        self.misses += more.misses;
        self.references += more.references;
        self.references_of += more.references_of;
        self.cpu_s += more.cpu_s;
        self.stall_cycles += more.stall_cycles;
        self.stalls_of_cycles += more.stalls_of_cycles;
    }
}

/// What happened between two looks; none where it cannot be told.
fn difference(before: &Counts, after: &Counts) -> Option<Sums> {
    let rise = |before: Option<Count>, after: Option<Count>| {
        Some(after?.total - before?.total).filter(|rise| rise.is_finite() && *rise >= 0.0)
    };
    let cycles = rise(before.cycles, after.cycles)?;
    let stall_cycles = rise(before.memory_stall_cycles, after.memory_stall_cycles);
    let instructions = rise(before.instructions, after.instructions)?;
    let references = rise(before.llc_references, after.llc_references);
    Some(Sums {
        instructions,
        references: references.unwrap_or(0.0),
        references_of: references.map_or(0.0, |_| instructions),
        cycles,
        misses: rise(before.llc_misses, after.llc_misses)?,
        cpu_s: rise(before.cpu_time, after.cpu_time).unwrap_or(0.0) * 1e-9,
        stall_cycles: stall_cycles.unwrap_or(0.0),
        stalls_of_cycles: stall_cycles.map_or(0.0, |_| cycles),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn threads(counts: &[(f64, f64, f64)]) -> Vec<ThreadView> {
        let machine = fixture::x5365();
        let mut threads = fixture::threads(&machine, &vec![None; counts.len()]);
        for (thread, &(instructions, cycles, misses)) in threads.iter_mut().zip(counts) {
            thread.counts = Counts {
                cpu_time: fixture::count(cycles),
                instructions: fixture::count(instructions),
                cycles: fixture::count(cycles),
                llc_misses: fixture::count(misses),
                llc_references: fixture::count(4.0 * misses),
                memory_stall_cycles: fixture::count(cycles / 4.0),
                ..Counts::default()
            };
        }
        threads
    }

    #[test]
    fn a_window_is_what_all_threads_did_in_it() {
        let mut window = Window::default();
        window.look(threads(&[(1e6, 1e6, 50.0), (7e6, 9e6, 0.0)]).iter());
        assert_eq!(window.instructions(), 0.0);
        window.look(threads(&[(3e6, 3e6, 1050.0), (9e6, 11e6, 1000.0)]).iter());
        assert_eq!(window.close(5e6), None);
        let sample = window.close(4e6).unwrap();
        assert_eq!((sample.ipc, sample.llc_mpki, sample.llc_mpkc), (1.0, 0.5, 0.5));
        assert_eq!(sample.memory_stalls, Some(0.25));
        assert_eq!(sample.llc_apki, Some(2.0));
        // 2000 lines in 4 ms.
        assert!((sample.bytes_per_s - 32e6).abs() < 1.0);
        assert_eq!(window.instructions(), 0.0);
    }

    #[test]
    fn odd_counts_are_passed_over() {
        let mut window = Window::default();
        window.look(threads(&[(5e6, 5e6, 50.0)]).iter());
        window.look(threads(&[(1e6, 1e6, 50.0)]).iter());
        window.look(threads(&[(f64::NAN, 2e6, 60.0)]).iter());
        window.look(threads(&[(3e6, f64::INFINITY, 60.0)]).iter());
        assert_eq!((window.instructions(), window.close(0.0)), (0.0, None));
        let mut unknown = threads(&[(4e6, 4e6, 70.0)]);
        window.look(unknown.iter());
        unknown[0].counts =
            Counts { memory_stall_cycles: None, llc_references: None, ..unknown[0].counts };
        unknown[0].counts.instructions = fixture::count(5e6);
        unknown[0].counts.cycles = fixture::count(8e6);
        window.look(unknown.iter());
        let sample = window.close(1e6).unwrap();
        assert_eq!((sample.ipc, sample.memory_stalls, sample.llc_apki), (0.25, None, None));
    }
}
