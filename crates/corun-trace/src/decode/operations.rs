//! What x86 instructions compute, by their mnemonics.

use std::sync::OnceLock;

use corun_profile::Operation;
use iced_x86::{Code, Instruction, Mnemonic, Register};

/// What an instruction asks of the execution units, apart from loading and storing.
pub(super) fn operation(instruction: &Instruction) -> Operation {
    match instruction.code() {
        Code::Syscall | Code::Sysenter | Code::Int_imm8 => return Operation::SystemCall,
        Code::INVALID => return Operation::Integer,
        _ => {}
    }
    let stores = instruction.op0_kind() == iced_x86::OpKind::Memory;
    let exchanges = instruction.mnemonic() == Mnemonic::Xchg;
    if instruction.has_lock_prefix() || (exchanges && stores) {
        return Operation::Atomic;
    }
    let kind = by_mnemonic(instruction.mnemonic());
    if is_renamed(instruction, kind) { Operation::None } else { refined(instruction, kind) }
}

/// Does renaming registers do it: a copy of a register, or a register that becomes zero?
fn is_renamed(instruction: &Instruction, kind: Kind) -> bool {
    let registers = (0..instruction.op_count()).all(|at| {
        instruction.op_kind(at) == iced_x86::OpKind::Register
            && instruction.op_register(at) != Register::None
    });
    match kind {
        Kind::Copy => {
            let whole = instruction.op0_register().size() >= 4;
            registers && whole && same_file(instruction.op0_register(), instruction.op1_register())
        }
        _ => is_zeroing(instruction),
    }
}

/// Does it set a register to zero, whatever the register held?
pub(super) fn is_zeroing(instruction: &Instruction) -> bool {
    use Mnemonic::{Pxor, Sub, Vpxor, Vpxord, Vpxorq, Vxorpd, Vxorps, Xor, Xorpd, Xorps};
    let count = instruction.op_count();
    if count < 2 {
        return false;
    }
    let (one, other) = (instruction.op_register(count - 1), instruction.op_register(count - 2));
    let same = one != Register::None && one == other;
    same && match instruction.mnemonic() {
        Xor | Sub => one.size() >= 4,
        Pxor | Vpxor | Vpxord | Vpxorq | Vxorpd | Vxorps | Xorpd | Xorps => true,
        _ => false,
    }
}

fn same_file(one: Register, other: Register) -> bool {
    (one.is_gpr() && other.is_gpr())
        || (one.is_vector_register() && other.is_vector_register())
        || (one.is_st() && other.is_st())
}

/// A plain copy that is no renaming: a load or store computes nothing, a part of a register or
/// another register file does.
fn refined(instruction: &Instruction, kind: Kind) -> Operation {
    let memory =
        (0..instruction.op_count()).any(|at| instruction.op_kind(at) == iced_x86::OpKind::Memory);
    let vector =
        (0..instruction.op_count()).any(|at| instruction.op_register(at).is_vector_register());
    let wide = instruction.op0_register().size() == 8 || instruction.memory_size().size() == 8;
    match kind {
        Kind::Copy | Kind::Widen if memory || instruction.op_count() == 0 => Operation::None,
        Kind::Copy => {
            let [to, from] = [instruction.op0_register(), instruction.op1_register()];
            if from != Register::None && !same_file(to, from) {
                Operation::Transfer
            } else {
                Operation::Integer
            }
        }
        Kind::Widen => Operation::Integer,
        Kind::Stack => Operation::None,
        Kind::Divide if wide => Operation::DivideWide,
        Kind::Divide => Operation::Divide,
        // The string instruction has the name of the comparison of doubles.
        Kind::FloatOr if vector => Operation::FloatAdd,
        Kind::FloatOr if memory => Operation::None,
        Kind::FloatOr => Operation::Integer,
        Kind::Plain(operation) => operation,
    }
}

/// What a mnemonic says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain(Operation),
    /// Copies a value as it is.
    Copy,
    /// Copies a value and extends it.
    Widen,
    /// Moves the stack pointer, which the front end keeps, and loads or stores.
    Stack,
    Divide,
    /// A comparison of doubles or a string instruction.
    FloatOr,
}

fn by_mnemonic(mnemonic: Mnemonic) -> Kind {
    static TABLE: OnceLock<Vec<Kind>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        Mnemonic::values().map(|one| of_name(&format!("{one:?}").to_ascii_lowercase())).collect()
    });
    table[mnemonic as usize]
}

/// Mnemonics follow rules that are shorter than a list of them all. `v` begins the AVX form of an SSE
/// instruction; `ps`, `pd`, `ss` and `sd` end floating-point ones; `p` begins those on integer vectors.
fn of_name(name: &str) -> Kind {
    use Operation::{
        FloatDivideDouble, FloatFunction, FloatMultiply, Integer, Multiply, None, Serialise,
        Shuffle, Vector,
    };
    match name {
        "mov" | "movabs" | "movaps" | "movapd" | "movups" | "movupd" | "movdqa" | "movdqu"
        | "lddqu" | "movd" | "movq" | "movnti" | "movntq" | "movntps" | "movntpd" | "movntdq"
        | "movntdqa" | "movbe" | "fld" | "fst" | "fstp" | "fxch" | "movss" => Kind::Copy,
        "movzx" | "movsx" | "movsxd" => Kind::Widen,
        "push" | "pop" | "ret" | "leave" | "pushq" | "popq" => Kind::Stack,
        "cmpsd" | "movsd" => Kind::FloatOr,
        "imul" | "mul" | "mulx" | "crc32" | "pdep" | "pext" => Kind::Plain(Multiply),
        "div" | "idiv" => Kind::Divide,
        "nop" | "endbr64" | "endbr32" | "fnop" | "pause" | "sfence" | "prefetcht0"
        | "prefetcht1" | "prefetcht2" | "prefetchnta" | "prefetchw" | "vzeroupper" | "vzeroall"
        | "emms" | "fwait" | "wait" | "cld" | "jmp" => Kind::Plain(None),
        "mfence" | "lfence" | "cpuid" | "serialize" | "rdtscp" | "xgetbv" => Kind::Plain(Serialise),
        "fsin" | "fcos" | "fsincos" | "fptan" | "fpatan" | "f2xm1" | "fyl2x" | "fyl2xp1"
        | "fprem" | "fprem1" | "fscale" | "fbld" | "fbstp" => Kind::Plain(FloatFunction),
        "fmul" | "fmulp" | "fimul" => Kind::Plain(FloatMultiply),
        "fdiv" | "fdivp" | "fdivr" | "fdivrp" | "fidiv" | "fidivr" | "fsqrt" => {
            Kind::Plain(FloatDivideDouble)
        }
        "bswap" | "bt" | "popcnt" => Kind::Plain(Integer),
        "blendps" | "blendpd" => Kind::Plain(Vector),
        "psrldq" | "pslldq" | "movhlps" | "movlhps" | "movddup" | "movshdup" | "movsldup" => {
            Kind::Plain(Shuffle)
        }
        _ => of_rule(name),
    }
}

fn of_rule(name: &str) -> Kind {
    use Operation::{
        FloatAdd, FloatDivide, FloatDivideDouble, FloatFused, FloatMultiply, Integer, Shuffle,
        Transfer, Vector, VectorMultiply,
    };
    let avx = name.strip_prefix('v').filter(|rest| !rest.is_empty());
    if let Some(rest) = avx
        && !matches!(name, "verr" | "verw")
    {
        let copies = ["movaps", "movapd", "movups", "movupd", "movdqa", "movdqu", "lddqu"];
        if copies.iter().any(|copy| rest.starts_with(copy)) {
            return Kind::Copy;
        }
        return match of_name(rest) {
            Kind::Plain(Integer) => Kind::Plain(Vector),
            kind => kind,
        };
    }
    let starts = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
    let double = name.ends_with('d') && !name.ends_with("wd") && !name.ends_with("qd");
    let float = ["ps", "pd", "ss", "sd", "ph", "sh"].iter().any(|end| name.ends_with(end));
    let operation = if float && starts(&["fmadd", "fmsub", "fnmadd", "fnmsub", "dp"]) {
        FloatFused
    } else if float && starts(&["mul"]) {
        FloatMultiply
    } else if float && starts(&["div", "sqrt"]) {
        if double { FloatDivideDouble } else { FloatDivide }
    } else if starts(&["cvt", "comis", "ucomis"])
        || float
            && starts(&[
                "add", "sub", "min", "max", "cmp", "hadd", "hsub", "round", "rcp", "rsqrt",
                "range", "reduce", "scalef",
            ])
    {
        FloatAdd
    } else if starts(&["movmsk", "pmovmsk", "pextr", "pinsr", "extractps", "insertps", "kmov"]) {
        Transfer
    } else if starts(&[
        "pmul", "pmadd", "psadbw", "mpsadbw", "aes", "sha", "pclmul", "gf2p8", "pdp",
    ]) {
        VectorMultiply
    } else if starts(&[
        "pshuf",
        "punpck",
        "pack",
        "palign",
        "pbroadcast",
        "pmovzx",
        "pmovsx",
        "perm",
        "shuf",
        "unpck",
        "broadcast",
        "align",
    ]) {
        Shuffle
    } else if float || (name.starts_with('p') && !starts(&["pushf", "popf", "ptwrite"])) {
        Vector
    } else if name.starts_with('f') && !starts(&["fence"]) {
        FloatAdd
    } else if starts(&["mov", "blend", "insert", "extract", "gather", "k"]) {
        Vector
    } else {
        Integer
    };
    Kind::Plain(operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mnemonics_by_name_and_rule() {
        use Operation::*;
        let plain = |name: &str| match of_name(name) {
            Kind::Plain(operation) => operation,
            other => panic!("{name}: {other:?}"),
        };
        for (name, operation) in [
            ("add", Integer),
            ("lea", Integer),
            ("imul", Multiply),
            ("addsd", FloatAdd),
            ("vaddps", FloatAdd),
            ("vfmadd231sd", FloatFused),
            ("mulpd", FloatMultiply),
            ("sqrtsd", FloatDivideDouble),
            ("vdivss", FloatDivide),
            ("cvttsd2si", FloatAdd),
            ("paddd", Vector),
            ("vpxor", Vector),
            ("pshufd", Shuffle),
            ("vpunpcklbw", Shuffle),
            ("psrldq", Shuffle),
            ("psrld", Vector),
            ("vpermd", Shuffle),
            ("unpcklpd", Shuffle),
            ("packssdw", Shuffle),
            ("pmuludq", VectorMultiply),
            ("vaesenc", VectorMultiply),
            ("pmovmskb", Transfer),
            ("fsin", FloatFunction),
            ("fadd", FloatAdd),
            ("mfence", Serialise),
            ("vzeroupper", None),
            ("nop", None),
        ] {
            assert_eq!(plain(name), operation, "{name}");
        }
        assert_eq!(of_name("vmovdqu64"), Kind::Copy);
        assert_eq!(of_name("idiv"), Kind::Divide);
    }
}
