use corun_profile::Operation::{self, *};
use proptest::prelude::*;

use super::super::{Decoded, GuestCode, GuestInstruction, Touch, decode};
use crate::block::{Exit, StaticOp};

fn block(words: &[u32]) -> Decoded {
    let instruction = |(at, word): (usize, &u32)| GuestInstruction {
        address: 0x1000 + 4 * at as u64,
        bytes: word.to_le_bytes().to_vec(),
    };
    let list: Vec<GuestInstruction> = words.iter().enumerate().map(instruction).collect();
    decode(GuestCode::of_target("aarch64"), &list).unwrap()
}

fn one(word: u32) -> StaticOp {
    block(&[word]).block.ops[0]
}

fn x(register: u32) -> u64 {
    1 << register
}

fn v(register: u32) -> u64 {
    1 << (32 + register)
}

const FLAGS: u64 = 1 << 31;

#[test]
fn a_loop_body_with_load_float_compare_and_branch() {
    // ldr x0, [x1, x2, lsl #3]; fadd d0, d0, d1; subs x3, x3, #1; b.ne
    let decoded = block(&[0xf862_7820, 0x1e61_2800, 0xf100_0463, 0x54ff_ffa1]);
    let block = decoded.block;
    assert_eq!((block.instructions, block.branches, block.floats), (4, 1, 1));
    assert_eq!((block.start, block.last, block.end), (0x1000, 0x100c, 0x1010));
    assert_eq!((block.loads, block.stores, block.exit), (1, 0, Exit::Conditional));
    assert_eq!(decoded.touches_memory, [Touch::Loads(8), Touch::No, Touch::No, Touch::No]);
    let sets = |at: usize| (block.ops[at].address.0, block.ops[at].read.0, block.ops[at].written.0);
    assert_eq!(sets(0), (x(1) | x(2), 0, x(0)));
    assert_eq!(sets(1), (0, v(0) | v(1), v(0)));
    assert_eq!(sets(2), (0, x(3), x(3) | FLAGS));
    assert_eq!(sets(3), (0, FLAGS, 0));
    let operations: Vec<Operation> = block.ops.iter().map(|op| op.operation).collect();
    assert_eq!(operations, [None, FloatAdd, Integer, Integer]);
    assert!(block.ops[3].fused && !block.ops[2].fused);
    assert!(block.ops[1].vector && !block.ops[2].vector);
    assert_eq!((block.ops[0].bytes, block.ops[0].length), (8, 4));
}

/// A word, its registers for addresses, those read and written, and the bytes it loads and stores.
type Access = (u32, u64, u64, u64, (u8, u8));

#[test]
fn accesses() {
    let cases: &[(&str, Access)] = &[
        ("ldrb w1, [x2], #1", (0x3840_1441, x(2), 0, x(1), (1, 0))),
        ("ldrsh w1, [x2]", (0x79c0_0041, x(2), 0, x(1), (2, 0))),
        ("ldrsw x1, [x2]", (0xb980_0041, x(2), 0, x(1), (4, 0))),
        ("ldr b1, [x2]", (0x3d40_0041, x(2), 0, v(1), (1, 0))),
        ("ldr x1, a literal", (0x5800_0a21, 0, 0, x(1), (8, 0))),
        ("ldp x1, x2, [sp, #16]", (0xa941_0be1, 0, 0, x(1) | x(2), (16, 0))),
        ("ldp q1, q2, [x0], #32", (0xacc1_0801, x(0), 0, v(1) | v(2), (32, 0))),
        ("stp x29, x30, [sp, #-32]!", (0xa9be_7bfd, 0, x(29) | x(30), 0, (0, 16))),
        ("strb w1, [x2]", (0x3900_0041, x(2), x(1), 0, (0, 1))),
        ("ld1 {v0.16b, v1.16b}, [x0]", (0x4cdf_a000, x(0), 0, v(0) | v(1), (32, 0))),
        ("ld1 {v0.s}[1], [x0]", (0x0d40_9000, x(0), v(0), v(0), (4, 0))),
        ("st1 {v0.8b-v3.8b}, [x0], x1", (0x0c81_2000, x(0) | x(1), 0xf << 32, 0, (0, 32))),
        ("ldadd x1, x2, [x3]", (0xf821_0062, x(3), x(1), x(2), (8, 8))),
        ("swpal w1, w2, [x3]", (0xb8e1_8062, x(3), x(1), x(2), (4, 4))),
        ("ldaddalb w1, w2, [x3]", (0x38e1_0062, x(3), x(1), x(2), (1, 1))),
        ("cas x1, x2, [x3]", (0xc8a1_7c62, x(3), x(1) | x(2), x(1), (8, 8))),
        ("casp x0, x1, x2, x3, [x4]", (0x4820_7c82, x(4), 0b1111, 0b11, (16, 16))),
        ("ldxr x1, [x2]", (0xc85f_7c41, x(2), 0, x(1), (8, 0))),
        ("stxr w1, x2, [x3]", (0xc801_7c62, x(3), x(2), x(1), (0, 8))),
        ("stxp w1, x2, x4, [x3]", (0xc821_1062, x(3), x(2) | x(4), x(1), (0, 16))),
        ("dc zva, x3", (0xd50b_7423, x(3), 0, 0, (0, 64))),
    ];
    for (text, (word, address, read, written, (loads, stores))) in cases {
        let op = one(*word);
        assert_eq!((op.address.0, op.read.0, op.written.0), (*address, *read, *written), "{text}");
        assert_eq!((op.loads, op.stores), (*loads > 0, *stores > 0), "{text}");
        assert_eq!(op.bytes, *loads.max(stores), "{text}");
    }
    let touches = |word: u32| block(&[word]).touches_memory[0];
    assert_eq!(touches(0x7900_0041), Touch::Stores(2), "strh w1, [x2]");
    assert_eq!(touches(0xa941_0be1), Touch::Any, "ldp: one access or two");
    assert_eq!(touches(0xf980_0000), Touch::No, "prfm [x0]");
    assert_eq!(touches(0x0420_0000), Touch::Any, "an instruction of SVE");
}

#[test]
fn the_stack_is_addressed_by_its_pointer_or_the_frame_pointer() {
    // ldp x1, x2, [sp, #16]; ldr x0, [x29, #8]; ldr x0, [x1, #8]
    assert!(one(0xa941_0be1).stack && one(0xf940_07a0).stack && !one(0xf940_0420).stack);
}

#[test]
fn what_is_computed() {
    let cases: &[(&str, u32, u64, u64, Operation)] = &[
        ("mov x1, x2", 0xaa02_03e1, x(2), x(1), None),
        ("mov x1, #0", 0xd280_0001, 0, x(1), None),
        ("mov x1, #5", 0xd280_00a1, 0, x(1), Integer),
        ("movk x0, #3, lsl #16", 0xf2a0_0060, x(0), x(0), Integer),
        ("bfi x0, x1, #3, #4", 0xb37d_0c20, x(0) | x(1), x(0), Integer),
        ("cmp w1, #3", 0x7100_0c3f, x(1), FLAGS, Integer),
        ("csel x0, x1, x2, eq", 0x9a82_0020, x(1) | x(2) | FLAGS, x(0), Integer),
        ("ccmp x0, #3, #0, ne", 0xfa43_1800, x(0) | FLAGS, FLAGS, Integer),
        ("madd x0, x1, x2, x3", 0x9b02_0c20, x(1) | x(2) | x(3), x(0), Multiply),
        ("udiv w0, w1, w2", 0x1ac2_0820, x(1) | x(2), x(0), Divide),
        ("sdiv x0, x1, x2", 0x9ac2_0c20, x(1) | x(2), x(0), DivideWide),
        ("movi v0.4s, #0", 0x4f00_0400, 0, v(0), None),
        ("mov v1.16b, v2.16b", 0x4ea2_1c41, v(2), v(1), None),
        ("eor v1.16b, v1.16b, v1.16b", 0x6e21_1c21, 0, v(1), None),
        ("orr v0.4s, #1", 0x4f00_1420, v(0), v(0), Vector),
        ("fmov d0, x1", 0x9e67_0020, x(1), v(0), Transfer),
        ("fmov d0, d1", 0x1e60_4020, v(1), v(0), None),
        ("mov v0.s[1], w2", 0x4e0c_1c40, v(0) | x(2), v(0), Transfer),
        ("mov v0.s[1], v1.s[0]", 0x6e0c_0420, v(0) | v(1), v(0), Shuffle),
        ("fmla v0.4s, v1.4s, v2.4s", 0x4e22_cc20, v(0) | v(1) | v(2), v(0), FloatFused),
        ("fdiv s0, s1, s2", 0x1e22_1820, v(1) | v(2), v(0), FloatDivide),
        ("fsqrt v0.2d, v1.2d", 0x6ee1_f820, v(1), v(0), FloatDivideDouble),
        ("fcmp d0, d1", 0x1e61_2000, v(0) | v(1), FLAGS, FloatAdd),
        ("fcmgt v0.4s, v1.4s, v2.4s", 0x6ea2_e420, v(1) | v(2), v(0), FloatAdd),
        ("scvtf d0, x1", 0x9e62_0020, x(1), v(0), FloatAdd),
        ("mul v0.4s, v1.4s, v2.4s", 0x4ea2_9c20, v(1) | v(2), v(0), VectorMultiply),
        ("umlal2 v0.4s, v1.8h, v2.8h", 0x6e62_8020, v(0) | v(1) | v(2), v(0), VectorMultiply),
        ("xtn2 v0.8h, v1.4s", 0x4e61_2820, v(0) | v(1), v(0), Vector),
        ("ssra v0.4s, v1.4s, #3", 0x4f3d_1420, v(0) | v(1), v(0), Vector),
        ("bsl v0.16b, v1.16b, v2.16b", 0x6e62_1c20, v(0) | v(1) | v(2), v(0), Vector),
        ("aese v0.16b, v1.16b", 0x4e28_4820, v(0) | v(1), v(0), VectorMultiply),
        ("shadd v0.4s, v1.4s, v2.4s", 0x4ea2_0420, v(1) | v(2), v(0), Vector),
        ("tbl v0.16b, {v1, v2}, v3", 0x4e03_2020, 0b1110 << 32, v(0), Shuffle),
        ("nop", 0xd503_201f, 0, 0, None),
        ("dmb ish", 0xd503_3bbf, 0, 0, Serialise),
        ("dmb ishld", 0xd503_39bf, 0, 0, None),
        ("svc #0", 0xd400_0001, 0, 0, SystemCall),
    ];
    for (text, word, read, written, operation) in cases {
        let op = one(*word);
        assert_eq!((op.read.0, op.written.0), (*read, *written), "{text}");
        assert_eq!(op.operation, *operation, "{text}");
        assert_eq!((op.loads, op.stores), (false, false), "{text}");
    }
    // Those of whole words are atomic operations.
    for word in [0xf821_0062, 0xc8a1_7c62, 0xc801_7c62] {
        assert_eq!(one(word).operation, Atomic);
    }
}

#[test]
fn exits() {
    let exit = |word: u32| {
        let block = block(&[word]).block;
        (block.exit, block.branches)
    };
    assert_eq!(exit(0xb400_0060), (Exit::Conditional, 1), "cbz x0");
    assert_eq!(exit(0x3718_0040), (Exit::Conditional, 1), "tbnz w0, #3");
    assert_eq!(exit(0x1400_0000), (Exit::Direct, 1), "b");
    assert_eq!(exit(0x97ff_ffff), (Exit::Call, 1), "bl");
    assert_eq!(exit(0xd63f_0020), (Exit::IndirectCall, 1), "blr x1");
    assert_eq!(exit(0xd61f_0020), (Exit::Indirect, 1), "br x1");
    assert_eq!(exit(0xd65f_03c0), (Exit::Return, 1), "ret");
    assert_eq!(exit(0xd400_0001), (Exit::Direct, 0), "svc #0");
    assert_eq!(exit(0xd420_0000), (Exit::Direct, 0), "brk #0");
    // A call leaves its return address.
    assert_eq!(one(0x97ff_ffff).written.0, x(30));
    assert_eq!(one(0xd63f_0020).written.0, x(30));
}

proptest! {
    #[test]
    fn any_word_is_decoded(word: u32) {
        let decoded = block(&[word]);
        let op = decoded.block.ops[0];
        prop_assert!(op.bytes == 0 || op.loads || op.stores);
        // What the tracer is not to watch touches nothing.
        prop_assert!(decoded.touches_memory[0] != Touch::No || !(op.loads || op.stores));
    }
}
