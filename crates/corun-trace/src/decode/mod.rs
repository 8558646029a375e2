//! Guest instructions' bytes to [`Block`]s.

mod a64;
mod operations;
mod x86;

use self::a64::A64;
use self::x86::X86;
use crate::block::{Block, Exit, StaticOp};

/// One guest instruction as QEMU hands it over.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GuestInstruction {
    /// Its address.
    pub(crate) address: u64,
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
}

/// The guest's instruction set, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuestCode {
    /// x86 with registers of this many bits (32 or 64): decoded.
    X86(u32),
    /// AArch64: decoded, but for SVE.
    A64,
    /// Anything else: counted, not decoded.
    Other,
}

impl GuestCode {
    /// From QEMU's name of the target, such as `x86_64`.
    pub(crate) fn of_target(name: &str) -> Self {
        match name {
            "x86_64" => Self::X86(64),
            "i386" => Self::X86(32),
            "aarch64" => Self::A64,
            _ => Self::Other,
        }
    }
}

/// A block and which of its instructions may touch memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// The block.
    pub(crate) block: Block,
    /// Of each instruction.
    pub(crate) touches_memory: Vec<Touch>,
}

/// How an instruction may touch memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    /// It does not.
    No,
    /// It loads at most this many bytes from one place.
    Loads(u8),
    /// It stores at most this many bytes to one place.
    Stores(u8),
    /// In any way.
    Any,
}

/// What is known of one instruction.
struct One {
    op: StaticOp,
    branch: bool,
    float: bool,
    exit: Exit,
    touch: Touch,
}

enum Decoder {
    X86(X86),
    A64(A64),
}

impl Decoder {
    fn decode(&mut self, instruction: &GuestInstruction) -> One {
        match self {
            Self::X86(decoder) => decoder.decode(instruction),
            Self::A64(decoder) => decoder.decode(instruction),
        }
    }
}

/// Describes a block; `None` when it holds no instruction.
pub(crate) fn decode(code: GuestCode, instructions: &[GuestInstruction]) -> Option<Decoded> {
    let (first, last) = (instructions.first()?, instructions.last()?);
    let end = last.address + last.bytes.len() as u64;
    let count = instructions.len() as u32;
    let mut block = Block::undecoded(first.address, last.address, end, count);
    let mut decoder = match code {
        GuestCode::X86(bitness) => Decoder::X86(X86::new(bitness)),
        GuestCode::A64 => Decoder::A64(A64::default()),
        GuestCode::Other => {
            return Some(Decoded { block, touches_memory: vec![Touch::Any; instructions.len()] });
        }
    };
    let mut touches_memory = Vec::with_capacity(instructions.len());
    let mut ops = Vec::with_capacity(instructions.len());
    for instruction in instructions {
        let one = decoder.decode(instruction);
        block.branches += u32::from(one.branch);
        block.floats += u32::from(one.float);
        block.loads += u32::from(one.op.loads);
        block.stores += u32::from(one.op.stores);
        block.exit = one.exit;
        touches_memory.push(one.touch);
        ops.push(StaticOp { length: instruction.bytes.len() as u8, ..one.op });
    }
    block.ops = ops.into_boxed_slice();
    Some(Decoded { block, touches_memory })
}

#[cfg(test)]
mod tests {
    use corun_profile::Operation;

    use super::*;

    fn block(parts: &[&[u8]]) -> Decoded {
        let mut address = 0x1000;
        let mut list = Vec::new();
        for bytes in parts {
            list.push(GuestInstruction { address, bytes: bytes.to_vec() });
            address += bytes.len() as u64;
        }
        decode(GuestCode::X86(64), &list).unwrap()
    }

    #[test]
    fn a_loop_body_with_load_float_and_branch() {
        // mov rax, [rbx+rcx*8]; addsd xmm0, [rax]; add rcx, 1; jne
        let decoded = block(&[
            &[0x48, 0x8b, 0x04, 0xcb],
            &[0xf2, 0x0f, 0x58, 0x00],
            &[0x48, 0x83, 0xc1, 0x01],
            &[0x75, 0xf0],
        ]);
        let block = decoded.block;
        assert_eq!((block.instructions, block.branches, block.floats), (4, 1, 1));
        assert_eq!(block.exit, Exit::Conditional);
        assert_eq!((block.start, block.last, block.end), (0x1000, 0x100c, 0x100e));
        assert_eq!(
            decoded.touches_memory,
            [Touch::Loads(8), Touch::Loads(8), Touch::No, Touch::No]
        );
        // rax is 0, rcx 1, rbx 3; xmm0 is 16.
        let (xmm0, flags) = (1 << 16, 1 << 48);
        let op =
            |at: usize| (block.ops[at].address.0, block.ops[at].read.0, block.ops[at].written.0);
        assert_eq!(op(0), (1 << 3 | 1 << 1, 0, 1));
        assert_eq!(op(1), (1, xmm0, xmm0));
        assert_eq!(op(2), (0, 2, 2 | flags));
        assert_eq!(op(3), (0, flags, 0));
        use Operation::{FloatAdd, Integer, None};
        let operations: Vec<Operation> = block.ops.iter().map(|op| op.operation).collect();
        assert_eq!(operations, [None, FloatAdd, Integer, Integer]);
        assert!(block.ops[3].fused && !block.ops[2].fused);
        assert!(block.ops[1].loads && block.ops[1].bytes == 8);
    }

    #[test]
    fn an_address_is_no_operand_unless_it_stands_as_one() {
        // mov rbx, [rbx]; add [rax], rax; xor eax, eax; mov rax, rbx; div rcx; lock add [rax], ecx
        let decoded = block(&[
            &[0x48, 0x8b, 0x1b],
            &[0x48, 0x01, 0x00],
            &[0x31, 0xc0],
            &[0x48, 0x89, 0xd8],
            &[0x48, 0xf7, 0xf1],
            &[0xf0, 0x01, 0x08],
        ]);
        let ops = &decoded.block.ops;
        assert_eq!((ops[0].address.0, ops[0].read.0, ops[0].written.0), (8, 0, 8));
        assert_eq!((ops[1].address.0, ops[1].read.0), (1, 1));
        assert!(ops[1].loads && ops[1].stores);
        assert_eq!((ops[2].operation, ops[2].read.0), (Operation::None, 0));
        assert_eq!((ops[3].operation, ops[3].read.0), (Operation::None, 8));
        assert_eq!(ops[4].operation, Operation::DivideWide);
        // rdx:rax by rcx.
        assert_eq!(ops[4].read.0, 0b111);
        assert_eq!(ops[5].operation, Operation::Atomic);
    }

    #[test]
    fn exits() {
        assert_eq!(block(&[&[0xc3]]).block.exit, Exit::Return);
        assert_eq!(block(&[&[0xe8, 0, 0, 0, 0]]).block.exit, Exit::Call);
        assert_eq!(block(&[&[0xff, 0xd0]]).block.exit, Exit::IndirectCall);
        assert_eq!(block(&[&[0xff, 0xe0]]).block.exit, Exit::Indirect);
        assert_eq!(block(&[&[0xeb, 0x10]]).block.exit, Exit::Direct);
        // rep movsb repeats; `repz ret` (f3 c3) returns.
        assert_eq!(block(&[&[0xf3, 0xa4]]).block.exit, Exit::Repeat);
        assert_eq!(block(&[&[0xf3, 0xc3]]).block.exit, Exit::Return);
        // A system call is no branch.
        let syscall = block(&[&[0x0f, 0x05]]).block;
        assert_eq!((syscall.exit, syscall.branches), (Exit::Direct, 0));
    }

    #[test]
    fn the_stack_pointer_is_not_followed() {
        // push rbx; ret
        let decoded = block(&[&[0x53], &[0xc3]]);
        assert_eq!(
            {
                let op = decoded.block.ops[0];
                (op.address.0, op.read.0, op.written.0)
            },
            (0, 1 << 3, 0)
        );
        assert_eq!(decoded.touches_memory, [Touch::Stores(8), Touch::Loads(8)]);
        // nop [rax] and lea touch nothing.
        let decoded = block(&[&[0x0f, 0x1f, 0x00], &[0x48, 0x8d, 0x03]]);
        assert_eq!(decoded.touches_memory, [Touch::No, Touch::No]);
    }

    #[test]
    fn other_guests_are_counted_only() {
        let one = GuestInstruction { address: 64, bytes: vec![0, 0, 0, 0] };
        let decoded = decode(GuestCode::of_target("riscv64"), &[one.clone(), one]).unwrap();
        assert_eq!(decoded.block, Block::undecoded(64, 64, 68, 2));
        assert_eq!(decoded.touches_memory, [Touch::Any, Touch::Any]);
        assert_eq!(decode(GuestCode::Other, &[]), None);
    }
}
