//! Fig. 4.1: what aggressors on big and on small cores do to a program on a big core.

use super::bench::Bench;
use super::calibration::{AGGRESSOR_MPKI, stream, together};
use super::{figure, number, strings};
use crate::commands::study::classification::is_program;
use crate::commands::study::paper::Ground;
use crate::failure::Outcome;
use crate::report::{Finding, StudyFigure};

const MACHINES: [&str; 3] = ["juno-2b4s", "odroid-4b4s", "quickia-2b2s"];

pub(super) fn slowdowns(ground: &Ground) -> Outcome<(Finding, StudyFigure)> {
    let mut columns: Vec<[Vec<f64>; 3]> = Vec::new();
    let names: Vec<&str> = ground
        .shipped()?
        .iter()
        .map(|profile| profile.name.as_str())
        .filter(|name| is_program(name))
        .collect();
    for machine in MACHINES {
        let bench = Bench::new(machine)?;
        let aggressor = bench.load(&stream(AGGRESSOR_MPKI))?;
        let (big, small) = (bench.like(bench.big), bench.like(bench.small));
        let other = big.iter().copied().find(|&cpu| cpu != bench.big).unwrap_or(bench.big);
        let mut of = [Vec::new(), Vec::new(), Vec::new()];
        for name in &names {
            let program = bench.load(ground.shipped()?.get(name)?)?;
            let beside = |cpus: &[usize]| {
                let mut running = vec![(&*program, bench.big)];
                running.extend(cpus.iter().map(|&cpu| (&*aggressor, cpu)));
                let alone = together(&bench, &running[..1])[0].instructions_per_s;
                alone / together(&bench, &running)[0].instructions_per_s
            };
            of[0].push(beside(&[other]));
            of[1].push(beside(&small[..1]));
            of[2].push(beside(&small));
        }
        columns.push(of);
    }
    let mut header = strings(&["program"]);
    for machine in MACHINES {
        for what in ["1 on big", "1 on small", "all small"] {
            header.push(format!("{machine}, {what}"));
        }
    }
    let rows = names.iter().enumerate().map(|(place, name)| {
        let mut row = strings(&[name]);
        row.extend(columns.iter().flatten().map(|column| number(column[place], 3)));
        row
    });
    let most = |place: usize| {
        let each = columns.iter().map(|of| of[place].iter().copied().fold(1.0, f64::max));
        each.map(|most| format!("{most:.2}")).collect::<Vec<_>>().join(", ")
    };
    let finding = Finding {
        what: "Highest slowdown on a big core beside one aggressor on another, and beside aggressors on all small ones \
               (Fig. 4.1: Juno, Odroid, QuickIA)"
            .to_owned(),
        paper: "1.9, 2.65, 2.98; at most 1.26".to_owned(),
        ours: format!("{}; {}", most(0), most(2)),
        difference: "Other programs. The aggressor is a stream that every load of an instruction in three misses."
            .to_owned(),
    };
    let figure = figure(
        "fig-4-1",
        "Fig. 4.1: aggressors on big and on small cores",
        "A program's slowdown on a big core beside a stream on another big core, on a small one, and on all small ones.",
        None,
        header,
        rows.collect(),
    );
    Ok((finding, figure))
}
