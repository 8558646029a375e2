//! Captures a micro-trace: a stretch of one thread's instructions with what each depends on and
//! touches.

use std::cmp::Reverse;

use corun_profile::{Marks, MicroOp, MicroTrace, Operation, Reconvergence, Reuse};
use rustc_hash::FxHashMap;

use super::reconvergence::{REACH, Ran, ReconvergencePoint, Reconvergences, Ways};
use super::stack::Depth;
use crate::block::{Block, Registers, StaticOp};
use crate::event::{WORD_BYTES, line_of};

/// Instructions of a micro-trace: three times what the largest cores hold in flight.
const LENGTH: usize = 1536;

/// Further accesses of instructions that a micro-trace holds. A repeated instruction can have any
/// number of them.
const MOST_PARTS: usize = 2048;

/// How deep a line lay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// With so many lines more recent.
    Front(usize),
    /// Below the front; which of the accesses below the front since the capture began, the depths of
    /// which are told together.
    Below(usize),
}

/// What is known of an access beside its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) place: Place,
    /// Depth of its page, and the pages known before.
    pub(crate) page: (Depth, u64),
    /// The line with which it goes on, where it was to be foreseen.
    pub(crate) foreseen_from: Option<u64>,
}

/// How a block ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ended {
    pub(crate) taken: bool,
    pub(crate) small_wrong: bool,
    pub(crate) large_wrong: bool,
}

/// A micro-trace in the making.
#[derive(Debug, Clone)]
pub(crate) struct Capture {
    /// The thread that is captured.
    pub(crate) thread: usize,
    /// How many instructions of the run each of its own stands for.
    pub(crate) weight: u64,
    ops: MicroTrace,
    parts: usize,
    /// Of each register the entry that wrote it last, and 1.
    writers: [u32; Registers::MOST],
    /// The entry that stored to a word last.
    stores: FxHashMap<u64, u32>,
    /// The entry that touched a line last.
    lines: FxHashMap<u64, u32>,
    /// The entry that touched a line first, where streams go on from.
    first_touches: FxHashMap<u64, u32>,
    /// The last access: its entry and word.
    last_access: Option<(u32, u64)>,
    /// Instructions of the running block that have their entries, and that of the last.
    cursor: usize,
    last: usize,
    /// The first word that the last one touched.
    first_word: u64,
    /// Does the last one touch memory, though no access of it was seen yet?
    expects: bool,
    /// The running block begins within a repeated instruction; the lines that it touched last.
    repeating: bool,
    repeated: [u64; 2],
    /// Code lines that the running block brings in, with the instruction that each begins at.
    fetched: Vec<(usize, Place, bool)>,
    /// Entries whose line lay below the front, with the number of that access; of a code line?
    below: Vec<(u32, usize, bool)>,
    /// By entry, what it reads and writes.
    registers: Vec<[Registers; 2]>,
    /// The blocks, and the entry with which the running one begins.
    path: Vec<Ran>,
    first: usize,
}

impl Capture {
    pub(crate) fn new(thread: usize, weight: u64) -> Self {
        Self {
            thread,
            weight,
            ops: Vec::with_capacity(LENGTH + 64),
            parts: 0,
            writers: [0; Registers::MOST],
            stores: FxHashMap::default(),
            lines: FxHashMap::default(),
            first_touches: FxHashMap::default(),
            last_access: None,
            cursor: 0,
            last: 0,
            first_word: 0,
            expects: false,
            repeating: false,
            repeated: [u64::MAX; 2],
            fetched: Vec::new(),
            below: Vec::new(),
            registers: Vec::new(),
            path: Vec::new(),
            first: 0,
        }
    }

    /// Has it all that it may hold?
    pub(crate) fn is_full(&self) -> bool {
        self.instructions() >= LENGTH
    }

    fn instructions(&self) -> usize {
        self.ops.len() - self.parts
    }

    /// A block begins; `repeats`: with the repeated instruction that ended the one before.
    pub(crate) fn begin_block(&mut self, repeats: bool) {
        self.cursor = 0;
        self.first = self.ops.len();
        self.repeating = repeats;
        if !repeats {
            self.repeated = [u64::MAX; 2];
        }
        self.fetched.clear();
    }

    /// The block that begins brings in a code line; `next`: the one behind the line before.
    pub(crate) fn fetch(&mut self, block: &Block, line: u64, place: Place, next: bool) {
        let into = (line * crate::event::LINE_BYTES).saturating_sub(block.start);
        let bytes = (block.end - block.start).max(1);
        // Where in the block the line begins; instructions are taken to be equally long.
        let at = (into * u64::from(block.instructions) / bytes) as usize;
        self.fetched.push((at.min(block.ops.len().saturating_sub(1)), place, next));
    }

    /// The running block ended.
    pub(crate) fn end_block(&mut self, block: &Block, ended: Ended) {
        self.follow(block, block.ops.len());
        self.settle_access();
        if self.ops.is_empty() || self.cursor == 0 {
            return;
        }
        // A repeated instruction goes on without entries of its own.
        if self.first < self.ops.len() {
            let is_wrong = ended.small_wrong || ended.large_wrong;
            self.path.push(Ran::new(block, [self.first, self.last.max(self.first)], is_wrong));
        }
        if block.branches == 0 {
            return;
        }
        let marks = &mut self.ops[self.last].marks;
        marks.set(Marks::BRANCH);
        for (holds, mark) in [
            (ended.taken, Marks::TAKEN),
            (ended.small_wrong, Marks::MISPREDICTED_SMALL),
            (ended.large_wrong, Marks::MISPREDICTED_LARGE),
        ] {
            if holds {
                marks.set(mark);
            }
        }
    }

    /// Instruction `index` of the running block touches a word.
    pub(crate) fn access(
        &mut self,
        block: &Block,
        index: usize,
        word: u64,
        store: bool,
        seen: Seen,
    ) {
        let Some(op) = block.ops.get(index) else { return };
        let line = line_of(word);
        if self.repeating && index == 0 {
            self.cursor = self.cursor.max(1);
            // A repeated instruction moves whole lines at a time.
            if std::mem::replace(&mut self.repeated[usize::from(store)], line) != line {
                self.push_part(op, word, store, seen);
            }
            return;
        }
        if self.cursor <= index {
            self.follow(block, index + 1);
            if self.cursor <= index || self.ops.is_empty() {
                return;
            }
            self.expects = false;
            self.first_word = word;
            self.attach(self.last, op, word, store, seen);
        } else if self.last_access.is_none_or(|(_, before)| line_of(before) != line) {
            self.push_part(op, word, store, seen);
        } else if store {
            self.note_store(word, self.bytes_from(word, op), self.last);
        }
    }

    /// One more access of the last instruction.
    fn push_part(&mut self, op: &StaticOp, word: u64, store: bool, seen: Seen) {
        if self.ops.is_empty() || self.parts == MOST_PARTS {
            return;
        }
        self.settle_access();
        self.parts += 1;
        let entry = self.ops.len();
        let kind = if store { Marks::STORE } else { Marks::LOAD };
        let back = distance(entry, self.last);
        self.ops.push(MicroOp {
            marks: Marks::PART.with(kind),
            // It begins no earlier than the instruction's address is known.
            address_inputs: self.ops[self.last]
                .address_inputs
                .map(|input| if input == 0 { 0 } else { input.saturating_add(back) }),
            ..MicroOp::default()
        });
        self.attach(entry, op, word, store, seen);
    }

    /// Gives the running block's instructions up to `end` their entries.
    fn follow(&mut self, block: &Block, end: usize) {
        while self.cursor < end.min(block.ops.len()) {
            let at = self.cursor;
            self.cursor += 1;
            if self.repeating && at == 0 {
                continue;
            }
            self.settle_access();
            if self.is_full() {
                self.cursor -= 1;
                return;
            }
            self.push(at, &block.ops[at]);
        }
    }

    fn push(&mut self, at: usize, op: &StaticOp) {
        let entry = self.ops.len();
        let mut micro = MicroOp {
            operation: op.operation,
            inputs: self.producers(op.read, entry),
            address_inputs: self.producers(op.address, entry),
            ..MicroOp::default()
        };
        for (holds, mark) in [
            (op.loads, Marks::LOAD),
            (op.stores, Marks::STORE),
            (op.fused, Marks::FUSED),
            (op.stack && (op.loads || op.stores), Marks::STACK),
            (op.vector, Marks::VECTOR),
        ] {
            if holds {
                micro.marks.set(mark);
            }
        }
        for (_, place, next) in self.fetched.iter().filter(|one| one.0 == at) {
            micro.marks.set(Marks::FETCHES);
            if *next {
                micro.marks.set(Marks::NEXT_LINE);
            }
            match *place {
                Place::Front(distance) => micro.fetch_reuse = Reuse::of(distance as u64),
                Place::Below(number) => self.below.push((entry as u32, number, true)),
            }
        }
        self.ops.push(micro);
        self.registers.resize(entry, [Registers::default(); 2]);
        self.registers.push([op.read.and(op.address), op.written]);
        for register in op.written.iter() {
            self.writers[register] = entry as u32 + 1;
        }
        self.last = entry;
        self.expects = op.loads || op.stores;
    }

    /// The latest entries that wrote these registers.
    fn producers<const MOST: usize>(&self, registers: Registers, entry: usize) -> [u16; MOST] {
        let mut backs = [0u16; MOST];
        for register in registers.iter() {
            let Some(writer) = self.writers[register].checked_sub(1) else { continue };
            let back = distance(entry, writer as usize);
            if backs.contains(&back) {
                continue;
            }
            // Those that lie furthest back have had the most time.
            let free = backs.iter().position(|&one| one == 0);
            let furthest = (0..MOST).filter(|&at| backs[at] > back).max_by_key(|&at| backs[at]);
            if let Some(at) = free.or(furthest) {
                backs[at] = back;
            }
        }
        backs
    }

    /// Accesses to the word of the access before are left out of the events.
    fn settle_access(&mut self) {
        if !std::mem::take(&mut self.expects) {
            return;
        }
        let Some((before, word)) = self.last_access else { return };
        let entry = self.last;
        let op = &mut self.ops[entry];
        op.line_before = distance(entry, before as usize);
        if op.marks.has(Marks::LOAD)
            && let Some(&store) = self.stores.get(&word)
        {
            op.forwarded_from = distance(entry, store as usize);
        }
        if op.marks.has(Marks::STORE) {
            self.stores.insert(word, entry as u32);
        }
        self.lines.insert(line_of(word), entry as u32);
        self.last_access = Some((entry as u32, word));
    }

    fn attach(&mut self, entry: usize, static_op: &StaticOp, word: u64, store: bool, seen: Seen) {
        let line = line_of(word);
        let loads = self.ops[entry].marks.has(Marks::LOAD);
        let line_before = self.lines.insert(line, entry as u32);
        let words = words(word, self.bytes_from(word, static_op));
        let forwarded = words
            .clone()
            .filter_map(|word| self.stores.get(&word))
            .max()
            .filter(|_| loads)
            .copied();
        let stream = seen.foreseen_from.and_then(|from| self.first_touches.get(&from)).copied();
        self.first_touches.entry(line).or_insert(entry as u32);
        let op = &mut self.ops[entry];
        op.line_before = line_before.map_or(0, |before| distance(entry, before as usize));
        op.forwarded_from = forwarded.map_or(0, |store| distance(entry, store as usize));
        if seen.foreseen_from.is_some() {
            op.marks.set(Marks::FORESEEN);
            op.stream_before = stream.map_or(0, |before| distance(entry, before as usize));
        }
        match seen.place {
            Place::Front(distance) => op.reuse = Reuse::of(distance as u64),
            Place::Below(number) => self.below.push((entry as u32, number, false)),
        }
        match seen.page {
            (Depth::Lines(pages), _) => op.page_reuse = Reuse::of(pages),
            (Depth::Cold | Depth::Unsampled, known) => {
                op.page_reuse = Reuse::of(known);
                op.marks.set(Marks::PAGE_AT_LEAST);
            }
        }
        if store || op.marks.has(Marks::STORE) {
            words.for_each(|word| {
                self.stores.insert(word, entry as u32);
            });
        }
        self.last_access = Some((entry as u32, word));
    }

    /// Bytes that an access to the last instruction's place touches from a word on: QEMU does wide ones in parts.
    fn bytes_from(&self, word: u64, op: &StaticOp) -> u8 {
        let before = word.wrapping_sub(self.first_word).saturating_mul(WORD_BYTES);
        // What lies elsewhere is another place.
        let left = u8::try_from(before).ok().and_then(|before| op.bytes.checked_sub(before));
        left.filter(|&left| left > 0).unwrap_or(op.bytes)
    }

    fn note_store(&mut self, word: u64, bytes: u8, entry: usize) {
        words(word, bytes).for_each(|word| {
            self.stores.insert(word, entry as u32);
        });
    }

    /// Entries behind a place where both directions of a branch meet that read a register as the other one has written it.
    fn reads_written(&self, place: &ReconvergencePoint) -> Vec<usize> {
        let mut written = place.written;
        let mut found = Vec::new();
        for (entry, [reads, writes]) in self.registers.iter().enumerate().skip(place.entry) {
            if written.0 == 0 {
                break;
            }
            if reads.0 & written.0 != 0 {
                found.push(entry);
            }
            written = written.without(*writes);
        }
        found
    }

    /// By entry behind a branch, within a core's reach: does it hang on what either direction does before they meet?
    fn hanging(&self, branch: usize, place: &ReconvergencePoint) -> Vec<bool> {
        let end = self.ops.len().min(branch + REACH);
        let own = (place.entry - branch).min(end - branch);
        let mut hangs = vec![false; end - branch];
        hangs[..own].fill(true);
        for entry in self.reads_written(place).into_iter().filter(|&entry| entry < end) {
            hangs[entry - branch] = true;
        }
        for at in own..hangs.len() {
            let op = &self.ops[branch + at];
            let inputs = op.inputs.iter().chain(&op.address_inputs).chain([&op.forwarded_from]);
            let mut from = inputs.filter_map(|&back| at.checked_sub(usize::from(back)));
            hangs[at] = hangs[at] || from.any(|from| from < at && hangs[from]);
        }
        hangs
    }

    /// Notes what a core comes to in the other direction of a mispredicted branch.
    fn meet(&mut self, met: &Reconvergences) {
        let branch = met.branch;
        let places = met.places.iter().map(|place| (place, self.hanging(branch, place)));
        let places: Vec<_> = places.collect();
        // The sooner a core comes to a load, the longer its line has been on its way.
        let worth = |place: &ReconvergencePoint, hangs: &[bool]| -> usize {
            let behind = place.entry - branch;
            let free = (behind..hangs.len()).filter(|&at| !hangs[at]);
            let loads = free.filter(|&at| self.ops[branch + at].marks.has(Marks::LOAD));
            loads.map(|at| REACH.saturating_sub(place.other_instructions + at - behind)).sum()
        };
        let best =
            places.iter().max_by_key(|(place, hangs)| (worth(place, hangs), Reverse(place.entry)));
        let Some((place, _)) = best else {
            let unmet = if met.is_never { Reconvergence::Never } else { Reconvergence::Unknown };
            self.ops[branch].reconvergence = unmet;
            return;
        };
        self.ops[branch].reconvergence = after(branch, place);
        for entry in self.reads_written(place) {
            self.ops[entry].hangs_on = distance(entry, branch);
        }
    }

    /// The trace. `depths`: of the accesses below the front in turn, with the lines known before
    /// each; `whole`: nothing came before those. `ways`: of the micro-traces before.
    pub(crate) fn finish(
        mut self,
        depths: &[(Depth, u64)],
        whole: bool,
        ways: &mut Ways,
    ) -> MicroTrace {
        self.settle_access();
        for met in ways.reconvergences(&self.path) {
            self.meet(&met);
        }
        for &(entry, number, code) in &self.below {
            let op = &mut self.ops[entry as usize];
            let (reuse, at_least) = match depths.get(number) {
                Some(&(Depth::Lines(lines), _)) => (Reuse::of(lines), false),
                Some(&(Depth::Cold, _)) if whole => (Reuse::NEVER, false),
                Some(&(Depth::Cold | Depth::Unsampled, known)) => (Reuse::of(known), true),
                None => (Reuse::default(), true),
            };
            let mark = if code {
                op.fetch_reuse = reuse;
                Marks::FETCH_AT_LEAST
            } else {
                op.reuse = reuse;
                Marks::REUSE_AT_LEAST
            };
            if at_least {
                op.marks.set(mark);
            }
        }
        self.ops
    }
}

fn after(branch: usize, place: &ReconvergencePoint) -> Reconvergence {
    let word = |count: usize| u16::try_from(count).unwrap_or(u16::MAX - 1);
    let entries = word((place.entry - branch).max(1));
    Reconvergence::After { entries, other_instructions: word(place.other_instructions) }
}

/// The words that an access of so many bytes covers.
fn words(word: u64, bytes: u8) -> std::ops::RangeInclusive<u64> {
    word..=word + (u64::from(bytes.max(1)) - 1) / WORD_BYTES
}

fn distance(entry: usize, before: usize) -> u16 {
    u16::try_from(entry.saturating_sub(before)).unwrap_or(0)
}

/// Causes that costs are told apart by.
pub(crate) const COSTS: usize = 8;

/// Cycles an instruction by cause: dependences, mispredictions, loads that miss a first level and that
/// miss a large cache, the same of loads that were foreseen, code, stores that miss, translations.
pub(crate) type Costs = [f32; COSTS];

/// Cycles a micro-trace may take, by cause: what is alike in these is alike on any core. Latencies
/// are those of a core of today, roughly; the cause that is left out is what a core's width allows.
pub(crate) fn costs(trace: &[MicroOp]) -> Costs {
    const IN_FLIGHT: usize = 256;
    let mut finished = Vec::with_capacity(trace.len());
    let mut costs: Costs = [0.0; COSTS];
    for (entry, op) in trace.iter().enumerate() {
        let at = |back: u16| if back == 0 { 0 } else { finished[entry - usize::from(back)] };
        let address = op.address_inputs.map(at).into_iter().max().unwrap_or(0);
        let load =
            if op.marks.has(Marks::LOAD) { (address + 4).max(at(op.forwarded_from)) } else { 0 };
        let inputs = op.inputs.map(at).into_iter().max().unwrap_or(0).max(load);
        let room = if entry >= IN_FLIGHT { finished[entry - IN_FLIGHT] } else { 0 };
        finished.push(inputs.max(room) + latency(op.operation));
        let deep = |reuse: Reuse, at_least: bool, lines: f64| at_least || reuse.distance() >= lines;
        if op.marks.any(Marks::LOAD.with(Marks::STORE)) {
            let below = |lines| deep(op.reuse, op.marks.has(Marks::REUSE_AT_LEAST), lines);
            let foreseen = op.marks.has(Marks::FORESEEN);
            let cost = |deep: bool, cycles: f32| if deep { cycles } else { 0.0 };
            if !op.marks.has(Marks::LOAD) {
                costs[6] += cost(below(8192.0), 10.0);
            } else if foreseen {
                costs[4] += cost(below(8192.0), 10.0);
            } else {
                costs[2] += cost(below(512.0), 5.0);
                costs[3] += cost(below(8192.0), 50.0);
            }
            let far = op.marks.has(Marks::PAGE_AT_LEAST) || op.page_reuse.distance() >= 64.0;
            costs[7] += cost(far, 5.0);
        }
        let fetched = op.marks.has(Marks::FETCHES);
        let below = fetched && deep(op.fetch_reuse, op.marks.has(Marks::FETCH_AT_LEAST), 512.0);
        costs[5] += if below { 10.0 } else { 0.0 };
        costs[1] += if op.marks.has(Marks::MISPREDICTED_LARGE) { 15.0 } else { 0.0 };
    }
    costs[0] = finished.iter().copied().max().unwrap_or(0) as f32;
    costs.map(|cost| cost / trace.len().max(1) as f32)
}

fn latency(operation: Operation) -> u32 {
    match operation {
        Operation::None => 0,
        Operation::Integer | Operation::Vector | Operation::Shuffle => 1,
        Operation::Multiply | Operation::FloatAdd | Operation::VectorMultiply => 3,
        Operation::FloatMultiply | Operation::FloatFused | Operation::Transfer => 4,
        Operation::Divide | Operation::FloatDivide => 12,
        Operation::DivideWide | Operation::FloatDivideDouble => 18,
        Operation::Atomic => 20,
        Operation::Serialise | Operation::FloatFunction => 60,
        Operation::SystemCall => 150,
    }
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
