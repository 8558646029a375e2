//! One x86 instruction: what it computes, reads, writes and touches, and where it leads.

use iced_x86::{
    Code, CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfo,
    InstructionInfoFactory, Mnemonic, OpAccess, Register,
};

use super::operations::{is_zeroing, operation};
use super::{GuestInstruction, One, Touch};
use crate::block::{Exit, Registers, StaticOp};

/// The flags' place among the registers.
const FLAGS: u32 = 48;
/// The first mask register's.
const MASKS: u32 = 49;
/// The x87 and MMX registers': one for all, since x87 code chains them anyway.
const X87: u32 = 57;

/// Decodes instructions of a word width.
pub(super) struct X86 {
    bitness: u32,
    factory: InstructionInfoFactory,
    /// Did the instruction before compute flags in a way that fuses with a branch behind it?
    fuses: bool,
}

impl X86 {
    pub(super) fn new(bitness: u32) -> Self {
        Self { bitness, factory: InstructionInfoFactory::new(), fuses: false }
    }

    pub(super) fn decode(&mut self, one: &GuestInstruction) -> One {
        let instruction =
            Decoder::with_ip(self.bitness, &one.bytes, one.address, DecoderOptions::NONE).decode();
        let info = self.factory.info(&instruction);
        let (loads, stores, touch, bytes) = memory(info);
        let conditional = instruction.flow_control() == FlowControl::ConditionalBranch;
        let fused = conditional && self.fuses && instruction.is_jcc_short_or_near();
        self.fuses = fuses(&instruction);
        let mut op = registers(&instruction, info);
        op.operation = operation(&instruction);
        (op.loads, op.stores, op.fused, op.bytes) = (loads, stores, fused, bytes);
        op.vector =
            (0..instruction.op_count()).any(|at| instruction.op_register(at).is_vector_register());
        op.stack = info.used_memory().iter().all(|one| {
            let base = one.base().full_register();
            matches!(base, Register::RSP | Register::RBP) && one.index() == Register::None
        });
        let unknown = instruction.code() == Code::INVALID;
        One {
            op,
            branch: is_branch(&instruction),
            float: is_float(&instruction),
            exit: exit(&instruction),
            touch: if unknown { Touch::Any } else { touch },
        }
    }
}

/// Compares and simple arithmetic become one operation with a conditional branch behind them (Intel 64
/// and IA-32 Optimization Reference Manual, macro-fusion; AMD's guides for Zen 3 and later).
fn fuses(instruction: &Instruction) -> bool {
    use Mnemonic::{Add, And, Cmp, Dec, Inc, Sub, Test};
    matches!(instruction.mnemonic(), Cmp | Test | Add | Sub | And | Inc | Dec)
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

/// Which registers it reads and writes.
fn registers(instruction: &Instruction, info: &InstructionInfo) -> StaticOp {
    use Mnemonic::{Vzeroall, Vzeroupper};
    let mut op = StaticOp::default();
    if matches!(instruction.mnemonic(), Vzeroupper | Vzeroall) {
        return op;
    }
    for used in info.used_memory() {
        op.address = op.address.and(bit(used.base())).and(bit(used.index()));
    }
    for used in info.used_registers() {
        let register = bit(used.register());
        if reads(used.access()) {
            op.read = op.read.and(register);
        }
        if writes(used.access()) {
            op.written = op.written.and(register);
            // What writes a part of a general register keeps the rest.
            if used.register().is_gpr() && used.register().size() < 4 {
                op.read = op.read.and(register);
            }
        }
    }
    // A register that makes the address is an operand too only where it stands as one.
    let operands = (0..instruction.op_count())
        .filter(|&at| reads(info.op_access(at)))
        .fold(Registers::default(), |all, at| all.and(bit(instruction.op_register(at))));
    op.read = op.read.without(op.address.without(operands));
    if instruction.rflags_read() != 0 {
        op.read = op.read.and(Registers(1 << FLAGS));
    }
    if instruction.rflags_modified() != 0 {
        op.written = op.written.and(Registers(1 << FLAGS));
    }
    if is_zeroing(instruction) {
        op.read = Registers::default();
    }
    // The stack pointer moves by constants, which the front end keeps track of: following it would
    // chain all pushes and pops.
    let stack = bit(Register::RSP);
    op.read = op.read.without(stack);
    op.address = op.address.without(stack);
    op.written = op.written.without(stack);
    op
}

/// Does an instruction load, does it store, what is known of the one place it touches, and how many
/// bytes?
fn memory(info: &InstructionInfo) -> (bool, bool, Touch, u8) {
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
    (loads, stores, touch, bytes.min(usize::from(u8::MAX)) as u8)
}

fn bit(register: Register) -> Registers {
    let full = register.full_register();
    let place = if full.is_gpr() {
        Some(full.number() as u32)
    } else if full.is_vector_register() {
        Some(16 + full.number() as u32)
    } else if full.is_k() {
        Some(MASKS + full.number() as u32)
    } else if full.is_st() || full.is_mm() {
        Some(X87)
    } else {
        None
    };
    Registers(place.map_or(0, |place| 1 << place))
}

fn reads(access: OpAccess) -> bool {
    use OpAccess::{CondRead, CondWrite, Read, ReadCondWrite, ReadWrite};
    // What may not be written keeps its value.
    matches!(access, Read | CondRead | CondWrite | ReadWrite | ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}
