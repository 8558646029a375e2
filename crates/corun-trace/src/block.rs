//! What is known of a block of guest code before it runs.

use corun_profile::Operation;

use crate::event::LINE_BYTES;

/// A straight run of guest instructions, as QEMU translates them: entered at its first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Address of the first instruction.
    pub start: u64,
    /// Address behind the last one.
    pub end: u64,
    /// Address of the last one.
    pub last: u64,
    /// Instructions.
    pub instructions: u32,
    /// Loading instructions among them; 0 where the code cannot be decoded.
    pub loads: u32,
    /// Storing instructions among them; 0 where the code cannot be decoded.
    pub stores: u32,
    /// Branches of any kind among them.
    pub branches: u32,
    /// Floating-point and vector operations among them.
    pub floats: u32,
    /// How it ends.
    pub exit: Exit,
    /// Its instructions; empty where the code cannot be decoded.
    pub ops: Box<[StaticOp]>,
}

/// How a block hands over control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Runs on, jumps to the one place it can, or is not known.
    Direct,
    /// A conditional branch.
    Conditional,
    /// A jump through a register or memory.
    Indirect,
    /// A call of a fixed function.
    Call,
    /// A call through a register or memory.
    IndirectCall,
    /// A return.
    Return,
    /// A repeated string instruction: QEMU enters it again for every element.
    Repeat,
}

/// What is known of an instruction before it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StaticOp {
    /// Registers that make the address of its access.
    pub address: Registers,
    /// Other registers read.
    pub read: Registers,
    /// Registers written.
    pub written: Registers,
    /// What it computes.
    pub operation: Operation,
    /// Does it load?
    pub loads: bool,
    /// Does it store?
    pub stores: bool,
    /// Is its address the stack or frame pointer and a constant?
    pub stack: bool,
    /// Has it a vector register for an operand?
    pub vector: bool,
    /// Is it a branch that is one operation with the compare before it?
    pub fused: bool,
    /// Bytes that it touches at one place; 0 where that is not known.
    pub bytes: u8,
    /// Bytes of its code.
    pub length: u8,
}

/// A set of registers, one bit each: what a processor renames, the flags among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Registers(pub u64);

impl Registers {
    /// Registers there may be.
    pub const MOST: usize = 64;

    /// Those of either.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are not in the other.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Their numbers, lowest first.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            (left != 0).then(|| {
                let lowest = left.trailing_zeros() as usize;
                left &= left - 1;
                lowest
            })
        })
    }
}

impl Block {
    /// A block of which only addresses are known, for guests whose code is not decoded.
    pub fn undecoded(start: u64, last: u64, end: u64, instructions: u32) -> Self {
        Self {
            start,
            end,
            last,
            instructions,
            loads: 0,
            stores: 0,
            branches: 0,
            floats: 0,
            exit: Exit::Direct,
            ops: Box::default(),
        }
    }

    /// The lines its code lies on, first and last.
    #[inline]
    pub fn lines(&self) -> (u64, u64) {
        (self.start / LINE_BYTES, self.end.saturating_sub(1).max(self.start) / LINE_BYTES)
    }
}
