use super::*;

/// A block of instructions of four bytes each.
fn code(start: u64, instructions: u64, exit: Exit) -> Block {
    let last = start + 4 * (instructions - 1);
    let ops = vec![Default::default(); instructions as usize].into();
    Block { exit, ops, ..Block::undecoded(start, last, last + 4, instructions as u32) }
}

/// A micro-trace of such blocks, one entry an instruction.
fn path(blocks: &[(&Block, bool)]) -> Vec<Ran> {
    let mut first = 0;
    let ran = blocks.iter().map(|&(block, is_wrong)| {
        let entries = [first, first + block.ops.len() - 1];
        first += block.ops.len();
        Ran::new(block, entries, is_wrong)
    });
    ran.collect()
}

/// A test of 3 instructions; 2 on one direction and 3 on the other, which runs on into the 4 that both have.
struct Loop {
    test: Block,
    jumps: Block,
    both: Block,
    falls: Block,
}

impl Loop {
    fn new() -> Self {
        Self {
            test: code(0x1000, 3, Exit::Conditional),
            jumps: code(0x2000, 2, Exit::Direct),
            both: code(0x3000, 4, Exit::Direct),
            falls: code(0x2ff4, 7, Exit::Direct),
        }
    }

    /// So many rounds of 9 and 10 instructions, in which the test is foreseen in no case, in one or the other direction.
    fn rounds(&self, falls: impl Iterator<Item = bool>) -> Vec<Ran> {
        let blocks = falls.flat_map(|falls| match falls {
            true => vec![(&self.test, true), (&self.falls, false)],
            false => vec![(&self.test, true), (&self.jumps, false), (&self.both, false)],
        });
        path(&blocks.collect::<Vec<_>>())
    }
}

/// Of the first branches, the entries and the other direction's instructions before each place.
fn places(found: &[Reconvergences], branches: usize) -> Vec<(usize, Vec<[usize; 2]>)> {
    let of = |met: &Reconvergences| {
        let place =
            |place: &ReconvergencePoint| [place.entry - met.branch, place.other_instructions];
        (met.branch, met.places.iter().map(place).collect())
    };
    found.iter().take(branches).map(of).collect()
}

/// Of the jump: its 2 instructions, which the other direction comes to in its next round, the first of both, before which
/// the other direction has 3, and these in the next round. Of the test that falls through: the first of both, and the jump's
/// in the next round.
const BEHIND_JUMP: [[usize; 2]; 3] = [[1, 10], [3, 3], [10, 0]];
const BEHIND_FALL: [[usize; 2]; 2] = [[4, 2], [11, 0]];

#[test]
fn both_directions_run_into_the_same_code() {
    let found =
        Ways::default().reconvergences(&Loop::new().rounds((0..160).map(|round| round % 2 == 1)));
    // The test's last instruction is the third entry; each two rounds have 19.
    let expected = [(2, &BEHIND_JUMP[..]), (11, &BEHIND_FALL), (21, &BEHIND_JUMP)];
    assert_eq!(places(&found, 3), expected.map(|(branch, places)| (branch, places.to_vec())));
}

/// cmp; jb left; right: mov, add, test, jne to cmp; left: mov, add, test, je: a search in a tree goes on at the comparison. In
/// its next round the other direction comes to what the right one has first.
#[test]
fn a_search_goes_on_at_its_next_comparison() {
    let [compare, left, right] = [(0x11bd, 2), (0x2000, 4), (0x3000, 4)]
        .map(|(at, length)| code(at, length, Exit::Conditional));
    let rounds = (0..200).flat_map(|round| {
        let side = if round * round % 7 < 3 { &left } else { &right };
        [(&compare, true), (side, false)]
    });
    let found = Ways::default().reconvergences(&path(&rounds.collect::<Vec<_>>()));
    // Each round has six entries, of which the comparison's branch is the second.
    for (round, (branch, places)) in places(&found, 100).into_iter().enumerate() {
        assert!(branch == 6 * round + 1 && places.contains(&[5, 4]), "{branch}: {places:?}");
    }
}

#[test]
fn the_other_direction_is_known_from_an_earlier_trace() {
    let (blocks, mut ways) = (Loop::new(), Ways::default());
    let jumps = ways.reconvergences(&blocks.rounds((0..160).map(|_| false)));
    assert_eq!(jumps, [], "nothing is known of the other direction");
    let falls = ways.reconvergences(&blocks.rounds((0..160).map(|_| true)));
    // Nobody jumps in the trace itself.
    assert_eq!(places(&falls, 1), [(2, vec![BEHIND_FALL[0]])]);
    let jumps = ways.reconvergences(&blocks.rounds((0..160).map(|_| false)));
    assert_eq!(places(&jumps, 1), [(2, vec![BEHIND_JUMP[1]])]);
}

/// Code that is passed once, 5 instructions a block.
fn straight(start: u64, blocks: u64) -> Vec<Block> {
    (0..blocks).map(|at| code(start + 0x40 * at, 5, Exit::Direct)).collect()
}

#[test]
fn other_code_for_as_far_as_a_core_reaches_never_meets() {
    let test = code(0x1000, 3, Exit::Conditional);
    let (one, other) = (straight(0x10_0000, 110), straight(0x20_0000, 110));
    let blocks = |way: &[Block]| {
        let way = way.iter().map(|block| (block, false));
        path(&std::iter::once((&test, true)).chain(way).collect::<Vec<_>>())
    };
    let mut ways = Ways::default();
    assert_eq!(ways.reconvergences(&blocks(&one)), []);
    let unmet = |is_never| [Reconvergences { branch: 2, places: Vec::new(), is_never }];
    assert_eq!(ways.reconvergences(&blocks(&other)), unmet(true));
    // What is too short to tell.
    assert_eq!(ways.reconvergences(&blocks(&one[..50])), unmet(false));
}
