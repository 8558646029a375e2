//! Nanoseconds an event of the engine, without QEMU: a program of 20-instruction blocks with a load
//! each, half of them within 200 lines, a third within 3000, the others in a loop over 60,000.
//!
//! `cargo bench -p corun-trace` prints events a second of each kind. The sampled ones are past the
//! beginning, in which they see all accesses.

use corun_profile::EngineKind;
use corun_trace::block::{Block, StaticOp};
use corun_trace::engine::{Engine, EngineOptions, Sieve, Thread};
use divan::counter::ItemsCount;

const BLOCKS: u64 = 1 << 20;
const KINDS: [EngineKind; 3] = [EngineKind::Exact, EngineKind::FixedRate, EngineKind::FixedSize];

fn main() {
    divan::main();
}

/// A recording that goes on.
struct Running {
    engine: Engine,
    thread: Thread,
    sieve: Sieve,
}

impl Running {
    fn new(kind: EngineKind) -> Self {
        let engine = Engine::new(EngineOptions { kind, ..EngineOptions::default() }, None);
        let mut engine = engine.with_gaps();
        engine.add_block(Block {
            loads: 1,
            branches: 1,
            ops: vec![StaticOp::default(); 20].into(),
            ..Block::undecoded(0x1000, 0x1030, 0x1034, 20)
        });
        let sieve = Sieve::new(engine.pace());
        Self { engine, thread: Thread::new(), sieve }
    }

    fn go_on(&mut self, lines: &[u64]) {
        let tag = self.engine.tag(0);
        for &line in lines {
            if self.sieve.block(tag) {
                self.hand_in();
            }
            if !self.sieve.passes_over(line, false) && self.sieve.access(8 * line, 3, false) {
                self.hand_in();
            }
        }
    }

    fn hand_in(&mut self) {
        self.engine.take(&mut self.thread, &self.sieve);
        self.sieve.set_pace(self.engine.pace());
    }
}

fn lines() -> Vec<u64> {
    let mut state = 1u64;
    let next = |at: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let chance = state >> 33;
        match chance % 6 {
            0..3 => chance / 8 % 200,
            3..5 => 10_000 + chance / 8 % 3000,
            _ => 100_000 + at / 6 % 60_000,
        }
    };
    (0..BLOCKS).map(next).collect()
}

#[divan::bench(args = KINDS, sample_count = 10)]
fn engine(bencher: divan::Bencher<'_, '_>, kind: EngineKind) {
    let lines = lines();
    let mut running = Running::new(kind);
    running.go_on(&lines);
    // A block and an access each.
    bencher.counter(ItemsCount::new(2 * BLOCKS)).bench_local(|| running.go_on(&lines));
}
