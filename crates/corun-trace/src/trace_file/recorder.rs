//! From the plug-in's events to a trace.

use std::io::Write;

use super::{Access, AccessKind, TraceFileError, TraceWriter};
use crate::block::{Block, Exit};
use crate::event::{TraceEvent, Unpacked, line_of};

/// What the recorder knows of a guest thread from batch to batch.
#[derive(Debug, Clone, Copy)]
pub struct Position {
    block: Option<u32>,
    code_line: u64,
}

impl Default for Position {
    fn default() -> Self {
        Self { block: None, code_line: u64::MAX }
    }
}

/// Writes the accesses of all threads into one trace, in the order in which their batches come:
/// the order in which the engine sees them.
#[derive(Debug)]
pub struct Recorder<W: Write> {
    writer: TraceWriter<W>,
    /// Instructions that began, and those up to the last access.
    instructions: u64,
    accessed: u64,
    /// Instructions that began before the running block.
    before_block: u64,
}

impl<W: Write> Recorder<W> {
    /// A recorder of a program's beginning.
    pub fn new(writer: TraceWriter<W>) -> Self {
        Self { writer, instructions: 0, accessed: 0, before_block: 0 }
    }

    /// Takes in what a thread did since its last batch. `block` finds a block by its number; events
    /// of unknown blocks are dropped, as are blocks from `limit` instructions on: as the engine does.
    ///
    /// # Errors
    /// When the trace cannot be written: it is of no use from then on.
    pub fn record<'a>(
        &mut self,
        position: &mut Position,
        events: &[TraceEvent],
        limit: u64,
        block: impl Fn(u32) -> Option<&'a Block>,
    ) -> Result<(), TraceFileError> {
        // The line of the access just before, and whether that wrote it.
        let mut last: Option<(u64, bool)> = None;
        for event in events {
            match event.unpack() {
                Unpacked::Block(id) => {
                    last = None;
                    if self.instructions >= limit {
                        return Ok(());
                    }
                    let Some(begun) = block(id) else { continue };
                    let before = position.block.and_then(&block);
                    position.block = Some(id);
                    self.begin(position, before, begun)?;
                }
                // What the kernel does is not in a trace.
                Unpacked::Page { .. } => {}
                Unpacked::Data { word, index, store } => {
                    let line = line_of(word);
                    if last.is_some_and(|(same, stored)| same == line && (stored || !store)) {
                        continue;
                    }
                    last = Some((line, store));
                    let kind = if store { AccessKind::Store } else { AccessKind::Load };
                    let last = self.instructions;
                    let at = (self.before_block + u64::from(index) + 1).min(last);
                    self.push(line, kind, at)?;
                }
            }
        }
        Ok(())
    }

    fn begin(
        &mut self,
        position: &mut Position,
        before: Option<&Block>,
        begun: &Block,
    ) -> Result<(), TraceFileError> {
        // A repeated string instruction counts once.
        let repeats = before.is_some_and(|one| one.exit == Exit::Repeat && one.last == begun.start);
        self.before_block = self.instructions;
        self.instructions += u64::from(begun.instructions) - u64::from(repeats);
        let (first, last) = begun.lines();
        for line in first..=last {
            if line != position.code_line {
                position.code_line = line;
                self.push(line, AccessKind::Fetch, self.before_block + 1)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, line: u64, kind: AccessKind, at: u64) -> Result<(), TraceFileError> {
        let at = at.max(self.accessed);
        let gap = at - self.accessed;
        self.accessed = at;
        self.writer.push(Access { line, gap, kind })
    }

    /// Writes what came so far, so that it can be read whatever happens next.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn flush(&mut self) -> Result<(), TraceFileError> {
        self.writer.flush()
    }

    /// Ends the trace. What it was written to is given back.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self) -> Result<W, TraceFileError> {
        self.writer.finish(self.instructions)
    }
}
