//! What is known of a block of guest code before it runs.

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
    /// Register flow, one entry an instruction; empty where the code cannot be decoded.
    pub flow: Box<[Flow]>,
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

/// Registers of one instruction as bit sets: 16 general and 16 vector ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flow {
    /// Registers that make the address of a load.
    pub address: u32,
    /// Registers read.
    pub read: u32,
    /// Registers written.
    pub written: u32,
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
            flow: Box::default(),
        }
    }

    /// The lines its code lies on, first and last.
    #[inline]
    pub fn lines(&self) -> (u64, u64) {
        (self.start / LINE_BYTES, self.end.saturating_sub(1).max(self.start) / LINE_BYTES)
    }
}
