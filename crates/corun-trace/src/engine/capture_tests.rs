use corun_profile::{Marks, Operation, Reuse};

use super::*;
use crate::block::Exit;

const RAX: Registers = Registers(1);
const RBX: Registers = Registers(1 << 3);
const FLAGS: Registers = Registers(1 << 48);

fn load(address: Registers, to: Registers) -> StaticOp {
    StaticOp { address, written: to, loads: true, bytes: 8, ..StaticOp::default() }
}

fn block(ops: &[StaticOp]) -> Block {
    let bytes = 4 * ops.len() as u64;
    let mut block = Block::undecoded(0x1000, 0x1000 + bytes - 4, 0x1000 + bytes, ops.len() as u32);
    block.branches = 1;
    block.ops = ops.into();
    block
}

fn seen(distance: usize) -> Seen {
    Seen { place: Place::Front(distance), page: (Depth::Lines(0), 0), foreseen_from: None }
}

/// add 8(%rbx),%rax; mov (%rbx),%rbx; dec; jnz: a field is read, then the pointer is followed.
#[test]
fn a_linked_list_with_a_field() {
    let field = StaticOp { read: RAX, operation: Operation::Integer, ..load(RBX, RAX) };
    let dec = StaticOp { written: FLAGS, operation: Operation::Integer, ..StaticOp::default() };
    let jump = StaticOp { read: FLAGS, fused: true, operation: Operation::Integer, ..dec };
    let block = block(&[field, load(RBX, RBX), dec, jump]);
    let mut capture = Capture::new(0, 1);
    for round in 0..2 {
        capture.begin_block(false);
        // Two words of one line, which is another one each time.
        capture.access(&block, 0, 800 * (round + 1) + 1, false, seen(100));
        capture.access(&block, 1, 800 * (round + 1), false, seen(0));
        capture.end_block(&block, Ended { taken: true, ..Ended::default() });
    }
    let ops = capture.finish(&[], true, &mut Ways::default());
    assert_eq!(ops.len(), 8);
    // The second round's field has its address from the first round's pointer, its sum from the
    // first round's sum; the pointer's line is the field's.
    assert_eq!((ops[4].address_inputs, ops[4].inputs), ([3, 0], [4, 0, 0]));
    assert_eq!((ops[5].address_inputs, ops[5].line_before), ([4, 0], 1));
    assert_eq!((ops[4].reuse, ops[5].reuse), (Reuse::of(100), Reuse(0)));
    assert!(ops[7].marks.has(Marks::BRANCH.with(Marks::TAKEN).with(Marks::FUSED)));
    assert_eq!(ops[7].inputs, [1, 0, 0]);
    assert_eq!(ops[0].line_before, 0);
}

#[test]
fn a_load_waits_for_the_store_to_its_word() {
    let store = StaticOp { address: RBX, read: RAX, stores: true, bytes: 8, ..StaticOp::default() };
    let block = block(&[store, load(RBX, RAX), load(RBX, RAX)]);
    let mut capture = Capture::new(0, 1);
    capture.begin_block(false);
    capture.access(&block, 0, 10, true, seen(3));
    // The second instruction's access is left out, as it is to the same word.
    capture.access(&block, 2, 11, false, seen(0));
    capture.end_block(&block, Ended::default());
    let ops = capture.finish(&[], true, &mut Ways::default());
    assert_eq!((ops[1].forwarded_from, ops[1].line_before), (1, 1));
    assert_eq!((ops[2].forwarded_from, ops[2].line_before), (0, 1));
    assert!(!ops[2].marks.has(Marks::TAKEN));
}

#[test]
fn depths_below_the_front_are_filled_in_at_the_end() {
    let block = block(&[load(RBX, RAX), load(RBX, RAX)]);
    let mut capture = Capture::new(0, 1);
    capture.begin_block(false);
    capture.fetch(&block, 0x1000 / 64, Place::Below(0), false);
    let below = |number| Seen {
        place: Place::Below(number),
        page: (Depth::Cold, 70),
        foreseen_from: (number == 2).then_some(1),
    };
    capture.access(&block, 0, 8, false, below(1));
    capture.access(&block, 1, 16, false, below(2));
    let depths = [(Depth::Lines(600), 0), (Depth::Lines(5000), 0), (Depth::Cold, 900)];
    let ops = capture.finish(&depths, false, &mut Ways::default());
    assert_eq!(ops[0].fetch_reuse, Reuse::of(600));
    assert!(ops[0].marks.has(Marks::FETCHES) && !ops[0].marks.has(Marks::FETCH_AT_LEAST));
    assert_eq!(ops[0].reuse, Reuse::of(5000));
    assert_eq!(ops[1].reuse, Reuse::of(900));
    assert!(ops[1].marks.has(Marks::REUSE_AT_LEAST.with(Marks::FORESEEN)));
    assert_eq!((ops[1].stream_before, ops[1].page_reuse), (1, Reuse::of(70)));
}

/// rep movsq: QEMU enters it again for every element.
#[test]
fn a_repeated_instruction_is_one_with_a_part_for_each_line() {
    let both = StaticOp { loads: true, stores: true, ..StaticOp::default() };
    let block = Block { exit: Exit::Repeat, branches: 0, ..block(&[both]) };
    let mut capture = Capture::new(0, 1);
    for round in 0..24 {
        capture.begin_block(round > 0);
        capture.access(&block, 0, 800 + round, false, seen(0));
        capture.access(&block, 0, 1600 + round, true, seen(0));
        capture.end_block(&block, Ended::default());
    }
    let ops = capture.finish(&[], true, &mut Ways::default());
    let parts = ops.iter().filter(|op| op.marks.has(Marks::PART)).count();
    assert_eq!(ops.len() - parts, 1);
    // The store of the first element, then a load and a store for each of the three lines.
    assert_eq!(parts, 7);
}

#[test]
fn registers_that_many_wrote_wait_for_the_latest() {
    let write =
        |register: u64| StaticOp { written: Registers(1 << register), ..StaticOp::default() };
    let read = StaticOp { read: Registers(0b11111), ..StaticOp::default() };
    let block = block(&[write(0), write(1), write(2), write(3), write(4), read]);
    let mut capture = Capture::new(0, 1);
    capture.begin_block(false);
    capture.end_block(&block, Ended::default());
    let ops = capture.finish(&[], true, &mut Ways::default());
    let mut inputs = ops[5].inputs;
    inputs.sort_unstable();
    assert_eq!(inputs, [1, 2, 3]);
}

#[test]
fn costs_tell_a_chain_from_what_is_independent() {
    let add = MicroOp { operation: Operation::Integer, ..MicroOp::default() };
    let mut chain = vec![MicroOp { inputs: [1, 0, 0], ..add }; 1024];
    chain[0].inputs = [0; 3];
    assert_eq!(costs(&chain)[0], 1.0);
    assert!(costs(&vec![add; 1024])[0] < 0.01);
}

/// movupd (x),%xmm0; movupd %xmm0,(x); next x: a value of two words, which QEMU loads and stores one after the other.
#[test]
fn a_value_that_is_stored_in_parts_ends_where_it_ends() {
    let wide = |op: StaticOp| StaticOp { bytes: 16, ..op };
    let store = StaticOp { address: RBX, read: RAX, stores: true, ..StaticOp::default() };
    let block = block(&[wide(load(RBX, RAX)), wide(store)]);
    let mut capture = Capture::new(0, 1);
    for round in 0..2 {
        capture.begin_block(false);
        // The second value crosses into another line.
        for index in [0, 1] {
            capture.access(&block, index, 5 + 2 * round, index == 1, seen(0));
            capture.access(&block, index, 6 + 2 * round, index == 1, seen(0));
        }
        capture.end_block(&block, Ended::default());
    }
    let ops = capture.finish(&[], true, &mut Ways::default());
    let loads: Vec<u16> =
        ops.iter().filter(|op| op.marks.has(Marks::LOAD)).map(|op| op.forwarded_from).collect();
    assert_eq!(loads, [0, 0, 0], "{ops:?}");
}

/// inc %rcx; jcc; lea (%rcx),%rbx; tail: load (%rbx), add. Where the lea is passed over, the load hangs on the direction; where it
/// is not, it has its address from an instruction that the other direction lacks.
#[test]
fn what_the_other_direction_writes_is_hung_on() {
    let rcx = Registers(1 << 1);
    let at = |start: u64, ops: &[StaticOp], exit| {
        let end = start + 4 * ops.len() as u64;
        Block { start, last: end - 4, end, exit, ..block(ops) }
    };
    let compute = |read, written| StaticOp {
        read,
        written,
        operation: Operation::Integer,
        ..StaticOp::default()
    };
    let jump = compute(FLAGS, Registers::default());
    let (lea, tail) = (compute(rcx, RBX), [load(RBX, RAX), compute(RAX, RAX)]);
    let test = at(0x1000, &[compute(rcx, rcx), jump], Exit::Conditional);
    // The lea runs on into the tail.
    let short = at(0x2004, &tail, Exit::Direct);
    let long = at(0x2000, &[&[lea][..], &tail[..]].concat(), Exit::Direct);
    let mut capture = Capture::new(0, 1);
    for round in 0..300 {
        for block in [&test, if round % 2 == 0 { &short } else { &long }] {
            capture.begin_block(false);
            capture.end_block(block, Ended { large_wrong: true, ..Ended::default() });
        }
    }
    let ops = capture.finish(&[], true, &mut Ways::default());
    let after = |entries, other_instructions| Reconvergence::After { entries, other_instructions };
    assert_eq!((ops[1].reconvergence, ops[5].reconvergence), (after(1, 1), after(2, 0)));
    assert_eq!(
        ops[..9].iter().map(|op| op.hangs_on).collect::<Vec<_>>(),
        [0, 0, 1, 0, 0, 0, 0, 0, 0]
    );
}
