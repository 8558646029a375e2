//! x86 instruction bytes to [`Block`]s.

use iced_x86::{
    Code, CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfo,
    InstructionInfoFactory, OpAccess, Register,
};

use crate::block::{Block, Exit, Flow};

/// One guest instruction as QEMU hands it over.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GuestInstruction {
    /// Its address.
    pub address: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The guest's instruction set, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestCode {
    /// x86 with registers of this many bits (32 or 64): decoded.
    X86(u32),
    /// Anything else: counted, not decoded.
    Other,
}

impl GuestCode {
    /// From QEMU's name of the target, such as `x86_64`.
    pub fn of_target(name: &str) -> Self {
        match name {
            "x86_64" => Self::X86(64),
            "i386" => Self::X86(32),
            _ => Self::Other,
        }
    }
}

/// A block and which of its instructions may touch memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// The block.
    pub block: Block,
    /// Of each instruction.
    pub touches_memory: Vec<Touch>,
}

/// How an instruction may touch memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// It does not.
    No,
    /// It loads at most this many bytes from one place.
    Loads(u8),
    /// It stores at most this many bytes to one place.
    Stores(u8),
    /// In any way.
    Any,
}

/// Describes a block; `None` when it holds no instruction.
pub fn decode(code: GuestCode, instructions: &[GuestInstruction]) -> Option<Decoded> {
    let (first, last) = (instructions.first()?, instructions.last()?);
    let end = last.address + last.bytes.len() as u64;
    let count = instructions.len() as u32;
    let mut block = Block::undecoded(first.address, last.address, end, count);
    let GuestCode::X86(bitness) = code else {
        return Some(Decoded { block, touches_memory: vec![Touch::Any; instructions.len()] });
    };
    let mut factory = InstructionInfoFactory::new();
    let mut touches_memory = Vec::with_capacity(instructions.len());
    let mut flow = Vec::with_capacity(instructions.len());
    for one in instructions {
        let ip = one.address;
        let instruction = Decoder::with_ip(bitness, &one.bytes, ip, DecoderOptions::NONE).decode();
        block.branches += u32::from(is_branch(&instruction));
        block.floats += u32::from(is_float(&instruction));
        block.exit = exit(&instruction);
        let info = factory.info(&instruction);
        flow.push(registers(info));
        let (loads, stores, touch) = memory(info);
        block.loads += u32::from(loads);
        block.stores += u32::from(stores);
        let unknown = instruction.code() == Code::INVALID;
        touches_memory.push(if unknown { Touch::Any } else { touch });
    }
    block.flow = flow.into_boxed_slice();
    Some(Decoded { block, touches_memory })
}

fn is_branch(instruction: &Instruction) -> bool {
    use FlowControl::{Call, ConditionalBranch, IndirectBranch, IndirectCall, Return};
    let control = instruction.flow_control();
    // iced calls `syscall` a call.
    let system = matches!(instruction.code(), Code::Syscall | Code::Sysenter);
    !system
        && matches!(
            control,
            FlowControl::UnconditionalBranch
                | ConditionalBranch
                | IndirectBranch
                | Call
                | IndirectCall
                | Return
        )
}

fn is_float(instruction: &Instruction) -> bool {
    let vector = (0..instruction.op_count()).any(|operand| {
        let register = instruction.op_register(operand);
        register.is_vector_register() || register.is_mm() || register.is_k()
    });
    let x87 = |feature: &CpuidFeature| {
        matches!(feature, CpuidFeature::FPU | CpuidFeature::FPU287 | CpuidFeature::FPU387)
    };
    vector || instruction.cpuid_features().iter().any(x87)
}

fn exit(instruction: &Instruction) -> Exit {
    let prefixed = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    if prefixed && instruction.is_string_instruction() {
        return Exit::Repeat;
    }
    if !is_branch(instruction) {
        return Exit::Direct;
    }
    match instruction.flow_control() {
        FlowControl::ConditionalBranch => Exit::Conditional,
        FlowControl::IndirectBranch => Exit::Indirect,
        FlowControl::Call => Exit::Call,
        FlowControl::IndirectCall => Exit::IndirectCall,
        FlowControl::Return => Exit::Return,
        _ => Exit::Direct,
    }
}

fn registers(info: &InstructionInfo) -> Flow {
    let mut flow = Flow::default();
    for used in info.used_registers() {
        let bit = register_bit(used.register());
        if reads(used.access()) {
            flow.read |= bit;
        }
        if writes(used.access()) {
            flow.written |= bit;
        }
    }
    for used in info.used_memory() {
        if reads(used.access()) {
            flow.address |= register_bit(used.base()) | register_bit(used.index());
        }
    }
    // The stack pointer moves by constants: following it would chain all pushes and pops.
    let stack = register_bit(Register::RSP);
    flow.read &= !stack;
    flow.address &= !stack;
    flow.written &= !stack;
    flow
}

/// Does an instruction load, does it store, and what is known of the one place it touches?
fn memory(info: &InstructionInfo) -> (bool, bool, Touch) {
    let used = info.used_memory();
    let loads = used.iter().any(|one| reads(one.access()));
    let stores = used.iter().any(|one| writes(one.access()));
    let bytes = used.first().map_or(0, |one| one.memory_size().size());
    // QEMU splits what is wider than 16 bytes, and several places are several accesses.
    let plain = used.len() == 1 && (1..=16).contains(&bytes);
    let touch = match (loads, stores) {
        (true, false) if plain => Touch::Loads(bytes as u8),
        (false, true) if plain => Touch::Stores(bytes as u8),
        (false, false) if used.iter().all(|one| one.access() == OpAccess::NoMemAccess) => Touch::No,
        _ => Touch::Any,
    };
    (loads, stores, touch)
}

fn register_bit(register: Register) -> u32 {
    let full = register.full_register();
    if full.is_gpr() {
        1 << full.number()
    } else if full.is_vector_register() && full.number() < 16 {
        1 << (16 + full.number())
    } else {
        0
    }
}

fn reads(access: OpAccess) -> bool {
    use OpAccess::{CondRead, Read, ReadCondWrite, ReadWrite};
    matches!(access, Read | CondRead | ReadWrite | ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}

#[cfg(test)]
mod tests {
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
        assert_eq!(block.flow[0].address, 1 << 3 | 1 << 1);
        assert_eq!(block.flow[0].written, 1);
        assert_eq!(block.flow[1].address, 1);
        assert_eq!(block.flow[1].written, 1 << 16);
        assert!(block.flow[1].read & 1 << 16 != 0);
        assert_eq!((block.flow[2].read, block.flow[2].written), (2, 2));
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
        assert_eq!(decoded.block.flow[0], Flow { address: 0, read: 1 << 3, written: 0 });
        assert_eq!(decoded.touches_memory, [Touch::Stores(8), Touch::Loads(8)]);
        // nop [rax] and lea touch nothing.
        let decoded = block(&[&[0x0f, 0x1f, 0x00], &[0x48, 0x8d, 0x03]]);
        assert_eq!(decoded.touches_memory, [Touch::No, Touch::No]);
    }

    #[test]
    fn other_guests_are_counted_only() {
        let one = GuestInstruction { address: 64, bytes: vec![0, 0, 0, 0] };
        let decoded = decode(GuestCode::of_target("aarch64"), &[one.clone(), one]).unwrap();
        assert_eq!(decoded.block, Block::undecoded(64, 64, 68, 2));
        assert_eq!(decoded.touches_memory, [Touch::Any, Touch::Any]);
        assert_eq!(decode(GuestCode::Other, &[]), None);
    }
}
