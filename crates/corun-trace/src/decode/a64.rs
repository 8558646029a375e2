//! One AArch64 instruction: what it computes, reads, writes and touches, and where it leads.

use std::ops::Range;

use corun_profile::Operation;
use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Instruction, Opcode, Operand, SIMDSizeCode, SizeCode};

use super::{GuestInstruction, One, Touch};
use crate::block::{Exit, Registers, StaticOp};

/// The number of the zero register and of the stack pointer. Neither is followed, the stack pointer as on x86, so
/// that its place is the flags'.
const NOT_FOLLOWED: u16 = 31;
const FLAGS: Registers = Registers(1 << 31);
/// The first vector register's place.
const VECTORS: u16 = 32;
/// The frame pointer by convention, and where a call leaves its return address.
const FRAME: u16 = 29;
const LINK: u16 = 30;

/// Decodes instructions of four bytes.
#[derive(Default)]
pub(super) struct A64 {
    decoder: InstDecoder,
    /// Did the instruction before compute flags in a way that fuses with a branch behind it?
    fuses: bool,
}

impl A64 {
    pub(super) fn decode(&mut self, one: &GuestInstruction) -> One {
        let Ok(instruction) = self.decoder.decode(&mut U8Reader::new(&one.bytes)) else {
            self.fuses = false;
            return unknown();
        };
        let name = instruction.opcode.to_string();
        let code = Code { instruction: &instruction, name: &name, clears: is_clearing(&one.bytes) };
        let exit = code.exit();
        let fused = exit == Exit::Conditional && self.fuses && code.reads_flags();
        self.fuses = code.writes_flags() && !code.is_vector();
        let (loads, stores) = (code.loads(), code.stores());
        let bytes = if loads || stores { code.bytes() } else { 0 };
        let mut op = code.registers();
        op.operation = code.operation();
        (op.loads, op.stores, op.fused, op.bytes) = (loads, stores, fused, bytes);
        (op.vector, op.stack) = (code.is_vector(), code.addresses_stack());
        One {
            op,
            branch: code.is_branch(),
            float: code.is_vector(),
            exit,
            touch: code.touch(bytes),
        }
    }
}

/// Is it `dc zva`, which sets a block of memory to zero?
fn is_clearing(bytes: &[u8]) -> bool {
    bytes.try_into().is_ok_and(|word| u32::from_le_bytes(word) & !0x1f == 0xd50b_7420)
}

/// Bytes that `dc zva` sets to zero on today's cores, and in QEMU.
const CLEARED_BYTES: u8 = 64;

/// An instruction that the decoder does not know, of SVE for example.
fn unknown() -> One {
    let op = StaticOp { operation: Operation::Integer, ..StaticOp::default() };
    One { op, branch: false, float: false, exit: Exit::Direct, touch: Touch::Any }
}

struct Code<'i> {
    instruction: &'i Instruction,
    /// The mnemonic, without the operands' arrangement.
    name: &'i str,
    clears: bool,
}

impl Code<'_> {
    fn starts(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.name.starts_with(word))
    }

    fn is_vector(&self) -> bool {
        self.instruction.operands.iter().any(|operand| vectors(operand) != Registers::default())
    }

    fn exit(&self) -> Exit {
        match self.instruction.opcode {
            Opcode::Bcc(_) | Opcode::BCcc(_) => Exit::Conditional,
            Opcode::CBZ | Opcode::CBNZ | Opcode::TBZ | Opcode::TBNZ => Exit::Conditional,
            Opcode::BL => Exit::Call,
            _ if self.name.starts_with("blr") => Exit::IndirectCall,
            _ if self.name.starts_with("br") && self.name != "brk" => Exit::Indirect,
            _ if self.name.starts_with("ret") => Exit::Return,
            _ => Exit::Direct,
        }
    }

    fn is_branch(&self) -> bool {
        self.exit() != Exit::Direct || self.instruction.opcode == Opcode::B
    }

    fn is_atomic(&self) -> bool {
        self.swaps() || self.exchanges() || self.stores_exclusively()
    }

    /// Does it give the first operand to memory and take what was there into the second?
    fn exchanges(&self) -> bool {
        let arithmetic =
            ["ldadd", "ldclr", "ldeor", "ldset", "ldsmax", "ldsmin", "ldumax", "ldumin"];
        self.starts(&["swp"]) || self.starts(&arithmetic)
    }

    /// Does it compare memory with the first operand, give it the second if they are equal, and take what was there
    /// into the first?
    fn swaps(&self) -> bool {
        self.starts(&["cas"])
    }

    /// Does it store if nobody else has since the load before, and say so in the first operand? The pair counts as
    /// one atomic operation.
    fn stores_exclusively(&self) -> bool {
        self.starts(&["stxr", "stlxr", "stxp", "stlxp"])
    }

    fn is_of_tags(&self) -> bool {
        self.starts(&["ldg", "stg", "stz", "st2g"])
    }

    fn loads(&self) -> bool {
        self.starts(&["ld", "swp", "cas"]) && !self.is_of_tags()
    }

    fn stores(&self) -> bool {
        self.clears
            || (self.starts(&["st"]) && !self.is_of_tags())
            || self.swaps()
            || self.exchanges()
    }

    /// Those of the operands that what is in memory comes from or goes to.
    fn in_memory(&self) -> &[Operand] {
        let operands = &self.instruction.operands;
        if self.exchanges() {
            &operands[1..2]
        } else if self.swaps() {
            &operands[..1]
        } else if self.stores_exclusively() {
            &operands[1..]
        } else {
            operands
        }
    }

    /// The bytes that are touched from the lowest address on.
    fn bytes(&self) -> u8 {
        if self.clears {
            return CLEARED_BYTES;
        }
        match self.name {
            "ldrsw" | "ldursw" | "ldtrsw" | "ldapursw" => 4,
            "ldpsw" | "ldraa" | "ldrab" => 8,
            name if name.ends_with('b') => 1,
            name if name.ends_with('h') => 2,
            _ => self.in_memory().iter().map(width).sum(),
        }
    }

    /// QEMU takes pairs and wide registers for one access or for two, by its version: only what fits a general
    /// register is always one.
    fn touch(&self, bytes: u8) -> Touch {
        let pair = self.starts(&["ldp", "stp", "ldnp", "stnp", "ldxp", "ldaxp"]);
        let plain = (1..=8).contains(&bytes) && !pair && !self.is_atomic();
        match (self.loads(), self.stores()) {
            (true, false) if plain => Touch::Loads(bytes),
            (false, true) if plain => Touch::Stores(bytes),
            (false, false) if !self.is_of_tags() && !self.starts(&["sys"]) => Touch::No,
            _ => Touch::Any,
        }
    }

    /// Is its address the stack or frame pointer and a constant?
    fn addresses_stack(&self) -> bool {
        self.instruction.operands.iter().any(|operand| match operand {
            Operand::RegPreIndex(base, ..) | Operand::RegPostIndex(base, _) => {
                [NOT_FOLLOWED, FRAME].contains(base)
            }
            _ => false,
        })
    }

    fn reads_flags(&self) -> bool {
        matches!(self.instruction.opcode, Opcode::Bcc(_) | Opcode::BCcc(_))
            || self
                .starts(&["adc", "sbc", "csel", "csinc", "csinv", "csneg", "ccm", "fcsel", "fccmp"])
    }

    fn writes_flags(&self) -> bool {
        matches!(
            self.name,
            "adds" | "subs" | "ands" | "bics" | "adcs" | "sbcs" | "subps" | "fcmp" | "fcmpe"
        ) || self.starts(&["ccm", "fccmp", "setf", "rmif"])
    }

    /// Which of the operands it writes.
    fn written(&self) -> Range<usize> {
        let none = self.is_branch()
            || matches!(self.name, "fcmp" | "fcmpe")
            || self.starts(&["ccm", "fccmp", "setf", "rmif", "prf", "msr", "sys", "svc", "hint"]);
        if none {
            0..0
        } else if self.exchanges() {
            1..2
        } else if self.swaps() || self.stores_exclusively() {
            0..1
        } else if self.loads() {
            0..self.instruction.operands.len()
        } else if self.stores() {
            0..0
        } else {
            0..1
        }
    }

    /// A round of a cipher or of a hash; `shadd` and `shll` are none.
    fn is_cryptographic(&self) -> bool {
        self.starts(&["aes", "sha1", "sha256", "sha512", "sm3", "sm4e"])
    }

    /// Is what it writes changed, and not only replaced?
    fn changes_destination(&self) -> bool {
        let name = self.name;
        let accumulates = self.is_vector()
            && ([
                "mla", "mls", "mlal", "mlsl", "mlah", "mlsh", "dot", "aba", "abal", "adalp", "sra",
            ]
            .iter()
            .any(|end| name.trim_end_matches('2').ends_with(end))
                || self.starts(&[
                    "bsl", "bit", "bif", "sli", "sri", "ins", "tbx", "fcmla", "suqadd", "usqadd",
                ])
                || self.is_cryptographic());
        let upper_half = name.ends_with('2')
            && (name.contains("xtn")
                || name.contains("hn2")
                || name.contains("shr")
                || name.starts_with("fcvtn"));
        let lane = matches!(
            self.instruction.operands[0],
            Operand::SIMDRegisterElementsLane(..) | Operand::SIMDRegisterGroupLane(..)
        );
        let immediate = self.is_vector()
            && matches!(name, "orr" | "bic")
            && registers(&self.instruction.operands[1]) == Registers::default();
        accumulates || upper_half || lane || immediate || matches!(name, "movk" | "bfm")
    }

    /// Which registers it reads and writes.
    fn registers(&self) -> StaticOp {
        let mut op = StaticOp::default();
        let written = self.written();
        let keeps = self.swaps() || self.changes_destination();
        for (at, operand) in self.instruction.operands.iter().enumerate() {
            op.address = op.address.and(address(operand));
            let registers = registers(operand);
            if self.clears {
                op.address = op.address.and(registers);
                continue;
            }
            if written.contains(&at) {
                op.written = op.written.and(registers);
            }
            if !written.contains(&at) || keeps {
                op.read = op.read.and(registers);
            }
        }
        if self.is_zeroing() {
            op.read = Registers::default();
        }
        if matches!(self.exit(), Exit::Call | Exit::IndirectCall) {
            op.written = op.written.and(general(LINK));
        }
        if self.reads_flags() {
            op.read = op.read.and(FLAGS);
        }
        if self.writes_flags() {
            op.written = op.written.and(FLAGS);
        }
        op
    }

    /// Does it set a vector register to zero, whatever that held?
    fn is_zeroing(&self) -> bool {
        matches!(self.instruction.opcode, Opcode::EOR | Opcode::SUB)
            && self.is_vector()
            && self.instruction.operands[1] == self.instruction.operands[2]
    }

    /// Does renaming registers do it: a copy of a register, or one that becomes zero?
    fn is_renamed(&self) -> bool {
        let [to, from, other, _] = self.instruction.operands;
        let zero = |one: Operand| matches!(one, Operand::Register(_, NOT_FOLLOWED));
        let plain =
            |one: Operand| matches!(one, Operand::Register(..) | Operand::RegShift(_, 0, _, _));
        match self.instruction.opcode {
            Opcode::ORR if self.is_vector() => from == other,
            Opcode::ORR => zero(from) && plain(other),
            Opcode::FMOV => is_whole(&to) && is_whole(&from),
            Opcode::MOVZ | Opcode::MOVI => {
                matches!(from, Operand::ImmShift(0, _) | Operand::Imm64(0))
            }
            _ => self.is_zeroing(),
        }
    }

    fn operation(&self) -> Operation {
        match self.instruction.opcode {
            Opcode::SVC => return Operation::SystemCall,
            Opcode::ISB | Opcode::DSB(_) | Opcode::SB => return Operation::Serialise,
            // Those of loads or of stores alone have the other kind go on.
            Opcode::DMB(of) if of & 0b11 == 0b11 => return Operation::Serialise,
            Opcode::DMB(_) | Opcode::HINT | Opcode::B | Opcode::BL | Opcode::CLREX => {
                return Operation::None;
            }
            _ => {}
        }
        if self.is_atomic() {
            Operation::Atomic
        } else if self.loads() || self.stores() || self.is_renamed() || self.starts(&["prf", "ret"])
        {
            Operation::None
        } else if self.is_vector() {
            self.vector_operation()
        } else {
            self.general_operation()
        }
    }

    fn general_operation(&self) -> Operation {
        let wide = matches!(self.instruction.operands[0], Operand::Register(SizeCode::X, _));
        if self
            .starts(&["madd", "msub", "smadd", "smsub", "smul", "umadd", "umsub", "umul", "crc32"])
        {
            Operation::Multiply
        } else if self.starts(&["udiv", "sdiv"]) {
            if wide { Operation::DivideWide } else { Operation::Divide }
        } else {
            Operation::Integer
        }
    }

    fn vector_operation(&self) -> Operation {
        let name = self.name;
        let crosses =
            self.instruction.operands.iter().any(|one| matches!(one, Operand::Register(..)));
        if self.starts(&["ins", "dup"]) {
            return if crosses { Operation::Transfer } else { Operation::Shuffle };
        }
        if self.starts(&["fmov", "umov", "smov"]) {
            return if crosses { Operation::Transfer } else { Operation::Vector };
        }
        if self.starts(&["ext", "zip", "uzp", "trn", "tbl", "tbx"]) {
            return Operation::Shuffle;
        }
        if self.starts(&["fdiv", "fsqrt"]) {
            return if self.is_double() {
                Operation::FloatDivideDouble
            } else {
                Operation::FloatDivide
            };
        }
        if self.starts(&[
            "fmadd", "fmsub", "fnmadd", "fnmsub", "fmla", "fmls", "fcmla", "frecps", "frsqrts",
        ]) {
            return Operation::FloatFused;
        }
        if self.starts(&["fmul", "fnmul"]) {
            return Operation::FloatMultiply;
        }
        if self.starts(&["fabs", "fneg", "fcsel"]) {
            return Operation::Vector;
        }
        if name.starts_with('f') || self.starts(&["scvtf", "ucvtf", "bfcvt"]) {
            return Operation::FloatAdd;
        }
        let multiplies = ["mul", "mla", "mls", "dot"].iter().any(|part| name.contains(part));
        if multiplies || self.is_cryptographic() || self.starts(&["sqdm", "sqrdm"]) {
            Operation::VectorMultiply
        } else {
            Operation::Vector
        }
    }

    fn is_double(&self) -> bool {
        matches!(
            self.instruction.operands[0],
            Operand::SIMDRegister(SIMDSizeCode::D, _)
                | Operand::SIMDRegisterElements(_, _, SIMDSizeCode::D)
        )
    }
}

fn general(register: u16) -> Registers {
    Registers(if register < NOT_FOLLOWED { 1 << register } else { 0 })
}

/// So many vector registers from one on, behind the last of which the first follows.
fn several(first: u16, count: u8) -> Registers {
    Registers((0..u16::from(count)).fold(0, |all, at| all | 1 << (VECTORS + (first + at) % 32)))
}

/// The vector registers of an operand.
fn vectors(operand: &Operand) -> Registers {
    match *operand {
        Operand::SIMDRegister(_, register)
        | Operand::SIMDRegisterElements(_, register, _)
        | Operand::SIMDRegisterElementsLane(_, register, ..)
        | Operand::SIMDRegisterElementsMultipleLane(_, register, ..) => several(register, 1),
        Operand::SIMDRegisterGroup(_, first, _, count)
        | Operand::SIMDRegisterGroupLane(first, _, count, _) => several(first, count),
        _ => Registers::default(),
    }
}

/// The registers that an operand stands for, but for those that make an address.
fn registers(operand: &Operand) -> Registers {
    match *operand {
        Operand::Register(_, register)
        | Operand::RegisterOrSP(_, register)
        | Operand::RegShift(_, _, _, register) => general(register),
        Operand::RegisterPair(_, first) => general(first).and(general(first + 1)),
        _ => vectors(operand),
    }
}

/// The registers that make an address. What is written back to one is left out: the next address is there in a
/// cycle, not when the data is.
fn address(operand: &Operand) -> Registers {
    match *operand {
        Operand::RegRegOffset(base, offset, ..) | Operand::RegPostIndexReg(base, offset) => {
            general(base).and(general(offset))
        }
        Operand::RegPreIndex(base, ..) | Operand::RegPostIndex(base, _) => general(base),
        _ => Registers::default(),
    }
}

/// Is it a vector register, and not a lane of one?
fn is_whole(operand: &Operand) -> bool {
    matches!(operand, Operand::SIMDRegister(..) | Operand::SIMDRegisterElements(..))
}

/// Bytes of the registers that an operand stands for.
fn width(operand: &Operand) -> u8 {
    let of = |size| match size {
        SIMDSizeCode::B => 1,
        SIMDSizeCode::H => 2,
        SIMDSizeCode::S => 4,
        SIMDSizeCode::D => 8,
        SIMDSizeCode::Q => 16,
    };
    let of_general = |size| if size == SizeCode::X { 8 } else { 4 };
    match *operand {
        Operand::Register(size, _) => of_general(size),
        Operand::RegisterPair(size, _) => 2 * of_general(size),
        Operand::SIMDRegister(size, _) | Operand::SIMDRegisterElements(size, ..) => of(size),
        Operand::SIMDRegisterGroup(size, _, _, count) => of(size) * count,
        Operand::SIMDRegisterGroupLane(_, element, count, _) => of(element) * count,
        _ => 0,
    }
}

#[cfg(test)]
#[path = "a64_tests.rs"]
mod tests;
