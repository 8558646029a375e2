//! Fig. 4.5: the phase hit rate against the size of the history table.

use corun_profile::{Profile, ProfileData};

use super::bench::Bench;
use super::{figure, number, strings};
use crate::commands::study::classification::is_program;
use crate::commands::study::paper::Ground;
use crate::failure::Outcome;
use crate::report::{Chart, ChartKind, Finding, StudyFigure};

const SIZES: [usize; 8] = [1, 2, 4, 8, 12, 16, 22, 32];
const SAMPLE_S: f64 = 0.05;
/// Length of a program alone on a big core, in s: some 4000 samples.
const SOLO_S: f64 = 200.0;
/// The policy's default.
const DISTANCE_PERCENT: f64 = 2.0;
const CHOSEN: usize = 6;

/// What the counters show of a program alone on a big core, interval by interval: L1 accesses and
/// branches per 1000 instructions.
fn samples(bench: &Bench, profile: &Profile) -> Outcome<Vec<(f64, f64)>> {
    let ProfileData::Recording(recording) = &profile.data else { return Ok(Vec::new()) };
    let program = bench.load(profile)?;
    let stretch = SOLO_S / (bench.alone_s(&program, bench.big) * program.instructions());
    let (mut samples, mut left_s) = (Vec::new(), SAMPLE_S);
    let (mut instructions, mut l1, mut branches) = (0.0, 0.0, 0.0);
    for part in &recording.sequence {
        let phase = &recording.phases[part.phase];
        let speed = bench.model.solo(&program, part.phase, bench.big).instructions_per_s;
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

pub(super) fn hit_rates(ground: &Ground) -> Outcome<(Finding, StudyFigure)> {
    let bench = Bench::new("juno-2b4s")?;
    let (mut rows, mut chosen) = (Vec::new(), [Vec::new(), Vec::new()]);
    let mut means = vec![[0.0; 2]; SIZES.len()];
    for profile in ground.shipped()?.iter().filter(|profile| is_program(&profile.name)) {
        let samples = samples(&bench, profile)?;
        let mut row = vec![profile.name.clone()];
        // Two in five samples train, or one.
        for (which, least) in [3, 4].into_iter().enumerate() {
            for (size, &entries) in SIZES.iter().enumerate() {
                let train = |place: usize| place % 5 >= least;
                let rate = corun_policy::phase_hit_rate(&samples, entries, DISTANCE_PERCENT, train);
                let Some(rate) = rate else { continue };
                means[size][which] += rate;
                if size == CHOSEN {
                    chosen[which].push(rate);
                }
                row.push(number(100.0 * rate, 1));
            }
        }
        rows.push(row);
    }
    let count = rows.len() as f64;
    let above = |rates: &[f64]| {
        let good = rates.iter().filter(|&&rate| rate > 0.92).count();
        100.0 * good as f64 / rates.len().max(1) as f64
    };
    let least = |rates: &[f64]| 100.0 * rates.iter().copied().fold(1.0, f64::min);
    let finding = Finding {
        what: "Programs with a phase hit rate above 92 % with 22 entries, 40 % and 20 % of samples training (Fig. 4.5)"
            .to_owned(),
        paper: "95 % of them; the lowest 87.6 %".to_owned(),
        ours: format!(
            "{:.0} % and {:.0} %; the lowest {:.1} % and {:.1} %",
            above(&chosen[0]),
            above(&chosen[1]),
            least(&chosen[0]),
            least(&chosen[1])
        ),
        difference: "An easy test here: a recording's phases are stretched to 200 s, so each lasts for many samples, and \
                     there is no noise within them. One entry would nearly do."
            .to_owned(),
    };
    let mut header = strings(&["program"]);
    for share in ["40 %", "20 %"] {
        header.extend(SIZES.iter().map(|size| format!("{share}, {size}")));
    }
    let series = |(which, name): (usize, &str)| {
        let mean = |one: &[f64; 2]| Some(100.0 * one[which] / count);
        (name.to_owned(), means.iter().map(mean).collect())
    };
    let chart = Chart {
        kind: ChartKind::LinesFrom(0.0),
        across: "entries".to_owned(),
        upwards: "phase hit rate, %, mean over programs".to_owned(),
        labels: SIZES.iter().map(usize::to_string).collect(),
        series: [(0, "40 % train"), (1, "20 % train")].into_iter().map(series).collect(),
    };
    let figure = figure(
        "fig-4-5",
        "Fig. 4.5: phase hit rate by entries of the history table",
        "In % of the samples that do not train, each program alone on a big core of juno-2b4s for 200 s, a sample every \
         50 ms. Every fifth sample trains, or two in five.",
        Some(chart),
        header,
        rows,
    );
    Ok((finding, figure))
}
