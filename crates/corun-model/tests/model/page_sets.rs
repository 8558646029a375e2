//! Caches whose sets get pages at random, against caches of pages that were placed so.

use std::collections::VecDeque;

use corun_machine::{Inclusion, MachineSpec};
use corun_model::{LoadedProgram, Member, Model, ModelOptions, Outcome, Running, Scratch};
use corun_profile::Profile;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::fixture::*;
use crate::machines::*;

const PAGE: u64 = 4096;
/// Places for pages and pages that each holds: 128 pages in all.
const PLACES: usize = 8;
const WAYS: usize = 16;
const WHOLE: u64 = (PLACES * WAYS) as u64 * PAGE;

/// A cache of 512 KiB behind next to nothing.
fn small(random_page_kib: Option<u64>) -> MachineSpec {
    let mut spec = gold(1, 2);
    let llc = &mut spec.objects[0].objects[0].objects[0];
    llc.size_kib = Some(WHOLE / 1024);
    llc.ways = Some(WAYS as u32);
    llc.inclusion = Some(Inclusion::Inclusive);
    llc.random_page_kib = random_page_kib;
    let l2 = &mut llc.objects[0];
    (l2.size_kib, l2.ways) = (Some(4), Some(1));
    let l1 = &mut l2.objects[0];
    (l1.size_kib, l1.ways) = (Some(2), Some(1));
    spec
}

/// Goes round through so many pages, a line each 50 instructions; all misses cost next to nothing, so that both of two keep
/// their pace.
fn walk(pages: u64) -> Profile {
    let bytes = pages * PAGE;
    let points = [(1024, 20.0), (bytes - 1, 20.0), (bytes, 0.0)];
    recording("walk", &points, |phase| {
        phase.footprint_bytes = bytes;
        phase.memory_level_parallelism = 10.0;
        phase.prefetchable = 1.0;
    })
}

fn beside_each_other(model: &Model, walks: &[u64]) -> Vec<f64> {
    let programs: Vec<LoadedProgram> =
        walks.iter().map(|&pages| load(model, &walk(pages))).collect();
    let running: Vec<Running<'_>> =
        programs.iter().enumerate().map(|(cpu, one)| on(one, cpu)).collect();
    let mut out: Vec<Outcome> = Vec::new();
    model.solve(&running, &mut Scratch::new(), &mut out);
    out.iter().map(|one| one.llc_mpki / 20.0).collect()
}

/// The shares of its pages that each of these walks, which take turns page by page, misses in LRU places, over random
/// placements.
fn placed_at_random(walks: &[u64]) -> Vec<f64> {
    const PLACEMENTS: u64 = 200;
    const ROUNDS: u64 = 400;
    let mut missed = vec![0u64; walks.len()];
    for seed in 0..PLACEMENTS {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut place = |_| rng.random_range(0..PLACES);
        let placed: Vec<Vec<usize>> =
            walks.iter().map(|&pages| (0..pages).map(&mut place).collect()).collect();
        let mut held: Vec<VecDeque<(usize, usize)>> = vec![VecDeque::new(); PLACES];
        for round in 0..2 * ROUNDS {
            for (walk, own) in placed.iter().enumerate() {
                let page = (round % own.len() as u64) as usize;
                let here = &mut held[own[page]];
                let known = here.iter().position(|&one| one == (walk, page));
                if let Some(at) = known {
                    here.remove(at);
                } else if here.len() == WAYS {
                    here.pop_back();
                }
                here.push_front((walk, page));
                // Once all has come round.
                missed[walk] += u64::from(known.is_none() && round >= ROUNDS);
            }
        }
    }
    missed.iter().map(|&missed| missed as f64 / (PLACEMENTS * ROUNDS) as f64).collect()
}

#[test]
fn walks_miss_where_places_have_too_many_pages() {
    let alike = model(small(None), ModelOptions::default());
    let at_random = model(small(Some(4)), ModelOptions::default());
    // Alone, two of one size, and a short one beside a long one: that comes round before its lines have grown old.
    for walks in [&[96][..], &[64], &[60, 50], &[20, 90]] {
        assert!(beside_each_other(&alike, walks).iter().all(|&missed| missed < 0.01), "{walks:?}");
        let (found, placed) = (beside_each_other(&at_random, walks), placed_at_random(walks));
        for (found, placed) in found.iter().zip(&placed) {
            // Eight sizes stand for all: the law is told to within half a part, and itself to within 2 points.
            assert!((found - placed).abs() < 0.5 / 8.0 + 0.02, "{walks:?}: {found} {placed}");
        }
    }
    assert!(beside_each_other(&at_random, &[96])[0] > 0.1);
    let [short, long] = beside_each_other(&at_random, &[20, 90])[..] else { panic!() };
    assert!(short < 0.03 && long > 0.15, "{short} {long}");
}

#[test]
fn a_program_alone_takes_the_mean_time_over_the_sizes() {
    let model = model(small(Some(4)), ModelOptions::default());
    let program = load(&model, &walk(96));
    let alone = model.solo(&program, 0, 0);
    let running = [on(&program, 0)];
    let mut out = Vec::new();
    model.solve(&running, &mut Scratch::new(), &mut out);
    // Alone nobody asks how often the memory was found busy.
    assert_eq!(Outcome { memory_retries_per_request: 0.0, ..out[0] }, alone);
    assert!((alone.slowdown - 1.0).abs() < 1e-12, "{alone:?}");
    let by_ways = model.by_ways(&program, 0);
    let whole = by_ways.last().unwrap();
    assert!((whole.ipc / alone.ipc - 1.0).abs() < 1e-12);
    // Of eight sizes one is below three quarters of the mean: an eighth of the lines misses.
    assert!((alone.llc_mpki - 20.0 / 8.0).abs() < 0.05, "{alone:?}");
    // All ways that it needs, and then those that places with more pages need.
    assert!(by_ways.windows(2).all(|pair| pair[0].ipc <= pair[1].ipc));
    assert!(by_ways[11].slowdown > 1.0 && by_ways[11].llc_mpki < 15.0, "{:?}", by_ways[11]);
}

#[test]
fn pages_of_a_way_or_more_fill_all_sets_alike() {
    let huge = model(small(Some(2048)), ModelOptions::default());
    let alike = model(small(None), ModelOptions::default());
    let solo = |model: &Model| model.solo(&load(model, &walk(96)), 0, 0);
    assert_eq!(solo(&huge), solo(&alike));
}

/// Tables by ways were measured where pages lie in sets by chance, so that nothing is added to them.
#[test]
fn measured_tables_hold_it_already() {
    let mut spec = gold(1, 4);
    spec.objects[0].objects[0].objects[0].random_page_kib = Some(4);
    let by_chance = model(spec, ModelOptions::default());
    let alike = model(gold(1, 4), ModelOptions::default());
    let table = solo_table("p", 12.0, 2.0);
    let solo = |model: &Model| model.solo(&load(model, &table), 0, 0);
    assert_eq!(solo(&by_chance), solo(&alike));
}

/// A neighbour on one of its ways takes room, and so nobody gets faster by it.
#[test]
fn a_way_in_common_helps_nobody() {
    let mut spec = gold(1, 2);
    spec.objects[0].objects[0].objects[0].random_page_kib = Some(4);
    let model = model(spec, ModelOptions::default());
    let programs = [walk(6 * WAY / PAGE), walk(20 * WAY / PAGE)].map(|one| load(&model, &one));
    let members = [0, 1].map(|cpu| Member { program: &programs[cpu], phase: 0, cpu });
    let with = |masks: [u64; 2]| {
        let mut out = Vec::new();
        model.share_by_masks(&masks, &members, &mut Scratch::new(), &mut out);
        out[0]
    };
    let (apart, in_common) = (with([0x3f, 0x7c0]), with([0x3f, 0x7e0]));
    assert!(apart.llc_mpki > 0.1, "{apart:?}");
    assert!(in_common.cpi >= apart.cpi, "{apart:?} {in_common:?}");
}
