//! Samples by the number of events: as many lines as it happened often enough.

use std::io::Write;

use super::note;
use super::rows::{Row, Whose};
use super::watch::Watch;
use crate::failure::Outcome;

impl<W: Write> Watch<W> {
    /// Writes the samples that have come since the last call, at most so many; how many it was.
    pub(super) fn samples_by_count(&mut self, most: u64) -> Outcome<u64> {
        let Some(by_count) = &mut self.by_count else { return Ok(0) };
        let mut rows = Vec::new();
        for sample in by_count.take(&self.now) {
            if rows.len() as u64 == most {
                break;
            }
            let task = sample.task;
            let program = self.names.get(&task).map(|(name, _)| name.clone()).unwrap_or_default();
            let cpu = sample.cpu.0;
            rows.push(Row {
                time_s: sample.at.as_secs_f64(),
                interval_s: sample.interval.as_secs_f64(),
                whose: Whose::Thread { pid: task.pid, tid: task.tid, program, cpu },
                counts: sample.counts,
            });
        }
        self.forget_the_gone();
        self.rows.write(&rows)?;
        Ok(rows.len() as u64)
    }

    /// Samples that came too fast are no secret.
    pub(super) fn say_what_is_missing(&self) {
        let Some(by_count) = &self.by_count else { return };
        if by_count.lost() > 0 {
            let lost = by_count.lost();
            note(&format!(
                "{lost} samples came too fast, and their counts are in those that followed: choose a \
                 larger count"
            ));
        }
        if by_count.held_back() > 0 {
            note(&format!(
                "the kernel stopped counting for a moment {} times, as samples came too fast: \
                 choose a larger count",
                by_count.held_back()
            ));
        }
    }
}
