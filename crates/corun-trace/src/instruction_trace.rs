//! A program's instructions one by one, as ChampSim reads them (`input_instr` of its `inc/trace_instruction.h`): an
//! independent cycle-level simulator can then run what a profile was recorded of.
//!
//! 64 bytes an instruction, little-endian: its address; is it a branch, was it taken; two registers written and four
//! read; two places written and four read. 0 stands for none.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use crate::block::{Block, Exit, Registers, StaticOp};
use crate::event::{TraceEvent, Unpacked, WORD_BYTES, line_of};

/// Bytes of an instruction.
pub const RECORD_BYTES: usize = 64;

/// Registers that ChampSim knows the kind of a branch by; all others have numbers behind these.
const STACK_POINTER: u8 = 6;
const FLAGS: u8 = 25;
const INSTRUCTION_POINTER: u8 = 26;
const FIRST_OTHER: u8 = 27;
/// Nothing writes it: what a jump reads that goes by memory alone.
const NEVER_WRITTEN: u8 = 255;
/// The flags among our registers.
const OUR_FLAGS: usize = 48;

/// Instructions at a trace's beginning by which it is known.
const KNOWN_BY: usize = 64;

/// Could this file be such a trace? The format has no name of its own, but other files have another length, or something in
/// the places where a trace says whether an instruction is a branch and was taken.
///
/// # Errors
/// What the file system says.
pub fn is_instruction_trace(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut start = Vec::new();
    file.take((KNOWN_BY * RECORD_BYTES) as u64).read_to_end(&mut start)?;
    let is_one = |record: &[u8]| record[8] <= 1 && record[9] <= record[8];
    Ok(bytes % RECORD_BYTES as u64 == 0 && start.chunks_exact(RECORD_BYTES).all(is_one))
}

const MOST_WRITTEN: usize = 2;
const MOST_READ: usize = 4;

/// A data access of the running block.
#[derive(Debug, Clone, Copy)]
struct Touched {
    index: u32,
    word: u64,
    store: bool,
}

/// Writes one thread's instructions.
///
/// Of an access that is wider than a line's rest both lines are told, at most four places that are read and two that are
/// written. An access to the word of the access before, which events leave out, is put back. A repeated string instruction
/// is an instruction for each line that it comes to. What the kernel does is left out.
#[derive(Debug)]
pub(crate) struct InstructionRecorder<W: Write> {
    writer: W,
    /// The running block; its accesses so far.
    block: Option<u32>,
    touched: Vec<Touched>,
    /// Does the running block go on with the repeated instruction that the one before ended with?
    repeats: bool,
    /// Lines that a repeated instruction read and wrote last.
    repeated: [Option<u64>; 2],
    last_word: u64,
    instructions: u64,
}

impl<W: Write> InstructionRecorder<W> {
    /// A recorder of a thread's beginning.
    pub(crate) fn new(writer: W) -> Self {
        Self {
            writer,
            block: None,
            touched: Vec::new(),
            repeats: false,
            repeated: [None; 2],
            last_word: 0,
            instructions: 0,
        }
    }

    /// Takes in what the thread did since its last batch. `block` finds a block by its number; nothing is written from
    /// `limit` instructions on.
    ///
    /// # Errors
    /// When the trace cannot be written.
    pub(crate) fn record<'a>(
        &mut self,
        events: &[TraceEvent],
        limit: u64,
        block: impl Fn(u32) -> Option<&'a Block>,
    ) -> io::Result<()> {
        for event in events {
            match event.unpack() {
                Unpacked::Block(id) => {
                    let next = block(id);
                    if let Some(before) = self.block.and_then(&block) {
                        self.end_block(before, next.map(|next| next.start), limit)?;
                    }
                    self.block = Some(id);
                }
                Unpacked::Page { .. } => {}
                Unpacked::Data { word, index, store } => {
                    self.touched.push(Touched { index, word, store });
                }
            }
        }
        Ok(())
    }

    /// Writes the running block, which no other one follows in this program.
    ///
    /// # Errors
    /// When the trace cannot be written.
    pub(crate) fn end<'a>(
        &mut self,
        limit: u64,
        block: impl Fn(u32) -> Option<&'a Block>,
    ) -> io::Result<()> {
        match self.block.take().and_then(block) {
            Some(last) => self.end_block(last, None, limit),
            None => Ok(()),
        }
    }

    /// Writes out what came so far.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    fn end_block(&mut self, block: &Block, next: Option<u64>, limit: u64) -> io::Result<()> {
        let touched = std::mem::take(&mut self.touched);
        let goes_on = std::mem::take(&mut self.repeats);
        if !goes_on {
            self.repeated = [None; 2];
        }
        let taken = next.is_some_and(|next| next != block.end);
        let last = block.ops.len().saturating_sub(1);
        let mut address = block.start;
        for (index, op) in block.ops.iter().enumerate() {
            let own = touched.iter().filter(|one| one.index as usize == index);
            let places = self.places(op, own);
            let is_repetition = goes_on && index == 0;
            let is_new =
                self.comes_to_a_new_line(block.exit == Exit::Repeat && index == last, &places);
            if self.instructions < limit && (!is_repetition || is_new) {
                let exit = (index == last && block.branches > 0).then_some((block.exit, taken));
                self.writer.write_all(&encode(address, op, exit, &places))?;
                self.instructions += 1;
            }
            address += u64::from(op.length);
        }
        self.repeats = block.exit == Exit::Repeat && next == Some(block.last);
        self.touched = touched;
        self.touched.clear();
        Ok(())
    }

    /// Where an instruction reads and writes.
    fn places<'a>(&mut self, op: &StaticOp, touched: impl Iterator<Item = &'a Touched>) -> Places {
        let before = self.last_word;
        let mut places = Places::default();
        for one in touched {
            let known = if one.store { &mut places.written } else { &mut places.read };
            if known.iter().all(|&word| line_of(word) != line_of(one.word)) {
                known.push(one.word);
            }
            self.last_word = one.word;
        }
        // The event of an access to the word of the access before is left out.
        if op.loads && places.read.is_empty() {
            places.read.push(places.written.first().copied().unwrap_or(before));
        }
        if op.stores && places.written.is_empty() {
            places.written.push(places.read.first().copied().unwrap_or(before));
        }
        places
    }

    fn comes_to_a_new_line(&mut self, repeats: bool, places: &Places) -> bool {
        if !repeats {
            return true;
        }
        let lines =
            [&places.read, &places.written].map(|words| words.last().map(|&word| line_of(word)));
        std::mem::replace(&mut self.repeated, lines) != lines
    }
}

/// Words that an instruction reads and writes, one a line.
#[derive(Debug, Default)]
struct Places {
    read: Vec<u64>,
    written: Vec<u64>,
}

fn encode(
    address: u64,
    op: &StaticOp,
    exit: Option<(Exit, bool)>,
    places: &Places,
) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    let (written, read) = match exit {
        None => (numbers(op.written), numbers(op.address.and(op.read))),
        Some((exit, _)) => branch_registers(exit, op),
    };
    record[..8].copy_from_slice(&address.to_le_bytes());
    if let Some((exit, taken)) = exit {
        record[8] = 1;
        record[9] = u8::from(taken || exit != Exit::Conditional);
    }
    fill(&mut record[10..], MOST_WRITTEN, written);
    fill(&mut record[12..], MOST_READ, read);
    let bytes = |words: &[u64], most: usize| -> Vec<u8> {
        words.iter().take(most).flat_map(|word| (word * WORD_BYTES).to_le_bytes()).collect()
    };
    fill(&mut record[16..], 8 * MOST_WRITTEN, bytes(&places.written, MOST_WRITTEN));
    fill(&mut record[32..], 8 * MOST_READ, bytes(&places.read, MOST_READ));
    record
}

fn fill(record: &mut [u8], most: usize, values: Vec<u8>) {
    record.iter_mut().zip(values.into_iter().take(most)).for_each(|(place, value)| *place = value);
}

/// ChampSim's numbers of registers, the flags last: where there are too many they are left out first.
fn numbers(registers: Registers) -> Vec<u8> {
    let others = registers.iter().filter(|&register| register != OUR_FLAGS);
    let others = others.map(|register| FIRST_OTHER + register as u8);
    let flags = registers.iter().any(|register| register == OUR_FLAGS).then_some(FLAGS);
    others.chain(flags).collect()
}

/// What a branch writes and reads, by which ChampSim tells its kind.
fn branch_registers(exit: Exit, op: &StaticOp) -> (Vec<u8>, Vec<u8>) {
    let mut own = numbers(op.address.and(op.read));
    let (jump, call) = (vec![INSTRUCTION_POINTER], vec![STACK_POINTER, INSTRUCTION_POINTER]);
    let behind = |mut fixed: Vec<u8>, own: Vec<u8>| {
        fixed.extend(own);
        fixed
    };
    match exit {
        Exit::Direct | Exit::Repeat => (jump, vec![]),
        Exit::Conditional => (jump.clone(), behind(jump, own)),
        Exit::Call => (call.clone(), call),
        Exit::Return => (call, vec![STACK_POINTER]),
        Exit::Indirect | Exit::IndirectCall => {
            own.retain(|&register| register != FLAGS);
            if own.is_empty() {
                own.push(NEVER_WRITTEN);
            }
            if exit == Exit::Indirect { (jump, own) } else { (call.clone(), behind(call, own)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{GuestCode, GuestInstruction, decode};

    fn block(start: u64, parts: &[&[u8]]) -> Block {
        let mut address = start;
        let instruction = |bytes: &&[u8]| {
            let one = GuestInstruction { address, bytes: bytes.to_vec() };
            address += bytes.len() as u64;
            one
        };
        let instructions: Vec<_> = parts.iter().map(instruction).collect();
        decode(GuestCode::X86(64), &instructions).unwrap().block
    }

    /// Address, is a branch, taken, written, read, places written, places read.
    type Row = (u64, bool, bool, Vec<u8>, Vec<u8>, Vec<u64>, Vec<u64>);

    fn rows(blocks: &[Block], events: &[TraceEvent], limit: u64) -> Vec<Row> {
        let mut recorder = InstructionRecorder::new(Vec::new());
        recorder.record(events, limit, |id| blocks.get(id as usize)).unwrap();
        let (bytes, count) = (recorder.writer, recorder.instructions);
        assert_eq!(bytes.len(), count as usize * RECORD_BYTES);
        let set = |bytes: &[u8]| bytes.iter().copied().filter(|&one| one != 0).collect();
        let words = |bytes: &[u8]| {
            let word = |one: &[u8]| u64::from_le_bytes(one.try_into().unwrap());
            bytes.chunks(8).map(word).filter(|&one| one != 0).collect()
        };
        let row = |one: &[u8]| {
            let address = u64::from_le_bytes(one[..8].try_into().unwrap());
            let (branch, taken) = (one[8] == 1, one[9] == 1);
            (
                address,
                branch,
                taken,
                set(&one[10..12]),
                set(&one[12..16]),
                words(&one[16..32]),
                words(&one[32..]),
            )
        };
        bytes.chunks(RECORD_BYTES).map(row).collect()
    }

    #[test]
    fn a_loop_by_hand() {
        // mov rax, [rbx]; add rax, [rbx]; jne back: rax is 0, rbx 3.
        let code = block(0x1000, &[&[0x48, 0x8b, 0x03], &[0x48, 0x03, 0x03], &[0x75, 0xf8]]);
        let (rax, rbx) = (FIRST_OTHER, FIRST_OTHER + 3);
        // The second load is of the same word, which has no event.
        let round = [TraceEvent::block(0), TraceEvent::data(0x2000 / 8, 0, false)];
        let after = block(0x1008, &[&[0x90]]);
        let events: Vec<_> =
            [round, round].concat().into_iter().chain([TraceEvent::block(1)]).collect();
        let rows = rows(&[code, after], &events, 5);
        let (load, add) = (
            (0x1000, false, false, vec![rax], vec![rbx], vec![], vec![0x2000]),
            (0x1003, false, false, vec![rax, FLAGS], vec![rax, rbx], vec![], vec![0x2000]),
        );
        let (ip, conditional) = (vec![INSTRUCTION_POINTER], vec![INSTRUCTION_POINTER, FLAGS]);
        let back = (0x1006, true, true, ip, conditional, vec![], vec![]);
        // The sixth is beyond the limit.
        assert_eq!(rows, [load.clone(), add.clone(), back, load, add]);
    }

    #[test]
    fn a_branch_that_falls_through_is_not_taken() {
        let code = block(0x1000, &[&[0x75, 0xf8]]);
        let after = block(0x1002, &[&[0x90]]);
        let rows = rows(&[code, after], &[TraceEvent::block(0), TraceEvent::block(1)], u64::MAX);
        assert!(rows.len() == 1 && rows[0].1 && !rows[0].2);
    }

    #[test]
    fn a_call_and_its_return_go_by_the_stack_pointer() {
        // call; ret; jmp [rip]
        let blocks = [
            block(0x1000, &[&[0xe8, 0x10, 0, 0, 0]]),
            block(0x1015, &[&[0xc3]]),
            block(0x1005, &[&[0xff, 0x25, 0, 0, 0, 0]]),
            block(0x3000, &[&[0x90]]),
        ];
        let word = 0x7ff8 / 8;
        let events = [
            TraceEvent::block(0),
            TraceEvent::data(word, 0, true),
            TraceEvent::block(1),
            // Its load is of the word that was just written.
            TraceEvent::block(2),
            TraceEvent::data(0x5000 / 8, 0, false),
            TraceEvent::block(3),
        ];
        let rows = rows(&blocks, &events, u64::MAX);
        let both = vec![STACK_POINTER, INSTRUCTION_POINTER];
        assert_eq!(rows[0], (0x1000, true, true, both.clone(), both.clone(), vec![0x7ff8], vec![]));
        assert_eq!(rows[1], (0x1015, true, true, both, vec![STACK_POINTER], vec![], vec![0x7ff8]));
        let jump = (vec![INSTRUCTION_POINTER], vec![NEVER_WRITTEN]);
        assert_eq!(rows[2], (0x1005, true, true, jump.0, jump.1, vec![], vec![0x5000]));
    }

    #[test]
    fn a_repeated_instruction_is_told_once_a_line() {
        // rep stosq, entered again for each of 20 words: from the middle of a line over two borders.
        let code = block(0x1000, &[&[0xf3, 0x48, 0xab]]);
        let mut events = Vec::new();
        for word in 0..20 {
            events.extend([TraceEvent::block(0), TraceEvent::data(0x2020 / 8 + word, 0, true)]);
        }
        events.push(TraceEvent::block(1));
        let rows = rows(&[code, block(0x1003, &[&[0x90]])], &events, u64::MAX);
        let written: Vec<_> = rows.iter().map(|row| row.5.clone()).collect();
        assert_eq!(written, [vec![0x2020], vec![0x2040], vec![0x2080]]);
        assert!(rows.iter().all(|row| !row.1 && row.0 == 0x1000));
    }

    #[test]
    fn an_access_over_two_lines_has_both() {
        // movups xmm0, [rax]
        let code = block(0x1000, &[&[0x0f, 0x10, 0x00]]);
        let events = [
            TraceEvent::block(0),
            TraceEvent::data(0x2038 / 8, 0, false),
            TraceEvent::data(0x2040 / 8, 0, false),
            TraceEvent::block(0),
        ];
        let rows = rows(&[code], &events, u64::MAX);
        assert_eq!(rows[0].6, [0x2038, 0x2040]);
        // Within one line it is one place.
        let code = block(0x1000, &[&[0x0f, 0x10, 0x00]]);
        let events = [
            TraceEvent::block(0),
            TraceEvent::data(0x2000 / 8, 0, false),
            TraceEvent::data(0x2008 / 8, 0, false),
            TraceEvent::block(0),
        ];
        assert_eq!(super::tests::rows(&[code], &events, u64::MAX)[0].6, [0x2000]);
    }
}
