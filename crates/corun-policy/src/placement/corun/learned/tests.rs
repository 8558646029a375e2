//! What is learnt, worked by hand.

use corun_machine::preset;
use corun_model::ModelOptions;

use super::*;
use crate::{Nanoseconds, ProcessId};

const FIGURES: Figures = Figures {
    apki: 20.0,
    core_cpi: 0.5,
    stall_per_miss: 100.0,
    bytes_per_miss: 64.0,
    point: Point { bytes: 1e6, mpki: 10.0 },
    instructions: 1e9,
};

/// Each figure by itself makes a program be loaded anew.
#[test]
fn figures_that_differ_in_one_figure_differ() {
    let with = |change: fn(&mut Figures)| {
        let mut figures = FIGURES;
        change(&mut figures);
        figures
    };
    let changed = [
        with(|one| one.apki = 21.0),
        with(|one| one.core_cpi = 0.6),
        with(|one| one.stall_per_miss = 110.0),
        with(|one| one.bytes_per_miss = 96.0),
        with(|one| one.point.mpki = 11.0),
        with(|one| one.point.bytes = 2e6),
    ];
    assert!(changed.iter().all(|one| FIGURES.differ(one) && one.differ(&FIGURES)));
    assert!(!FIGURES.differ(&with(|one| one.bytes_per_miss = 65.0)));
}

/// A mean of 10 misses with 1 MB. The phase before the trial had 20, twice as many: the 6 of the trial with 2 MB
/// are 3 on average. Without a reading before, they are taken as they are. Nothing else is learnt in a trial.
#[test]
fn a_trial_counts_as_its_phase_does_to_the_mean() {
    let mut known = Known::default();
    let trial = Point { bytes: 2e6, mpki: 6.0 };
    known.take_trial(trial, None, 1e9, 0.0);
    assert!(known.points.is_empty() && known.figures.is_none());
    known.take(FIGURES, 0.0);
    known.take_trial(trial, Some(&Point { bytes: 1e6, mpki: 20.0 }), 1e9, 0.0);
    let mpki = known.points[1].point.mpki;
    assert!((mpki - 6.0 * 10.05 / 20.05).abs() < 1e-9, "{mpki}");
    assert_eq!((known.points[1].intervals, known.intervals), (1, 1));
    let mut without = Known::default();
    without.take(FIGURES, 0.0);
    without.take_trial(trial, None, 1e9, 0.0);
    assert_eq!(without.points[1].point, trial);
    assert_eq!(without.figures.unwrap().apki, FIGURES.apki);
}

/// A machine on which programs come and go for ever: those that ran last are remembered.
#[test]
fn so_many_programs_are_remembered() {
    let machine = preset("xeon-x5365-2llc").unwrap();
    let model = Model::new(Arc::new(machine.clone()), ModelOptions::default()).unwrap();
    let mut learned = Learned::default();
    for number in 0..2 * MOST_PROGRAMS as u64 {
        let cpu = &machine.cpu_set();
        let program = format!("program {number}");
        let threads = [
            ThreadView::new(ThreadId(0), ProcessId(0), "always", cpu),
            ThreadView::new(ThreadId(1 + number), ProcessId(1 + number), program, cpu),
        ];
        let view = View { machine: &machine, threads: &threads, now: Nanoseconds(number) };
        let running: Vec<&ThreadView> = threads.iter().collect();
        let expected = [0, 1].map(|_| Expected { outcome: None, equal_share_bytes: 4e6 });
        learned.measure(&view, &running, &model, &expected, Spell::Usual);
    }
    assert_eq!(learned.programs.len(), MOST_PROGRAMS);
    let last = 2 * MOST_PROGRAMS - 1;
    let is_known = |program: &str| learned.programs.contains_key(program);
    assert!(is_known("always") && is_known(&format!("program {last}")));
    assert!(!is_known("program 0"));
}

/// A phase of 10 misses in 1e9 instructions, then one of 2 in 3e9: 16e6 misses in 4e9 instructions are 4 for 1000. A miss
/// stalls 100 cycles in the first and 200 in the second, which has 6e6 of the 16e6: 137.5.
#[test]
fn means_weigh_intervals_by_instructions_and_by_misses() {
    let mut known = Known::default();
    known.take(FIGURES, 0.0);
    let point = Point { bytes: 1e6, mpki: 2.0 };
    let latest = Figures { stall_per_miss: 200.0, apki: 4.0, instructions: 3e9, point, ..FIGURES };
    known.take(latest, 0.0);
    let figures = known.figures.unwrap();
    assert_eq!(known.points.len(), 1);
    assert!((known.points[0].point.mpki - 4.0).abs() < 1e-9);
    assert!((figures.stall_per_miss - 137.5).abs() < 0.1, "{}", figures.stall_per_miss);
    assert!((figures.apki - 8.0).abs() < 1e-9);
}

/// Of a past of weight 1 a tenth fades: the next value of weight 1 is 1 / 1.9 of the mean.
#[test]
fn the_past_fades() {
    let mut weights = Weights::default();
    assert_eq!(weights.share(1.0, 0.1), 1.0);
    assert!((weights.share(1.0, 0.1) - 1.0 / 1.9).abs() < 1e-12);
    assert_eq!(Weights::default().share(0.0, 0.1), 1.0);
}

/// 16 intervals without a change at 1 MB count as two phases, one at 2 MB as 17/16. Of 17 intervals at the mean and the 8
/// that count as usual the variance is 0.64 x 8 / 25. With a change in each interval at 2 MB, that size would be surer.
#[test]
fn sizes_that_were_held_for_a_moment_are_unsure() {
    let mut known = Known::default();
    let averages = |has_other_phase| Averages {
        latest_mpki: Some(10.0),
        has_other_phase,
        ..Averages::default()
    };
    for interval in 0..17 {
        let bytes = if interval < 16 { 1e6 } else { 2e6 };
        let figures = Figures { point: Point { bytes, mpki: 10.0 }, ..FIGURES };
        known.take(figures, 0.0);
        known.note_phase(&averages(false), &figures.point, Spell::Usual);
    }
    let [long, short] = known.counted()[..] else { panic!("two sizes") };
    assert_eq!(long.deviation, 0.0);
    known.points[1].is_tried = true;
    assert_eq!(known.counted()[1].deviation, 0.0, "of the phase before the trial");
    known.points[1].is_tried = false;
    let variance: f64 = 0.64 * 8.0 / 25.0 * (1.0 / (17.0 / 16.0) + 1.0 / 2.0);
    assert!((short.deviation - variance.sqrt()).abs() < 1e-9, "{}", short.deviation);
    for _ in 0..2 {
        let figures = Figures { point: Point { bytes: 2e6, mpki: 10.0 }, ..FIGURES };
        known.take(figures, 0.0);
        known.note_phase(&averages(true), &figures.point, Spell::Usual);
    }
    assert!(known.counted()[1].deviation == 0.0 && known.counted()[0].deviation > 0.0);
}

/// One interval of 10 misses: the level is as unsure as one phase of many, (0.64 x 8) / 9 over 17/16 phases. 400 intervals of
/// the same: 0.64 x 8 / 408 over 26 phases, and what is left is what one size says of the others.
#[test]
fn confidence_comes_with_phases_and_with_sizes() {
    let machine = preset("i7-2600").unwrap();
    let averages = Averages { latest_mpki: Some(10.0), ..Averages::default() };
    let after = |intervals: u32, sizes: &[f64]| {
        let mut known = Known::default();
        for interval in 0..intervals {
            let bytes = sizes[interval as usize % sizes.len()];
            let figures = Figures { point: Point { bytes, mpki: 10.0 }, ..FIGURES };
            known.take(figures, 0.0);
            known.note_phase(&averages, &figures.point, Spell::Usual);
        }
        known
    };
    let one = after(1, &[4e6]);
    let level = (0.64_f64 * 8.0 / 9.0 / (17.0 / 16.0)).exp() - 1.0;
    assert!((one.phase_error() - level).abs() < 1e-9, "{}", one.phase_error());
    let many = after(400, &[4e6]);
    let level = (0.64_f64 * 8.0 / 408.0 / 26.0).exp() - 1.0;
    assert!((many.phase_error() - level).abs() < 1e-9, "{}", many.phase_error());
    let sure = |known: &Known| known.plain(&machine).unwrap().confidence;
    let several = after(400, &[1e6, 2e6, 4e6, 8e6]);
    assert!(sure(&one) < 0.6 && sure(&one) < sure(&many) && sure(&many) < sure(&several));
    assert!(sure(&several) > 0.9, "{}", sure(&several));
    assert!(Known::default().plain(&machine).is_none());
}

/// Towards quiet a program asks for less and slows nobody at the end; figures that cannot be are told.
#[test]
fn a_learned_program_is_loaded_as_far_as_it_is_sure() {
    let machine = preset("i7-2600").unwrap();
    let model = Model::new(Arc::new(machine.clone()), ModelOptions::default()).unwrap();
    let mpki: Vec<f64> = (0..16).map(|at| 16.0 - f64::from(at)).collect();
    let whole = FIGURES.with_misses(mpki.into_iter(), 0.5);
    assert!(whole.is_possible());
    let asks = |share: f64| {
        let program = whole.towards_quiet(share).load("p", &machine, &model).unwrap();
        crate::solo_figures(&program)
    };
    let (all, half, none) = (asks(1.0), asks(0.5), asks(0.0));
    assert!((all.llc_mpki - 1.0).abs() < 0.1 && (half.llc_mpki - 0.5).abs() < 0.05, "{all:?}");
    assert!(half.memory_bytes_per_s < 0.6 * all.memory_bytes_per_s);
    assert_eq!((none.llc_mpki, none.memory_bytes_per_s), (0.0, 0.0));
    let not = |change: fn(&mut LearnedProgram)| {
        let mut program = whole.clone();
        change(&mut program);
        !program.is_possible()
    };
    assert!(not(|one| one.core_cpi = f64::NAN) && not(|one| one.bytes_per_miss = 0.0));
    assert!(not(|one| one.confidence = 1.5) && not(|one| one.llc_mpki[3] = -1.0));
    assert!(not(|one| one.llc_mpki.truncate(15)) && not(|one| one.llc_mpki[0] = 21.0));
}

/// Where a host is made anew the programs are known still, and its threads are no others'.
#[test]
fn a_learner_knows_programs_by_their_names_in_the_next_host() {
    let machine = preset("xeon-x5365-2llc").unwrap();
    let learner = crate::CurveLearner::new(Nanoseconds(1_000_000_000), 60.0);
    let view_of = |mpki: f64| {
        let mut thread = ThreadView::new(ThreadId(0), ProcessId(0), "p", &machine.cpu_set());
        thread.cpu = Some(machine.cpus()[0].id);
        let misses = crate::ScopedRate { per_s: mpki * 1e6, scope: crate::Scope::Demand };
        thread.rates = Rates {
            cpu_share: Some(1.0),
            instructions_per_s: Some(1e9),
            cycles_per_s: Some(2e9),
            llc_misses: Some(misses),
            ..Rates::default()
        };
        [thread]
    };
    let mut misses = Vec::new();
    for mpki in [8.0, 8.0, 2.0] {
        let mut policy = learner.policy();
        assert!(policy.needs().controls.is_empty());
        let threads = view_of(mpki);
        let view = View { machine: &machine, threads: &threads, now: Nanoseconds(0) };
        assert!(policy.decide(&view).steps.is_empty());
        let running = learner.running();
        let [(name, program)] = &running[..] else { panic!("one program") };
        assert_eq!(name, "p");
        misses.push(program.llc_mpki[8]);
    }
    // A third of what was counted is of 2 misses: not all of it, and not nothing.
    assert!(misses[2] < 0.9 * misses[1] && misses[2] > 0.4 * misses[1], "{misses:?}");
    let mut policy = learner.policy();
    let nobody = View { machine: &machine, threads: &[], now: Nanoseconds(0) };
    policy.decide(&nobody);
    assert!(learner.running().is_empty());
}
