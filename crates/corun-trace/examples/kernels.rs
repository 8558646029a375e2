//! Small programs of known behaviour, for the tests and the profile library.
//!
//! `kernels NAME MIB ROUNDS`: the kernel's main array or table has about that many MiB, of which there may be parts. One thread (but
//! for `two-walks`), no input, the same work on every run.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;

/// A linear congruential generator (Knuth's MMIX constants); its high bits are used.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * limit as u128) >> 64) as usize
    }
}

/// Reads an array from end to end.
fn walk(bytes: usize, rounds: usize) -> u64 {
    read(&vec![1u64; bytes / 8], rounds)
}

fn read(array: &[u64], rounds: usize) -> u64 {
    let mut sum = 0u64;
    for _ in 0..rounds {
        for value in black_box(array) {
            sum = sum.wrapping_add(*value);
        }
    }
    sum
}

/// Reads an array and follows a random cycle through a tenth as many lines, four times by turns.
fn alternate(bytes: usize, rounds: usize) -> u64 {
    let array = vec![1u64; bytes / 8];
    let next = random_cycle(bytes / 640);
    (0..4).fold(0, |sum, _| {
        let turn = read(&array, rounds).wrapping_add(follow(&next, 40 * rounds));
        u64::wrapping_add(sum, turn)
    })
}

/// Two threads read an array each, round by round together.
fn two_walks(bytes: usize, rounds: usize) -> u64 {
    let together = Barrier::new(2);
    let walk_along = || {
        let array = vec![1u64; bytes / 8];
        let mut sum = 0u64;
        for _ in 0..rounds {
            together.wait();
            sum = black_box(&array).iter().fold(sum, |sum, value| sum.wrapping_add(*value));
        }
        sum
    };
    thread::scope(|scope| {
        let other = scope.spawn(walk_along);
        walk_along().wrapping_add(other.join().unwrap_or(0))
    })
}

/// a = b + s c over three arrays (McCalpin's STREAM triad).
fn triad(bytes: usize, rounds: usize) -> u64 {
    let length = bytes / 24;
    let (mut a, b, c) = (vec![0.0f64; length], vec![1.0; length], vec![2.0; length]);
    for round in 0..rounds {
        let scale = round as f64;
        for ((a, b), c) in a.iter_mut().zip(&b).zip(&c) {
            *a = b + scale * c;
        }
        black_box(&mut a);
    }
    a[length / 2] as u64
}

/// Follows a random cycle through all lines of an array.
fn chase(bytes: usize, rounds: usize) -> u64 {
    follow(&random_cycle(bytes / 64), rounds)
}

/// Lines that name one another: one cycle through everything, by Sattolo's shuffle.
fn random_cycle(lines: usize) -> Vec<[u64; 8]> {
    let mut next: Vec<[u64; 8]> = (0..lines).map(|at| [at as u64; 8]).collect();
    let mut random = Random(1);
    for at in (1..lines).rev() {
        next.swap(at, random.below(at));
    }
    next
}

fn follow(next: &[[u64; 8]], rounds: usize) -> u64 {
    let mut at = 0;
    for _ in 0..rounds * next.len() {
        at = next[at as usize][0];
    }
    at
}

/// A five-point stencil over a square of doubles, back and forth between two arrays.
fn stencil(bytes: usize, rounds: usize) -> u64 {
    let side = ((bytes / 16) as f64).sqrt() as usize;
    let mut from = vec![1.0f64; side * side];
    let mut to = from.clone();
    for _ in 0..rounds {
        for row in 1..side - 1 {
            for column in 1..side - 1 {
                let at = row * side + column;
                to[at] = 0.2
                    * (from[at] + from[at - 1] + from[at + 1] + from[at - side] + from[at + side]);
            }
        }
        std::mem::swap(&mut from, &mut to);
        black_box(&mut from);
    }
    from[side + 1].to_bits()
}

/// c += a b in blocks of 64 by 64 doubles (three blocks: 96 KiB).
fn blocked_product(bytes: usize, rounds: usize) -> u64 {
    const BLOCK: usize = 64;
    let side = ((bytes / 24) as f64).sqrt() as usize / BLOCK * BLOCK;
    let (a, b) = (vec![1.5f64; side * side], vec![0.5; side * side]);
    let mut c = vec![0.0f64; side * side];
    let starts = || (0..side).step_by(BLOCK);
    for _ in 0..rounds {
        for (i0, j0, k0) in
            starts().flat_map(|i| starts().flat_map(move |j| starts().map(move |k| (i, j, k))))
        {
            for i in i0..i0 + BLOCK {
                for k in k0..k0 + BLOCK {
                    let factor = a[i * side + k];
                    let row = &b[k * side + j0..k * side + j0 + BLOCK];
                    let sums = &mut c[i * side + j0..i * side + j0 + BLOCK];
                    for (sum, value) in sums.iter_mut().zip(row) {
                        *sum += factor * value;
                    }
                }
            }
        }
        black_box(&mut c);
    }
    c[0].to_bits()
}

/// Builds a hash table of that size by linear probing and looks up eight keys a slot.
fn hash_join(bytes: usize, rounds: usize) -> u64 {
    let slots = (bytes / 16).next_power_of_two();
    let mut table = vec![(0u64, 0u64); slots];
    let place = |key: u64| (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize & (slots - 1);
    let keys = slots / 2;
    for key in 1..=keys as u64 {
        let mut at = place(key);
        while table[at].0 != 0 {
            at = (at + 1) & (slots - 1);
        }
        table[at] = (key, key * 3);
    }
    let (mut random, mut sum) = (Random(7), 0u64);
    for _ in 0..rounds * 8 * slots {
        // Half of the probes find nothing.
        let key = 1 + random.below(2 * keys) as u64;
        let mut at = place(key);
        while table[at].0 != 0 && table[at].0 != key {
            at = (at + 1) & (slots - 1);
        }
        sum = sum.wrapping_add(table[at].1);
    }
    sum
}

/// Reads where nothing is mapped.
#[allow(unsafe_code)]
fn touch_nothing() -> u64 {
    // SAFETY: none; the segmentation fault is what is asked for.
    unsafe { std::ptr::read_volatile(black_box(8) as *const u64) }
}

/// More is a slip: nobody has it.
const MOST_MIB: f64 = 1e6;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let mib = words.get(2).and_then(|word| word.parse::<f64>().ok());
    let mib = mib.filter(|mib| (0.0..=MOST_MIB).contains(mib));
    let rounds = words.get(3).and_then(|word| word.parse::<usize>().ok());
    let (Some(name), Some(mib), Some(rounds)) = (words.get(1), mib, rounds) else {
        eprintln!(
            "usage: kernels walk|triad|chase|stencil|product|hash-join|alternate|two-walks|crash|fault MIB ROUNDS"
        );
        return ExitCode::from(2);
    };
    let bytes = (mib * f64::from(1 << 20)) as usize;
    let result = match name.as_str() {
        "walk" => walk(bytes, rounds),
        "triad" => triad(bytes, rounds),
        "chase" => chase(bytes, rounds),
        "stencil" => stencil(bytes, rounds),
        "product" => blocked_product(bytes, rounds),
        "hash-join" => hash_join(bytes, rounds),
        "alternate" => alternate(bytes, rounds),
        "two-walks" => two_walks(bytes, rounds),
        "crash" => {
            black_box(walk(bytes, rounds));
            std::process::abort()
        }
        "fault" => {
            black_box(walk(bytes, rounds));
            touch_nothing()
        }
        _ => {
            eprintln!("kernels: no kernel named {name}");
            return ExitCode::from(2);
        }
    };
    println!("{name} {result:x}");
    ExitCode::SUCCESS
}
