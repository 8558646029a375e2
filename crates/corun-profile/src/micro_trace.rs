//! Micro-traces: short stretches of the dynamic instruction stream, with what each instruction
//! depends on and touches, so that any core can be tried on them later.
//!
//! Sampling a program by micro-traces of some 1000 instructions and evaluating cores on them is the
//! method of Van den Steen, Eyerman, De Pestel, Mechri, Carlson, Black-Schaffer, Hagersten and
//! Eeckhout ("Analytical processor performance and power modeling using micro-architecture
//! independent characteristics", IEEE Transactions on Computers 65(12), 2016, section 4). Nothing
//! in a micro-trace depends on a core or a cache: dependences are distances back in the stream, and
//! an access says how deep its line lay in the LRU stack.

use std::fmt;
use std::io::Read;
use std::sync::Arc;

/// Instructions of a micro-trace at most.
pub const MOST_TRACED_INSTRUCTIONS: usize = 4096;

/// Micro-traces of a recording at most.
pub const MOST_MICRO_TRACES: usize = 1024;

/// The level of compression: files are written once and read often.
const LEVEL: i32 = 19;
/// The same while a program is recorded, which waits for it.
const QUICK_LEVEL: i32 = 1;

/// Version of the packed form: since the second one it tells what the other directions of branches do.
const VERSION: u8 = 2;
const VERSION_OF_ONE_DIRECTION: u8 = 1;

/// What an instruction asks of the execution units, apart from loading and storing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum Operation {
    /// Nothing: a no-operation, a plain load or store, or what is done by renaming registers (a
    /// copy of a register, a register set to zero).
    #[default]
    None = 0,
    /// Integer or address arithmetic, logic, a shift, a compare, a branch: a cycle.
    Integer = 1,
    /// Integer multiplication.
    Multiply = 2,
    /// Integer division of up to 32 bits.
    Divide = 3,
    /// Integer division of 64 bits.
    DivideWide = 4,
    /// Floating-point addition, comparison or conversion, of scalars or vectors.
    FloatAdd = 5,
    /// Floating-point multiplication.
    FloatMultiply = 6,
    /// Fused multiplication and addition.
    FloatFused = 7,
    /// Floating-point division or square root of single precision.
    FloatDivide = 8,
    /// The same of double precision.
    FloatDivideDouble = 9,
    /// A function of the x87 unit such as a sine.
    FloatFunction = 10,
    /// Vector arithmetic on integers, logic; shuffles too in recordings from before [`Self::Shuffle`].
    Vector = 11,
    /// Vector multiplication of integers, and cryptographic rounds.
    VectorMultiply = 12,
    /// A value that moves between general and vector registers.
    Transfer = 13,
    /// A read-modify-write that is atomic.
    Atomic = 14,
    /// Waits until all before it is done, and lets nothing behind it begin: a fence, `cpuid`.
    Serialise = 15,
    /// Enters the kernel.
    SystemCall = 16,
    /// Moves elements of vectors to other places: a shuffle, a permutation, packing, a shift by whole bytes.
    Shuffle = 17,
}

/// All operations, in the order of their numbers.
pub const OPERATIONS: [Operation; 18] = [
    Operation::None,
    Operation::Integer,
    Operation::Multiply,
    Operation::Divide,
    Operation::DivideWide,
    Operation::FloatAdd,
    Operation::FloatMultiply,
    Operation::FloatFused,
    Operation::FloatDivide,
    Operation::FloatDivideDouble,
    Operation::FloatFunction,
    Operation::Vector,
    Operation::VectorMultiply,
    Operation::Transfer,
    Operation::Atomic,
    Operation::Serialise,
    Operation::SystemCall,
    Operation::Shuffle,
];

/// What an instruction is, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Marks(pub u16);

impl Marks {
    /// It loads.
    pub const LOAD: Self = Self(1);
    /// It stores.
    pub const STORE: Self = Self(1 << 1);
    /// It is a branch of any kind.
    pub const BRANCH: Self = Self(1 << 2);
    /// It is a branch that goes elsewhere than to the next instruction.
    pub const TAKEN: Self = Self(1 << 3);
    /// A small predictor (gshare, 4096 counters) gets it wrong.
    pub const MISPREDICTED_SMALL: Self = Self(1 << 4);
    /// A large predictor (TAGE) gets it wrong.
    pub const MISPREDICTED_LARGE: Self = Self(1 << 5);
    /// It is one operation with the instruction before it: a compare and its branch.
    pub const FUSED: Self = Self(1 << 6);
    /// Its data was to be foreseen: it goes on with the stride of the accesses before it.
    pub const FORESEEN: Self = Self(1 << 7);
    /// No instruction of its own but one more access of the one before it.
    pub const PART: Self = Self(1 << 8);
    /// [`MicroOp::reuse`] is only known to be at least that.
    pub const REUSE_AT_LEAST: Self = Self(1 << 9);
    /// [`MicroOp::fetch_reuse`] is only known to be at least that.
    pub const FETCH_AT_LEAST: Self = Self(1 << 10);
    /// It begins a code line other than the one of the instruction before it.
    pub const FETCHES: Self = Self(1 << 11);
    /// [`MicroOp::page_reuse`] is only known to be at least that.
    pub const PAGE_AT_LEAST: Self = Self(1 << 12);
    /// Its code line follows the one fetched before it.
    pub const NEXT_LINE: Self = Self(1 << 13);
    /// Its address is the stack or frame pointer and a constant.
    pub const STACK: Self = Self(1 << 14);

    /// It has a vector register for an operand.
    pub const VECTOR: Self = Self(1 << 15);

    /// Has it all of these?
    #[inline(always)]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Has it any of these?
    #[inline(always)]
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// These too.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of them that are among these.
    #[inline(always)]
    #[must_use]
    pub const fn among(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Adds these.
    #[inline(always)]
    pub fn set(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// One executed instruction of a micro-trace. Distances are counted back in the trace: 1 is the entry
/// before; 0 stands for none, or for one before the trace began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MicroOp {
    /// What it computes.
    pub operation: Operation,
    /// What it is.
    pub marks: Marks,
    /// How far back the values come from that it computes with or stores.
    pub inputs: [u16; 3],
    /// How far back the values come from that make its address.
    pub address_inputs: [u16; 2],
    /// How far back the store lies whose data it loads.
    pub forwarded_from: u16,
    /// How far back the last access to the same line lies.
    pub line_before: u16,
    /// Of a foreseen access: how far back the access lies whose stride it goes on with.
    pub stream_before: u16,
    /// Of a load or store: how deep its line lay in the LRU stack of data and code.
    pub reuse: Reuse,
    /// Of a load or store: the same of its page, among pages, in pages of 4 KiB.
    pub page_reuse: Reuse,
    /// Of one that [`Marks::FETCHES`]: the same of its code line as [`Self::reuse`].
    pub fetch_reuse: Reuse,
    /// Of a mispredicted branch: where it would have come to the same in the other direction.
    pub reconvergence: Reconvergence,
    /// How far back the nearest mispredicted branch lies whose other direction writes a register that it reads.
    pub hangs_on: u16,
}

impl MicroOp {
    /// The longest of its distances back.
    fn furthest_back(&self) -> usize {
        let [a, b, c] = self.inputs;
        let [d, e] = self.address_inputs;
        let mut furthest = 0;
        for back in [
            a,
            b,
            c,
            d,
            e,
            self.forwarded_from,
            self.line_before,
            self.stream_before,
            self.hangs_on,
        ] {
            furthest = if back > furthest { back } else { furthest };
        }
        usize::from(furthest)
    }
}

/// Where both directions of a branch go on alike: control independence (Rotenberg, Jacobson and Smith, "A study of control
/// independence in superscalar processors", HPCA 1999).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Reconvergence {
    /// Not known: the other direction was not seen, or not for long enough.
    #[default]
    Unknown,
    /// Not within the reach of a reorder buffer.
    Never,
    /// They do.
    After {
        /// How many entries behind the branch the first one stands that both directions have, at least 1.
        entries: u16,
        /// Instructions that the other direction has before it.
        other_instructions: u16,
    },
}

impl Reconvergence {
    const NEVER: u16 = u16::MAX;

    fn words(self) -> [u16; 2] {
        match self {
            Self::Unknown => [0; 2],
            Self::Never => [Self::NEVER, 0],
            Self::After { entries, other_instructions } => [entries, other_instructions],
        }
    }

    fn of([entries, other_instructions]: [u16; 2]) -> Self {
        match entries {
            0 => Self::Unknown,
            Self::NEVER => Self::Never,
            entries => Self::After { entries, other_instructions },
        }
    }
}

/// A stack distance (distinct others since the last access) in eight steps a doubling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Reuse(pub u8);

impl Reuse {
    /// Never accessed before.
    pub const NEVER: Self = Self(u8::MAX);
    /// Distances below this have a step each.
    const PLAIN: u64 = 16;
    const STEPS: f64 = 8.0;
    /// The deepest step: 2^24 lines.
    const DEEPEST: u8 = 16 + 20 * 8;

    /// The step of a distance.
    pub fn of(distance: u64) -> Self {
        if distance < Self::PLAIN {
            return Self(distance as u8);
        }
        let step = Self::STEPS * (distance as f64 / Self::PLAIN as f64).log2();
        Self((Self::PLAIN as f64 + step).min(f64::from(Self::DEEPEST)) as u8)
    }

    /// The least distance of the step; infinite for [`Self::NEVER`].
    pub fn distance(self) -> f64 {
        match self.0 {
            step if u64::from(step) < Self::PLAIN => f64::from(step),
            u8::MAX => f64::INFINITY,
            step => {
                let steps = f64::from(step) - Self::PLAIN as f64;
                Self::PLAIN as f64 * (steps / Self::STEPS).exp2()
            }
        }
    }
}

/// A micro-trace: entries in the order of the program.
pub type MicroTrace = Vec<MicroOp>;

/// The micro-traces of a recording, packed until they are asked for.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct MicroTraces {
    packed: Arc<[u8]>,
}

impl fmt::Debug for MicroTraces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MicroTraces").field("packed_bytes", &self.packed.len()).finish()
    }
}

/// What is wrong with packed micro-traces.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MicroTraceError {
    /// Not base64.
    #[error("no base64: {0}")]
    Text(String),
    /// Not compressed by zstd, or cut short.
    #[error("cannot be unpacked: {0}")]
    Packed(String),
    /// Another version.
    #[error("version {found} of micro-traces, expected {VERSION}")]
    Version {
        /// What was found.
        found: u8,
    },
    /// A figure that cannot be.
    #[error("entry {entry} of micro-trace {trace}: {why}")]
    Entry {
        /// Which trace, from 0.
        trace: usize,
        /// Which of its entries, from 0.
        entry: usize,
        /// What was found and expected.
        why: &'static str,
    },
    /// Too many, or too long.
    #[error(
        "found {found} {what}, expected at most {most}",
        what = if *traces { "micro-traces" } else { "entries of a micro-trace" }
    )]
    Length {
        /// Are it the traces that are too many?
        traces: bool,
        /// How many.
        found: usize,
        /// How many there may be.
        most: usize,
    },
}

/// Numbers of two bytes that an entry has, before its reuses and behind them.
const WORDS: usize = 9;
const OTHER_WORDS: usize = 3;

/// Where an entry's reuses begin.
const REUSES: usize = 1 + 2 * WORDS;
const BYTES_OF_ONE_DIRECTION: usize = REUSES + 3;
const ENTRY_BYTES: usize = BYTES_OF_ONE_DIRECTION + 2 * OTHER_WORDS;

impl MicroTraces {
    /// Packs traces: at most [`MOST_MICRO_TRACES`] of at most [`MOST_TRACED_INSTRUCTIONS`]; what is
    /// more is left out.
    pub fn pack(traces: &[impl AsRef<[MicroOp]>]) -> Self {
        Self { packed: pack(traces, LEVEL).into() }
    }

    /// The same quickly, with more bytes, while a program is recorded.
    pub fn pack_quickly(traces: &[impl AsRef<[MicroOp]>]) -> Self {
        Self { packed: pack(traces, QUICK_LEVEL).into() }
    }

    /// As they are packed.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// The traces.
    ///
    /// # Errors
    /// [`MicroTraceError`] where the packed form was damaged.
    pub fn unpack(&self) -> Result<Vec<MicroTrace>, MicroTraceError> {
        if self.packed.is_empty() {
            return Ok(Vec::new());
        }
        unpack(&self.packed)
    }

    /// Looks for damage as [`Self::unpack`] does, but not at each entry, which takes ten times as long.
    ///
    /// # Errors
    /// As of [`Self::unpack`].
    pub(crate) fn check(&self) -> Result<(), MicroTraceError> {
        if self.packed.is_empty() {
            return Ok(());
        }
        layout(&decompressed(&self.packed)?).map(drop)
    }

    /// As text, in lines of base64.
    pub fn to_base64(&self) -> String {
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(&self.packed);
        let lines: Vec<&str> = text
            .as_bytes()
            .chunks(96)
            .map(|line| std::str::from_utf8(line).unwrap_or(""))
            .collect();
        lines.join("\n")
    }

    /// From such text. What it packs is checked by [`Self::unpack`].
    ///
    /// # Errors
    /// [`MicroTraceError::Text`].
    pub fn from_base64(text: &str) -> Result<Self, MicroTraceError> {
        use base64::Engine as _;
        let text: String = text.split_ascii_whitespace().collect();
        let packed = base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_err(|error| MicroTraceError::Text(error.to_string()))?;
        Ok(Self { packed: packed.into() })
    }
}

/// Packs one trace quickly, while a program is recorded.
pub fn pack_quickly(trace: &[MicroOp]) -> Box<[u8]> {
    pack(&[trace], QUICK_LEVEL).into()
}

/// The other way round.
///
/// # Errors
/// [`MicroTraceError`] where it was damaged.
pub fn unpack_quickly(packed: &[u8]) -> Result<MicroTrace, MicroTraceError> {
    Ok(unpack(packed)?.pop().unwrap_or_default())
}

/// A version, the number of traces and their lengths (little-endian), then each field of all entries
/// in a row, bytes of numbers apart: equal fields of neighbours compress well.
fn pack(traces: &[impl AsRef<[MicroOp]>], level: i32) -> Vec<u8> {
    let traces: Vec<&[MicroOp]> = traces
        .iter()
        .take(MOST_MICRO_TRACES)
        .map(|trace| &trace.as_ref()[..trace.as_ref().len().min(MOST_TRACED_INSTRUCTIONS)])
        .collect();
    let entries: usize = traces.iter().map(|trace| trace.len()).sum();
    let head = 5 + 4 * traces.len();
    let mut raw = Vec::with_capacity(head + ENTRY_BYTES * entries);
    raw.push(VERSION);
    raw.extend((traces.len() as u32).to_le_bytes());
    for trace in &traces {
        raw.extend((trace.len() as u32).to_le_bytes());
    }
    raw.resize(head + ENTRY_BYTES * entries, 0);
    let columns = &mut raw[head..];
    for (at, one) in traces.iter().flat_map(|trace| trace.iter()).enumerate() {
        for (column, byte) in bytes(one).into_iter().enumerate() {
            columns[column * entries + at] = byte;
        }
    }
    // Compressing from memory to memory fails for want of memory alone.
    zstd::bulk::compress(&raw, level).unwrap_or_default()
}

/// An entry's bytes, one a column.
fn bytes(one: &MicroOp) -> [u8; ENTRY_BYTES] {
    let [a, b, c] = one.inputs;
    let [d, e] = one.address_inputs;
    let words =
        [one.marks.0, a, b, c, d, e, one.forwarded_from, one.line_before, one.stream_before];
    let mut bytes = [0; ENTRY_BYTES];
    bytes[0] = one.operation as u8;
    for (pair, word) in bytes[1..].chunks_exact_mut(2).zip(words) {
        pair.copy_from_slice(&word.to_le_bytes());
    }
    bytes[REUSES..BYTES_OF_ONE_DIRECTION].copy_from_slice(&[
        one.reuse.0,
        one.page_reuse.0,
        one.fetch_reuse.0,
    ]);
    let [entries, instructions] = one.reconvergence.words();
    let words = [entries, instructions, one.hangs_on];
    for (pair, word) in bytes[BYTES_OF_ONE_DIRECTION..].chunks_exact_mut(2).zip(words) {
        pair.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn unpack(packed: &[u8]) -> Result<Vec<MicroTrace>, MicroTraceError> {
    let raw = decompressed(packed)?;
    let (entry_bytes, lengths, rest) = layout(&raw)?;
    let entries: usize = lengths.iter().sum();
    let columns: Vec<&[u8]> = rest.chunks_exact(entries.max(1)).collect();
    let has_others = entry_bytes == ENTRY_BYTES;
    let mut traces = Vec::with_capacity(lengths.len());
    let mut first = 0;
    for (trace, &length) in lengths.iter().enumerate() {
        let mut ops = Vec::with_capacity(length);
        for entry in 0..length {
            let at = first + entry;
            let wrong = |why| MicroTraceError::Entry { trace, entry, why };
            // Each field by itself: to map an array of all columns is slow in a build that is hardly optimised, and
            // loading the library reads millions of entries.
            let byte = |column: usize| columns[column][at];
            let word = |column: usize| u16::from(byte(column)) | u16::from(byte(column + 1)) << 8;
            let other = |column: usize| if has_others { word(column) } else { 0 };
            let one = MicroOp {
                operation: *OPERATIONS
                    .get(usize::from(byte(0)))
                    .ok_or_else(|| wrong("an unknown operation"))?,
                marks: Marks(word(1)),
                inputs: [word(3), word(5), word(7)],
                address_inputs: [word(9), word(11)],
                forwarded_from: word(13),
                line_before: word(15),
                stream_before: word(17),
                reuse: Reuse(byte(REUSES)),
                page_reuse: Reuse(byte(REUSES + 1)),
                fetch_reuse: Reuse(byte(REUSES + 2)),
                reconvergence: Reconvergence::of([
                    other(BYTES_OF_ONE_DIRECTION),
                    other(BYTES_OF_ONE_DIRECTION + 2),
                ]),
                hangs_on: other(BYTES_OF_ONE_DIRECTION + 4),
            };
            if one.furthest_back() > entry {
                return Err(wrong("a distance back beyond the beginning"));
            }
            ops.push(one);
        }
        first += length;
        traces.push(ops);
    }
    Ok(traces)
}

fn damaged(why: &str) -> MicroTraceError {
    MicroTraceError::Packed(why.to_owned())
}

fn decompressed(packed: &[u8]) -> Result<Vec<u8>, MicroTraceError> {
    let most = 8 + MOST_MICRO_TRACES * (4 + ENTRY_BYTES * MOST_TRACED_INSTRUCTIONS);
    let mut raw = Vec::new();
    zstd::stream::read::Decoder::with_buffer(packed)
        .and_then(|decoder| decoder.take(most as u64).read_to_end(&mut raw))
        .map_err(|error| damaged(&error.to_string()))?;
    Ok(raw)
}

/// Bytes of an entry, the traces' lengths, and all entries.
fn layout(raw: &[u8]) -> Result<(usize, Vec<usize>, &[u8]), MicroTraceError> {
    let short = || damaged("cut short");
    let (&version, mut rest) = raw.split_first().ok_or_else(short)?;
    let entry_bytes = match version {
        VERSION => ENTRY_BYTES,
        VERSION_OF_ONE_DIRECTION => BYTES_OF_ONE_DIRECTION,
        found => return Err(MicroTraceError::Version { found }),
    };
    let mut number = || -> Result<usize, MicroTraceError> {
        let (bytes, behind) = rest.split_at_checked(4).ok_or_else(short)?;
        rest = behind;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
    };
    let count = number()?;
    let length = |traces, found, most| MicroTraceError::Length { traces, found, most };
    if count > MOST_MICRO_TRACES {
        return Err(length(true, count, MOST_MICRO_TRACES));
    }
    let lengths: Vec<usize> = (0..count).map(|_| number()).collect::<Result<_, _>>()?;
    if let Some(&found) = lengths.iter().find(|&&one| one > MOST_TRACED_INSTRUCTIONS) {
        return Err(length(false, found, MOST_TRACED_INSTRUCTIONS));
    }
    let entries: usize = lengths.iter().sum();
    if rest.len() != entries * entry_bytes {
        return Err(short());
    }
    Ok((entry_bytes, lengths, rest))
}

#[cfg(test)]
#[path = "micro_trace_tests.rs"]
mod tests;
