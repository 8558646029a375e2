//! Accesses a second of each form of cache.

use corun_cache::{CacheConfig, Geometry, Indexing, Replacement, ReplayedCache};
use divan::counter::ItemsCount;

fn main() {
    divan::main();
}

const ACCESSES: usize = 1 << 20;

const SHAPES: [&str; 5] = ["16-way lru", "16-way plru", "16-way srrip", "8-way lru", "full lru"];

fn shape(name: &str) -> CacheConfig {
    let (ways, replacement) = match name {
        "16-way plru" => (Some(16), Replacement::TreePlru),
        "16-way srrip" => (Some(16), Replacement::Srrip),
        "8-way lru" => (Some(8), Replacement::Lru),
        "full lru" => (None, Replacement::Lru),
        _ => (Some(16), Replacement::Lru),
    };
    let geometry = Geometry { bytes: 2 << 20, line_bytes: 64, ways };
    CacheConfig { geometry, replacement, indexing: Indexing::Hashed }
}

/// A mix as programs make it: nine of ten accesses in 512 lines, the rest in 64 Ki lines.
fn lines() -> Vec<u64> {
    let mut state = 1u64;
    let mut draw = |limit: u64| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    };
    (0..ACCESSES).map(|_| if draw(10) < 9 { draw(512) } else { draw(65_536) }).collect()
}

#[divan::bench(args = SHAPES)]
fn cache(bencher: divan::Bencher<'_, '_>, name: &str) {
    let lines = lines();
    let shape = shape(name);
    let ways = shape.all_ways();
    bencher
        .counter(ItemsCount::new(ACCESSES))
        .with_inputs(|| ReplayedCache::new(&shape))
        .bench_refs(|cache| {
            lines
                .iter()
                .filter(|&&line| cache.access(line, 0, 0, ways) == corun_cache::AccessOutcome::Hit)
                .count()
        });
}
