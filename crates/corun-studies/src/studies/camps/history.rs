//! Fig. 4.5: the phase hit rate against the size of the history table.

use corun_app::Result;
use corun_profile::{Profile, ProfileData};
use corun_report::{Axis, Mark, Panel, Plot};

use super::big_little::BigLittle;
use super::mean;
use crate::harness::{Figure, PaperClaim, StudyInputs};
use crate::studies::classification::is_program;

const SIZES: [usize; 8] = [1, 2, 4, 8, 12, 16, 22, 32];
const SAMPLE_S: f64 = 0.05;
/// Length of a program alone on a big core, in s: some 4000 samples.
const SOLO_S: f64 = 200.0;
/// The policy's default.
const DISTANCE_PERCENT: f64 = 2.0;
const CHOSEN: usize = 6;

/// What the counters show of a program alone on a big core, interval by interval: L1 accesses and
/// branches per 1000 instructions.
fn samples(
    inputs: &StudyInputs,
    machine: &BigLittle,
    profile: &Profile,
) -> Result<Vec<(f64, f64)>> {
    let ProfileData::Recording(recording) = &profile.data else { return Ok(Vec::new()) };
    let program = inputs.shipped_on(&machine.model, &profile.name)?;
    let stretch = SOLO_S / (machine.alone_s(&program, machine.big) * program.instructions());
    let (mut samples, mut left_s) = (Vec::new(), SAMPLE_S);
    let (mut instructions, mut l1, mut branches) = (0.0, 0.0, 0.0);
    for part in &recording.sequence {
        let phase = &recording.phases[part.phase];
        let speed = machine.model.solo(&program, part.phase, machine.big).instructions_per_s;
        let mut rest_s = part.instructions as f64 * stretch / speed;
        while rest_s > 0.0 {
            let step_s = rest_s.min(left_s);
            (rest_s, left_s) = (rest_s - step_s, left_s - step_s);
            instructions += speed * step_s;
            l1 += speed * step_s * phase.data_accesses_pki;
            branches += speed * step_s * phase.mix.branches_pki;
            if left_s <= 1e-12 {
                samples.push((l1 / instructions, branches / instructions));
                (instructions, l1, branches, left_s) = (0.0, 0.0, 0.0, SAMPLE_S);
            }
        }
    }
    Ok(samples)
}

/// A program's hit rates: two in five samples train, or one; by [`SIZES`].
struct HitRates {
    program: String,
    rates: [Vec<Option<f64>>; 2],
}

impl HitRates {
    fn new(inputs: &StudyInputs, machine: &BigLittle, profile: &Profile) -> Result<Self> {
        let samples = samples(inputs, machine, profile)?;
        let rates = [3, 4].map(|least| {
            let train = |place: usize| place % 5 >= least;
            let rate = |&entries: &usize| {
                corun_policy::phase_hit_rate(&samples, entries, DISTANCE_PERCENT, train)
            };
            SIZES.iter().map(rate).collect()
        });
        Ok(Self { program: profile.name.clone(), rates })
    }
}

pub(super) fn hit_rates(inputs: &StudyInputs) -> Result<(PaperClaim, Figure)> {
    let machine = BigLittle::new("juno-2b4s")?;
    let profiles = inputs.shipped()?.iter().filter(|profile| is_program(&profile.name));
    let all = profiles.map(|profile| HitRates::new(inputs, &machine, profile));
    let all = all.collect::<Result<Vec<HitRates>>>()?;
    let of = |which: usize, size: usize| -> Vec<f64> {
        all.iter().filter_map(|one| one.rates[which][size]).collect()
    };
    let above = |which: usize| {
        let rates = of(which, CHOSEN);
        let good = rates.iter().filter(|&&rate| rate > 0.92).count();
        100.0 * good as f64 / rates.len().max(1) as f64
    };
    let least = |which: usize| 100.0 * of(which, CHOSEN).into_iter().fold(1.0, f64::min);
    let with_one_entry = 100.0 * mean(&of(0, 0));
    let finding = PaperClaim::new(
        "Programs with a phase hit rate above 92 % with 22 entries, 40 % and 20 % of samples training \
         (Fig. 4.5)",
        "95 % of them; the lowest 87.6 %",
        format!(
            "{:.0} % and {:.0} %; the lowest {:.1} % and {:.1} %",
            above(0),
            above(1),
            least(0),
            least(1)
        ),
    )
    .against_value(above(0), 95.0)
    .noting(format!("with one entry {with_one_entry:.1} % of samples hit, mean over programs"));
    let about = "In % of the samples that do not train, each program alone on a big core of juno-2b4s for \
                 200 s, a sample every 50 ms. Every fifth sample trains, or two in five. A recording's \
                 phases are stretched to that length, without noise within them.";
    let mut rows =
        Figure::new("fig-4-5", "Fig. 4.5: phase hit rate by entries of the history table", about)
            .rows("program", &all, |one| one.program.clone());
    for (which, share) in ["40 %", "20 %"].into_iter().enumerate() {
        for (size, entries) in SIZES.iter().enumerate() {
            let rate = |one: &HitRates| Some(100.0 * one.rates[which][size]?);
            rows = rows.column(format!("{share}, {entries}"), 1, rate);
        }
    }
    let series = [(0, "40 % train"), (1, "20 % train")].map(|(which, name)| {
        let means = (0..SIZES.len()).map(|size| Some(100.0 * mean(&of(which, size))));
        (name.to_owned(), means.collect())
    });
    let upwards = Axis::Linear("phase hit rate, %, mean over programs".to_owned(), Some(0.0));
    let labels = SIZES.iter().map(usize::to_string).collect();
    let panel = Panel::of_labels(Mark::DottedLine, "entries", labels, upwards, &series);
    Ok((finding, rows.table().drawn(Plot::of(panel))))
}
