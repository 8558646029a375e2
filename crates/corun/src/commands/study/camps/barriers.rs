//! Programs whose threads wait for each other in loops, with and without spin notification (section 4.3.5):
//! Table 4.5's mixes with programs of several threads.

use corun_profile::{Barrier, Waiting};
use corun_sim::AppSpec;
use rayon::prelude::*;

use super::bench::{Bench, Member, Played};
use super::mixes::TABLE_4_5;
use super::{figure, number, strings};
use crate::commands::study::paper::Ground;
use crate::commands::study::runs::Asked;
use crate::failure::Outcome;
use crate::report::{Chart, ChartKind, Finding, StudyFigure};

/// How long each thread is alone on a big core, in s.
const SOLO_S: f64 = 10.0;

/// Times from one barrier to the next, alone on a big core, in s.
const BETWEEN_S: [f64; 3] = [0.002, 0.02, 0.2];

const TOLD: usize = 0;
const NOT_TOLD: usize = 1;
const POLICIES: [Asked; 3] = [
    Asked::plain("camps"),
    Asked { shown: "camps, not told", policy: "camps", parameters: &[("spin-notification", 0.0)] },
    Asked::plain("acfs"),
];

/// A mix, how long its threads work between two barriers, and what each policy made of it.
struct Row {
    mix: usize,
    between_s: f64,
    played: Vec<Played>,
}

impl Row {
    fn name(&self) -> String {
        format!("M{}, {} ms", self.mix + 1, self.between_s * 1e3)
    }
}

fn with_barriers(
    ground: &Ground,
    bench: &Bench,
    mix: &[Member],
    between_s: f64,
) -> Outcome<Vec<AppSpec>> {
    let mut apps = bench.apps(ground, mix, SOLO_S)?;
    for app in apps.iter_mut().filter(|app| app.threads > 1) {
        let every = between_s / bench.alone_s(&app.program, bench.big);
        app.barrier = Some(Barrier { every_instructions: every as u64, waiting: Waiting::Spin });
    }
    Ok(apps)
}

/// The mixes under CAMPS that is told who spins, CAMPS that is not, and ACFS.
pub(super) fn spinning(ground: &Ground) -> Outcome<(Finding, StudyFigure)> {
    let bench = Bench::new("odroid-4b4s")?;
    let threaded = |mix: &usize| TABLE_4_5[*mix].iter().any(|member| member.1 > 1);
    let cases: Vec<(f64, usize)> = BETWEEN_S
        .into_iter()
        .flat_map(|between_s| {
            (0..TABLE_4_5.len()).filter(threaded).map(move |mix| (between_s, mix))
        })
        .collect();
    let play = |&(between_s, mix): &(f64, usize)| {
        let apps = with_barriers(ground, &bench, TABLE_4_5[mix], between_s)?;
        let one = |asked: &Asked| bench.play_apps(ground, &apps, (asked.policy, asked.parameters));
        let played = POLICIES.iter().map(one).collect::<Outcome<_>>()?;
        Ok(Row { mix, between_s, played })
    };
    let rows: Vec<Row> = cases.par_iter().map(play).collect::<Outcome<_>>()?;
    Ok((finding(&rows), page(&rows)))
}

/// By how many % unfairness is lower and ASP higher when CAMPS is told.
fn worth(rows: &[Row], between_s: f64) -> (f64, f64) {
    let of = |of: fn(&Played, &Played) -> f64| {
        let these = rows.iter().filter(|row| row.between_s == between_s);
        let each: Vec<f64> =
            these.map(|row| 100.0 * of(&row.played[TOLD], &row.played[NOT_TOLD])).collect();
        each.iter().sum::<f64>() / each.len() as f64
    };
    (
        of(|told, not| 1.0 - told.unfairness / not.unfairness),
        of(|told, not| told.asp / not.asp - 1.0),
    )
}

fn finding(rows: &[Row]) -> Finding {
    let of = |between_s: f64| {
        let (less, more) = worth(rows, between_s);
        format!("{less:+.1} %, {more:+.1} % ({} ms)", between_s * 1e3)
    };
    Finding {
        what: "Spin notification: unfairness lower by, ASP higher by, at so long between two barriers (section 4.3.5)"
            .to_owned(),
        paper: "without it \"serious slowdown mispredictions\"; no figure".to_owned(),
        ours: BETWEEN_S.map(of).join("; "),
        difference: "All programs of four threads have barriers here, all alike; of the thesis's we do not know where \
                     theirs are."
            .to_owned(),
    }
}

fn page(rows: &[Row]) -> StudyFigure {
    let mut header = strings(&["mix, between barriers"]);
    for what in ["unfairness", "ASP", "swaps/s"] {
        header.extend(POLICIES.iter().map(|one| format!("{what}, {}", one.shown)));
    }
    let cells = |row: &Row| {
        let mut cells = vec![row.name()];
        cells.extend(row.played.iter().map(|one| number(one.unfairness, 3)));
        cells.extend(row.played.iter().map(|one| number(one.asp, 3)));
        cells.extend(row.played.iter().map(|one| number(one.swaps_per_s, 2)));
        cells
    };
    let series = |place: usize| {
        let value = |row: &Row| Some(row.played[place].unfairness).filter(|one| one.is_finite());
        (POLICIES[place].shown.to_owned(), rows.iter().map(value).collect())
    };
    let chart = Chart {
        kind: ChartKind::BarsFrom(1.0),
        across: "mix and time between two barriers".to_owned(),
        upwards: "unfairness".to_owned(),
        labels: rows.iter().map(Row::name).collect(),
        series: (0..POLICIES.len()).map(series).collect(),
    };
    let about = "Table 4.5's mixes with programs of four threads, whose threads now meet at barriers, so long after each \
                 other alone on a big core; who comes early waits in a loop on its CPU. \"Not told\" takes what the loop \
                 retires for work (parameter spin-notification = 0); acfs never looks. Slowdowns are against the program \
                 alone on the machine, barriers included.";
    let heading =
        "Section 4.3.5: spinning threads, with and without spin notification, on odroid-4b4s";
    figure(
        "spin-notification",
        heading,
        about,
        Some(chart),
        header,
        rows.iter().map(cells).collect(),
    )
}
