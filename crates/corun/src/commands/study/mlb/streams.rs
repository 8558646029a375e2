//! Fig. 2 to 4: what streams do to the memory, and whether the level foretells slowdowns.

use corun_metrics::mean;
use corun_model::{ContentionLaw, Member, Outcome as Rates, Running, Scratch, contention_level};
use corun_policy::REQUEST_BYTES;
use corun_profile::Library;

use super::bench::Bench;
use super::figure;
use crate::failure::Outcome;
use crate::report::{Chart, ChartKind, Finding, StudyFigure, strings};

/// Fig. 4 has four platforms and names three; these are the presets that are near.
const PLATFORMS: [&str; 4] = ["i7-2600", "xeon-e5-2690", "xeon-e5-2620v4", "xeon-gold-6138"];
const MOST_STREAMS: usize = 8;

/// Fig. 3's programs on the i7-2600.
const TARGETS: [&str; 6] = ["lbm", "libquantum", "soplex", "GemsFDTD", "omnetpp", "tonto"];

/// The levels beside three streams on the i7-2600 (section 3.2), in the order of [`TARGETS`].
const PAPER_LEVELS: [f64; 6] = [11.6, 10.1, 10.88, 9.55, 7.66, 7.68];

/// Eq. 4's constants of the paper (section 4.2): machine, inclination, baseline.
const PAPER_LAWS: [(&str, f64, f64); 2] = [("i7-2600", 0.77, 0.54), ("xeon-e5-2690", 0.1, 0.2)];

/// Fig. 2: streams on the Xeon E5-2690.
pub(super) fn fig_2(bench: &Bench) -> Outcome<StudyFigure> {
    let streams = bench.model.streams().map_err(|error| anyhow::anyhow!(error))?;
    let gb = |outcomes: &[Rates]| outcomes.iter().map(|one| one.bytes_per_s).sum::<f64>() * 1e-9;
    let full = |outcomes: &[Rates]| {
        let again = |one: &Rates| one.bytes_per_s / REQUEST_BYTES * one.memory_retries_per_request;
        outcomes.iter().map(again).sum::<f64>() * 1e-9
    };
    let row = |(place, outcomes): (usize, &Vec<Rates>)| {
        vec![
            (place + 1).to_string(),
            format!("{:.1}", gb(outcomes)),
            format!("{:.2}", full(outcomes)),
            format!("{:.2}", contention_level(outcomes)),
        ]
    };
    let of = |value: &dyn Fn(&[Rates]) -> f64| {
        streams.iter().map(|outcomes| Some(value(outcomes))).collect::<Vec<_>>()
    };
    Ok(figure(
        "fig-2",
        "Fig. 2: streams on the Xeon E5-2690",
        "The paper: bandwidth saturates near 50 GB/s at 5 or 6 streams while the rate of full buffers \
         grows with the square. Here bandwidth rises more slowly, since requests wait for one another \
         in the model long before the peak.",
        Some(Chart {
            kind: ChartKind::LinesFrom(0.0),
            across: "streams".to_owned(),
            upwards: "GB/s; full buffers in 1e9/s".to_owned(),
            labels: (1..=streams.len()).map(|count| count.to_string()).collect(),
            series: vec![("bandwidth".to_owned(), of(&gb)), ("buffer full".to_owned(), of(&full))],
        }),
        strings(&["streams", "bandwidth, GB/s", "buffer full, 1e9/s", "contention level"]),
        streams.iter().enumerate().map(row).collect(),
    ))
}

/// Fig. 4 and eq. 4's constants.
pub(super) fn fig_4() -> Outcome<(StudyFigure, Finding)> {
    let mut laws: Vec<(&str, ContentionLaw, Vec<f64>)> = Vec::new();
    for name in PLATFORMS {
        let levels = Bench::new(name)?.model.stream_levels();
        let levels = levels.map_err(|error| anyhow::anyhow!(error))?;
        if let Some(law) = ContentionLaw::fit(&levels) {
            laws.push((name, law, levels.into_iter().take(MOST_STREAMS).collect()));
        }
    }
    let paper = |name: &str| PAPER_LAWS.iter().find(|(machine, ..)| *machine == name);
    let row = |(name, law, levels): &(&str, ContentionLaw, Vec<f64>)| {
        let theirs = |of: fn(&(&str, f64, f64)) -> f64| {
            paper(name).map_or_else(|| "-".to_owned(), |one| format!("{}", of(one)))
        };
        let mut row = vec![
            (*name).to_owned(),
            format!("{:.3}", law.inclination),
            theirs(|one| one.1),
            format!("{:.2}", law.baseline),
            theirs(|one| one.2),
        ];
        row.extend(levels.iter().map(|level| format!("{level:.2}")));
        row.resize(5 + MOST_STREAMS, "-".to_owned());
        row
    };
    let inclination = |name: &str| {
        laws.iter().find(|one| one.0 == name).map_or(f64::NAN, |one| one.1.inclination)
    };
    let finding = Finding {
        what: "Inclination of eq. 4, i7-2600 and Xeon E5-2690 (section 4.2)".to_owned(),
        paper: "0.77 and 0.1, ratio 7.7".to_owned(),
        ours: format!(
            "{:.2} and {:.3}, ratio {:.1}",
            inclination("i7-2600"),
            inclination("xeon-e5-2690"),
            inclination("i7-2600") / inclination("xeon-e5-2690")
        ),
        difference: "Not fitted: the model's square follows from U / (1 - U), whose unit is retries \
                     a request. Real counters count cycles, and their baseline holds background work."
            .to_owned(),
    };
    let mut header =
        strings(&["machine", "inclination", "paper's", "baseline", "paper's baseline"]);
    header.extend((1..=MOST_STREAMS).map(|count| format!("level, {count}")));
    let figure = figure(
        "fig-4",
        "Fig. 4: contention level by streams, and eq. 4's constants",
        "Level = inclination x streams^2 + baseline, by least squares over one stream a core at most. The \
         steeper the less bandwidth, as in the paper.",
        Some(Chart {
            kind: ChartKind::LinesFrom(0.0),
            across: "streams".to_owned(),
            upwards: "contention level".to_owned(),
            labels: (1..=MOST_STREAMS).map(|count| count.to_string()).collect(),
            series: laws
                .iter()
                .map(|(name, _, levels)| {
                    let at = |place: usize| levels.get(place).copied();
                    ((*name).to_owned(), (0..MOST_STREAMS).map(at).collect())
                })
                .collect(),
        }),
        header,
        laws.iter().map(row).collect(),
    );
    Ok((figure, finding))
}

/// A program beside so many streams.
struct Point {
    program: &'static str,
    streams: usize,
    level: f64,
    /// By eq. 3.
    predicted: f64,
    slowdown: f64,
}

/// Fig. 3: the predictor of eq. 2 and 3 against the slowdown, on one machine.
pub(super) fn fig_3(
    bench: &Bench,
    library: &Library,
    machine: &'static str,
) -> Outcome<(StudyFigure, Finding)> {
    let mut points = Vec::new();
    for program in TARGETS {
        points.extend(beside_streams(bench, library, program)?);
    }
    let of_program = |program: &str| {
        let of: Vec<&Point> = points.iter().filter(|point| point.program == program).collect();
        correlation(&of)
    };
    let each: Vec<f64> = TARGETS.iter().map(|program| of_program(program)).collect();
    let all = correlation(&points.iter().collect::<Vec<_>>());
    let row = |(place, point): (usize, &Point)| {
        let target = place / (points.len() / TARGETS.len());
        let beside_three = machine == "i7-2600" && point.streams == 3;
        vec![
            format!("{} + {}", point.program, point.streams),
            format!("{:.2}", point.level),
            if beside_three { PAPER_LEVELS[target].to_string() } else { "-".to_owned() },
            format!("{:.3}", point.predicted),
            format!("{:.3}", point.slowdown),
            format!("{:.3}", each[target]),
        ]
    };
    let least = each.iter().copied().fold(f64::INFINITY, f64::min);
    let finding = Finding {
        what: format!("Predicted against measured degradation on {machine} (Fig. 3)"),
        paper: "fairly proportional for each program".to_owned(),
        ours: format!(
            "correlation {least:.3} or more for each of {} programs, {all:.3} over all",
            TARGETS.len()
        ),
        difference: "Over all programs it is looser: eq. 2's share of LLC hits makes a program \
                     without any hits insensitive, and a stream has none."
            .to_owned(),
    };
    let figure = figure(
        &format!("fig-3-{machine}"),
        &format!("Fig. 3: eq. 3's prediction and the slowdown on {machine}"),
        "Each program beside 0, 1, .. streams. Eq. 3 is the level times the program's sensitivity: its LLC \
         hit ratio times its share of stalled cycles, both alone. The last column is the correlation over \
         the program's rows.",
        Some(Chart {
            kind: ChartKind::LinesFrom(1.0),
            across: "streams beside it".to_owned(),
            upwards: "slowdown".to_owned(),
            labels: (0..points.len() / TARGETS.len()).map(|count| count.to_string()).collect(),
            series: TARGETS
                .iter()
                .map(|&program| {
                    let of = points.iter().filter(|point| point.program == program);
                    (program.to_owned(), of.map(|point| Some(point.slowdown)).collect())
                })
                .collect(),
        }),
        strings(&[
            "program + streams",
            "level",
            "paper's level",
            "predicted",
            "slowdown",
            "correlation",
        ]),
        points.iter().enumerate().map(row).collect(),
    );
    Ok((figure, finding))
}

fn beside_streams(bench: &Bench, library: &Library, name: &'static str) -> Outcome<Vec<Point>> {
    let program = bench.spec(library, name)?;
    let stream = bench.load(&corun_model::stream_profile())?;
    let alone = bench.model.solo(&program, 0, 0);
    let hits = 1.0 - alone.llc_mpki / alone.llc_apki;
    let sensitivity = hits * alone.memory_stall_share;
    let mut scratch = Scratch::new();
    let point = |streams: usize| {
        let on = |cpu: usize| Running {
            member: Member { program: if cpu == 0 { &program } else { &stream }, phase: 0, cpu },
            home: &[],
            group: None,
        };
        let running: Vec<Running<'_>> = (0..=streams).map(on).collect();
        let mut outcomes = Vec::new();
        bench.model.solve(&running, &mut scratch, &mut outcomes);
        let level = contention_level(&outcomes);
        let slowdown = outcomes[0].slowdown;
        Point { program: name, streams, level, predicted: level * sensitivity, slowdown }
    };
    Ok((0..bench.cpus.len()).map(point).collect())
}

/// Pearson's, of predictions and slowdowns.
fn correlation(points: &[&Point]) -> f64 {
    let of =
        |value: fn(&Point) -> f64| points.iter().map(|point| value(point)).collect::<Vec<f64>>();
    let (x, y) = (of(|point| point.predicted), of(|point| point.slowdown));
    let (mean_x, mean_y) = (mean(&x).unwrap_or(f64::NAN), mean(&y).unwrap_or(f64::NAN));
    let sum = |of: &dyn Fn(f64, f64) -> f64| {
        x.iter().zip(&y).map(|(x, y)| of(x - mean_x, y - mean_y)).sum::<f64>()
    };
    sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt()
}
