//! The shipped recordings on every named core: what no interval model may get wrong.

use corun_machine::{KernelCosts, Machine, NamedCore, core, core_names};
use corun_model::{CAUSES, LoadedProgram, Member, Model, ModelOptions, Outcome, WaysFigures};
use corun_profile::{CoreDetail, CurvePoint, Library, MissRateCurve, Profile, ProfileData};

use crate::fixture::*;

/// A core meets one program of so many.
const SHARE: usize = 12;

fn curve(named: &NamedCore, profile: &Profile) -> Vec<WaysFigures> {
    let model = Model::new(named.machine.clone().into(), ModelOptions::default()).unwrap();
    model.by_ways(&load(&model, profile), named.cpu())
}

#[test]
fn ipc_lies_within_the_width_and_never_falls_with_cache() {
    let library = Library::shipped().unwrap();
    for (number, name) in core_names().into_iter().enumerate() {
        let named = core(&name).unwrap();
        let width = named.machine.core_types()[named.core_type].dispatch_width;
        let model = Model::new(named.machine.clone().into(), ModelOptions::default()).unwrap();
        // Every core with all programs takes minutes; each program meets some of the cores.
        for profile in library.iter().skip(number % SHARE).step_by(SHARE) {
            let figures = model.by_ways(&load(&model, profile), named.cpu());
            for one in &figures {
                let at = format!("{} on {name}: {one:?}", profile.name);
                // A compare and its branch take one place of the width.
                assert!(one.ipc > 0.0 && one.ipc <= 2.0 * width, "{at}");
                assert!(one.memory_stalls <= one.total_stalls && one.total_stalls < 1.0, "{at}");
                let stack = one.stack.unwrap();
                let parts = CAUSES.map(|cause| stack.of(cause));
                assert!(parts.iter().all(|&part| part >= 0.0), "{at}");
                assert!((parts.iter().sum::<f64>() * one.ipc - 1.0).abs() < 1e-9, "{at}");
            }
            for pair in figures.windows(2) {
                let less = pair[1].ipc < pair[0].ipc * (1.0 - 1e-9);
                assert!(!less, "{} on {name}: {pair:?}", profile.name);
            }
        }
    }
}

/// At the same clock: at half of it a miss costs half the cycles.
#[test]
fn a_small_core_does_less_a_cycle_than_a_big_one() {
    let big = core("big-out-of-order").unwrap();
    let mut spec = core("small-in-order").unwrap().machine.spec().clone();
    spec.core_types[0].clock_mhz = big.machine.core_types()[0].clock_mhz;
    let small = NamedCore::of(Machine::from_spec(spec).unwrap(), None).unwrap();
    for profile in Library::shipped().unwrap().iter().step_by(5) {
        for (big, small) in curve(&big, profile).iter().zip(curve(&small, profile)) {
            assert!(small.ipc < big.ipc, "{}: {small:?} {big:?}", profile.name);
            // Its private cache is the smaller one, beside the same LLC.
            assert!(small.llc_mpki >= big.llc_mpki, "{}: {small:?} {big:?}", profile.name);
        }
    }
}

#[test]
fn a_pointer_chase_is_slow_and_a_product_is_not() {
    let library = Library::shipped().unwrap();
    let big = core("big-out-of-order").unwrap();
    let with_one_way = |name: &str| curve(&big, library.get(name).unwrap())[0];
    let chase = with_one_way("kernel-chase");
    assert!(chase.ipc < 0.2 && chase.memory_stalls > 0.8, "{chase:?}");
    assert!(with_one_way("kernel-product").ipc > 10.0 * chase.ipc);
}

/// Lines that the kernel clears are missed and moved, each once, and cost no cycles: those are in
/// the price of a page fault.
#[test]
fn cleared_lines_are_moved_once_and_wait_for_nothing() {
    const CLEARED_MPKI: f64 = 2.0;
    let library = Library::shipped().unwrap();
    let shipped = library.get("gzip").unwrap();
    let with_cleared = |mpki: f64| {
        let mut profile = shipped.clone();
        let ProfileData::Recording(recording) = &mut profile.data else { panic!("a recording") };
        for phase in &mut recording.phases {
            phase.dirty_share = 0.5;
            let core = phase.core.as_mut().unwrap();
            core.zeroed_mpki = 0.0;
            let points = vec![CurvePoint { bytes: 1024, mpki }];
            core.cleared_curve = Some(MissRateCurve::new(points).unwrap());
        }
        profile
    };
    let big = core("big-out-of-order").unwrap();
    let model = Model::new(big.machine.clone().into(), ModelOptions::default()).unwrap();
    let [none, some] = [0.0, CLEARED_MPKI].map(|mpki| {
        let program = load(&model, &with_cleared(mpki));
        model.solo(&program, 0, big.cpu())
    });
    assert!((some.llc_mpki - none.llc_mpki - CLEARED_MPKI).abs() < 1e-6, "{some:?} {none:?}");
    assert!((some.llc_apki - none.llc_apki - CLEARED_MPKI).abs() < 1e-6, "{some:?} {none:?}");
    // Whole lines of 64 bytes, written back whatever the dirty share of the program's own.
    let bytes = |one: &Outcome| one.bytes_per_s / one.instructions_per_s;
    let more = bytes(&some) - bytes(&none);
    assert!((more - CLEARED_MPKI * 1e-3 * 64.0).abs() < 1e-6, "{more} bytes an instruction");
    // A little less code is in the first level beside the data that pass.
    assert!((some.ipc / none.ipc - 1.0).abs() < 0.01, "{} and {}", some.ipc, none.ipc);
}

/// gzip on a core whose kernel costs so much, with other counts of what it asks of the kernel.
fn loaded_gzip(costs: KernelCosts, count: impl Fn(&mut CoreDetail)) -> (Model, Profile, usize) {
    let big = core("big-out-of-order").unwrap();
    let mut spec = big.machine.spec().clone();
    spec.kernel = Some(costs);
    let machine = Machine::from_spec(spec).unwrap();
    let model = Model::new(machine.into(), ModelOptions::default()).unwrap();
    let mut profile = Library::shipped().unwrap().get("gzip").unwrap().clone();
    let ProfileData::Recording(recording) = &mut profile.data else { panic!("a recording") };
    recording.phases.iter_mut().for_each(|phase| count(phase.core.as_mut().unwrap()));
    (model, profile, big.cpu())
}

/// Its instructions and seconds.
fn gzip(costs: KernelCosts, count: impl Fn(&mut CoreDetail)) -> (f64, f64) {
    let (model, profile, cpu) = loaded_gzip(costs, count);
    let instructions = profile.instructions() as f64;
    let solo = model.solo(&load(&model, &profile), LoadedProgram::WHOLE, cpu);
    (instructions, instructions / solo.instructions_per_s)
}

/// A process's start and end, and calls that take little, at the costs in the machine's file.
#[test]
fn a_process_and_light_calls_cost_what_the_machine_says() {
    const CALLS_PKI: f64 = 2.0;
    let seconds = |costs: KernelCosts, light_share: f64| {
        gzip(costs, |core| {
            core.system_calls_pki = CALLS_PKI;
            core.light_calls_pki = CALLS_PKI * light_share;
        })
    };
    let calls = KernelCosts {
        system_call_ns: Some(100.0),
        file_call_ns: Some(900.0),
        ..KernelCosts::default()
    };
    let (instructions, all_heavy) = seconds(calls, 0.0);
    let (_, half_light) = seconds(calls, 0.5);
    let saved_s = instructions * 1e-3 * CALLS_PKI * 0.5 * 800e-9;
    assert!(((all_heavy - half_light) / saved_s - 1.0).abs() < 1e-3, "{all_heavy} {half_light}");
    let (_, with_process) = seconds(KernelCosts { process_ns: Some(1e6), ..calls }, 0.0);
    assert!(((with_process - all_heavy) / 1e-3 - 1.0).abs() < 1e-3, "{with_process} {all_heavy}");
}

/// Each kind of call costs what the machine says of it, and as a call on a file where it says nothing.
#[test]
fn mapping_and_sleeping_calls_cost_what_the_machine_says() {
    const CALLS_PKI: f64 = 2.0;
    let seconds = |more: KernelCosts, [mapping_share, sleeping_share]: [f64; 2]| {
        let costs = KernelCosts { system_call_ns: Some(100.0), file_call_ns: Some(900.0), ..more };
        gzip(costs, |core| {
            core.system_calls_pki = CALLS_PKI;
            core.light_calls_pki = CALLS_PKI * 0.25;
            core.mapping_calls_pki = CALLS_PKI * mapping_share;
            core.sleeping_calls_pki = CALLS_PKI * sleeping_share;
        })
    };
    let known = KernelCosts {
        mapping_call_ns: Some(3000.0),
        sleeping_call_ns: Some(15_000.0),
        ..KernelCosts::default()
    };
    let (instructions, on_files) = seconds(known, [0.0, 0.0]);
    let calls = instructions * 1e-3 * CALLS_PKI;
    for (shares, more_ns) in [
        ([0.5, 0.0], 0.5 * (3000.0 - 900.0)),
        ([0.0, 0.25], 0.25 * (15_000.0 - 900.0)),
        ([0.5, 0.25], 0.5 * (3000.0 - 900.0) + 0.25 * (15_000.0 - 900.0)),
    ] {
        let more_s = seconds(known, shares).1 - on_files;
        assert!((more_s / (calls * more_ns * 1e-9) - 1.0).abs() < 1e-3, "{shares:?}: {more_s} s");
    }
    let unknown = KernelCosts::default();
    assert_eq!(seconds(unknown, [0.5, 0.25]).1, seconds(unknown, [0.0, 0.0]).1);
}

/// Bytes that are written to a file cost what the machine says of them, and as others where it says nothing.
#[test]
fn bytes_that_are_written_to_files_cost_what_the_machine_says() {
    const BYTES_PKI: f64 = 1000.0;
    let seconds = |file_write_ns_per_byte: Option<f64>, written_share: f64| {
        let costs = KernelCosts {
            transfer_ns_per_byte: Some(0.1),
            file_write_ns_per_byte,
            ..KernelCosts::default()
        };
        gzip(costs, |core| {
            core.transferred_bytes_pki = BYTES_PKI;
            core.file_written_bytes_pki = BYTES_PKI * written_share;
        })
    };
    let (instructions, read) = seconds(Some(0.5), 0.0);
    let more_s = seconds(Some(0.5), 0.25).1 - read;
    let expected_s = instructions * 1e-3 * BYTES_PKI * 0.25 * 0.4e-9;
    assert!((more_s / expected_s - 1.0).abs() < 1e-3, "{more_s} {expected_s}");
    assert_eq!(seconds(None, 0.25).1, seconds(None, 0.0).1);
}

/// Faults that map a file's pages cost what the machine says of them, and as others where it says nothing.
#[test]
fn faults_on_files_cost_what_the_machine_says() {
    const FAULTS_PKI: f64 = 0.5;
    let seconds = |file_fault_ns: Option<f64>, file_share: f64| {
        let costs =
            KernelCosts { page_fault_ns: Some(2000.0), file_fault_ns, ..KernelCosts::default() };
        gzip(costs, |core| {
            core.page_faults_pki = FAULTS_PKI;
            core.file_faults_pki = FAULTS_PKI * file_share;
        })
    };
    let (instructions, anonymous) = seconds(Some(6000.0), 0.0);
    let (_, files) = seconds(Some(6000.0), 0.25);
    let more_s = instructions * 1e-3 * FAULTS_PKI * 0.25 * 4000e-9;
    assert!(((files - anonymous) / more_s - 1.0).abs() < 1e-3, "{files} {anonymous}");
    assert_eq!(seconds(None, 0.25).1, anonymous);
}

/// What of a page fault waits for memory grows as loads do: half of 2000 ns for each of 0.5 in 1000 instructions. Files' faults do not.
#[test]
fn page_faults_wait_for_memory_as_far_as_the_machine_says() {
    const FAULTS_PKI: f64 = 0.5;
    let demand = |page_fault_memory_share: Option<f64>, file_share: f64| {
        let costs = KernelCosts {
            page_fault_ns: Some(2000.0),
            file_fault_ns: Some(2000.0),
            page_fault_memory_share,
            ..KernelCosts::default()
        };
        let (model, profile, cpu) = loaded_gzip(costs, |core| {
            core.page_faults_pki = FAULTS_PKI;
            core.file_faults_pki = FAULTS_PKI * file_share;
        });
        let member = Member { program: &load(&model, &profile), phase: LoadedProgram::WHOLE, cpu };
        let clock_mhz = model.machine().core_types()[0].clock_mhz;
        (model.demand_at(&member, 1e6), clock_mhz)
    };
    let (none, clock_mhz) = demand(None, 0.0);
    for (share, file_share) in [(0.5, 0.0), (0.5, 0.4), (1.0, 0.0), (0.0, 0.0)] {
        let (some, _) = demand(Some(share), file_share);
        let waits = FAULTS_PKI * (1.0 - file_share) * 1e-3 * 2000.0 * share * clock_mhz * 1e-3;
        assert!((some.cpi - none.cpi).abs() < 1e-9);
        let more = [some.memory_cpi - none.memory_cpi, some.waiting_cpi - none.waiting_cpi];
        assert!(more.iter().all(|more| (more - waits).abs() < 1e-9), "{share}: {more:?}, {waits}");
    }
}

/// A stream that the prefetcher foresees: an LLC that holds it never makes it slower, on an
/// in-order core either.
#[test]
fn a_foreseen_line_costs_no_more_as_a_hit_than_as_a_miss() {
    for name in core_names() {
        let points = [(4096, 40.0), (2 << 20, 40.0), (4 << 20, 0.01), (256 << 20, 0.01)];
        let stream = recording("stream", &points, |phase| phase.prefetchable = 0.99);
        let figures = curve(&core(&name).unwrap(), &stream);
        assert!(figures.is_sorted_by(|less, more| less.ipc <= more.ipc * (1.0 + 1e-9)), "{name}");
    }
}

/// A core whose predictor lies between those of recordings takes as many cycles as lies between them, and one of which nothing
/// is known is like the large one.
#[test]
fn a_core_lies_between_the_predictors_of_recordings() {
    let library = Library::shipped().unwrap();
    let named = core("big-out-of-order").unwrap();
    let curve = |share: Option<f64>, profile: &Profile| {
        let mut spec = named.machine.spec().clone();
        spec.core_types[0].large_predictor_share = share;
        curve(&NamedCore::of(Machine::from_spec(spec).unwrap(), None).unwrap(), profile)
    };
    for name in ["sqlite3", "gawk", "python3"] {
        let profile = library.get(name).unwrap();
        assert_eq!(curve(None, profile), curve(Some(1.0), profile), "{name}");
        let [large, between, small] = [1.0, 0.75, 0.0].map(|share| curve(Some(share), profile));
        for ((large, between), small) in large.iter().zip(between).zip(small) {
            let [large, between, small] = [large.ipc, between.ipc, small.ipc].map(f64::recip);
            assert!(small > 1.05 * large, "{name}: {small} {large}");
            let expected = 0.75 * large + 0.25 * small;
            assert!((between / expected - 1.0).abs() < 0.01, "{name}: {between} {expected}");
        }
    }
}
