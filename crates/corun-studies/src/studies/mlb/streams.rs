//! Fig. 2 to 4: what streams do to the memory, and whether the level foretells slowdowns.

use corun_app::{Error, Result};
use corun_metrics::correlation;
use corun_model::{ContentionLaw, Outcome as Rates, Running, Scratch, contention_level};
use corun_policy::REQUEST_BYTES;
use corun_profile::Library;
use corun_report::{Axis, Mark, Panel, Plot};

use super::platform::Platform;
use crate::harness::{Figure, PaperClaim};

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
pub(super) fn fig_2(platform: &Platform) -> Result<Figure> {
    let streams = platform.model.streams().map_err(Error::failed)?;
    let gb = |outcomes: &[Rates]| outcomes.iter().map(|one| one.bytes_per_s).sum::<f64>() * 1e-9;
    let full = |outcomes: &[Rates]| {
        let again = |one: &Rates| one.bytes_per_s / REQUEST_BYTES * one.memory_retries_per_request;
        outcomes.iter().map(again).sum::<f64>() * 1e-9
    };
    let counted: Vec<(usize, &Vec<Rates>)> = (1..).zip(&streams).collect();
    let about = "The paper: bandwidth saturates near 50 GB/s at 5 or 6 streams while the rate of full \
                 buffers grows with the square.";
    Ok(Figure::new("fig-2", "Fig. 2: streams on the Xeon E5-2690", about)
        .rows("streams", &counted, |(count, _)| count.to_string())
        .column("bandwidth, GB/s", 1, |(_, one)| gb(one))
        .drawn("bandwidth")
        .column("buffer full, 1e9/s", 2, |(_, one)| full(one))
        .drawn("buffer full")
        .column("contention level", 2, |(_, one)| contention_level(one))
        .lines(0.0, "GB/s; full buffers in 1e9/s"))
}

/// A platform's law of contention, and its level by streams.
struct Fitted {
    machine: &'static str,
    law: ContentionLaw,
    levels: Vec<f64>,
}

impl Fitted {
    /// The paper's machine, inclination and baseline, where it has them.
    fn paper(&self) -> Option<&'static (&'static str, f64, f64)> {
        PAPER_LAWS.iter().find(|(machine, ..)| *machine == self.machine)
    }
}

/// Fig. 4 and eq. 4's constants.
pub(super) fn fig_4() -> Result<(Figure, Vec<PaperClaim>)> {
    let mut laws: Vec<Fitted> = Vec::new();
    for machine in PLATFORMS {
        let levels = Platform::new(machine)?.model.stream_levels().map_err(Error::failed)?;
        if let Some(law) = ContentionLaw::fit(&levels) {
            laws.push(Fitted { machine, law, levels });
        }
    }
    let inclination = |name: &str| {
        laws.iter().find(|one| one.machine == name).map_or(f64::NAN, |one| one.law.inclination)
    };
    let ratio = inclination("i7-2600") / inclination("xeon-e5-2690");
    let finding = PaperClaim::new(
        "Inclination of eq. 4, i7-2600 and Xeon E5-2690 (section 4.2)",
        "0.77 and 0.1, ratio 7.7",
        format!(
            "{:.2} and {:.3}, ratio {ratio:.1}",
            inclination("i7-2600"),
            inclination("xeon-e5-2690"),
        ),
    )
    .against_value(ratio, 7.7);
    let about = "Level = inclination x streams^2 + baseline, by least squares over one stream a core at \
                 most; the paper: the steeper the less bandwidth.";
    let heading = "Fig. 4: contention level by streams, and eq. 4's constants";
    // The paper's constants are written as it has them.
    let theirs = |one: &Fitted, of: fn(&(&str, f64, f64)) -> f64| {
        one.paper().map_or("-".to_owned(), |paper| of(paper).to_string())
    };
    let mut rows = Figure::new("fig-4", heading, about)
        .rows("machine", &laws, |one| one.machine.to_owned())
        .column("inclination", 3, |one| one.law.inclination)
        .words("paper's", |one| theirs(one, |paper| paper.1))
        .column("baseline", 2, |one| one.law.baseline)
        .words("paper's baseline", |one| theirs(one, |paper| paper.2));
    for count in 1..=MOST_STREAMS {
        let head = format!("level, {count}");
        rows = rows.column(head, 2, |one| one.levels.get(count - 1).copied());
    }
    let figure = rows.table().drawn(Plot::of(by_streams(&laws)));
    Ok((figure, vec![finding]))
}

fn by_streams(laws: &[Fitted]) -> Panel {
    let series: Vec<(String, Vec<Option<f64>>)> = laws
        .iter()
        .map(|one| {
            let levels = (0..MOST_STREAMS).map(|place| one.levels.get(place).copied());
            (one.machine.to_owned(), levels.collect())
        })
        .collect();
    let labels = (1..=MOST_STREAMS).map(|count| count.to_string()).collect();
    let upwards = Axis::Linear("contention level".to_owned(), Some(0.0));
    Panel::of_labels(Mark::DottedLine, "streams", labels, upwards, &series)
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
    platform: &Platform,
    library: &Library,
    machine: &'static str,
) -> Result<(Figure, Vec<PaperClaim>)> {
    let mut points = Vec::new();
    for program in TARGETS {
        points.extend(beside_streams(platform, library, program)?);
    }
    let correlated = |of: &dyn Fn(&&Point) -> bool| {
        let of = points.iter().filter(of).map(|point| (point.predicted, point.slowdown));
        let (predicted, slowdown): (Vec<f64>, Vec<f64>) = of.unzip();
        correlation(&predicted, &slowdown).unwrap_or(f64::NAN)
    };
    let each = TARGETS.map(|program| correlated(&|point| point.program == program));
    let all = correlated(&|_| true);
    let least = each.iter().copied().fold(f64::INFINITY, f64::min);
    let finding = PaperClaim::new(
        format!("Predicted against measured degradation on {machine} (Fig. 3)"),
        "fairly proportional for each program",
        format!(
            "correlation {least:.3} or more for each of {} programs, {all:.3} over all",
            TARGETS.len()
        ),
    );
    let target = |point: &Point| TARGETS.iter().position(|one| *one == point.program).unwrap_or(0);
    // Written as the paper has it.
    let papers = |point: &Point| {
        let has = machine == "i7-2600" && point.streams == 3;
        if has { PAPER_LEVELS[target(point)].to_string() } else { "-".to_owned() }
    };
    let about = "Each program beside 0, 1, .. streams. Eq. 3 is the level times the program's \
                 sensitivity: its LLC hit ratio times its share of stalled cycles, both alone. The last \
                 column is the correlation over the program's rows.";
    let heading = format!("Fig. 3: eq. 3's prediction and the slowdown on {machine}");
    let figure = Figure::new(format!("fig-3-{machine}"), heading, about)
        .rows("program + streams", &points, |one| format!("{} + {}", one.program, one.streams))
        .column("level", 2, |one| one.level)
        .words("paper's level", papers)
        .column("predicted", 3, |one| one.predicted)
        .column("slowdown", 3, |one| one.slowdown)
        .column("correlation", 3, |one| each[target(one)])
        .table()
        .drawn(Plot::of(slowdowns(&points)));
    Ok((figure, vec![finding]))
}

fn slowdowns(points: &[Point]) -> Panel {
    let series = TARGETS.map(|program| {
        let of = points.iter().filter(|point| point.program == program);
        (program.to_owned(), of.map(|point| Some(point.slowdown)).collect())
    });
    let labels = (0..points.len() / TARGETS.len()).map(|count| count.to_string()).collect();
    let upwards = Axis::Linear("slowdown".to_owned(), Some(1.0));
    Panel::of_labels(Mark::DottedLine, "streams beside it", labels, upwards, &series)
}

fn beside_streams(
    platform: &Platform,
    library: &Library,
    name: &'static str,
) -> Result<Vec<Point>> {
    let program = platform.spec(library, name)?;
    let stream = platform.load(&corun_model::stream_profile())?;
    let alone = platform.model.solo(&program, 0, 0);
    let hits = 1.0 - alone.llc_mpki / alone.llc_apki;
    let sensitivity = hits * alone.memory_stall_share;
    let mut scratch = Scratch::new();
    let point = |streams: usize| {
        let on = |cpu: usize| Running::local(if cpu == 0 { &program } else { &stream }, 0, cpu);
        let running: Vec<Running<'_>> = (0..=streams).map(on).collect();
        let mut outcomes = Vec::new();
        platform.model.solve(&running, &mut scratch, &mut outcomes);
        let level = contention_level(&outcomes);
        let slowdown = outcomes[0].slowdown;
        Point { program: name, streams, level, predicted: level * sensitivity, slowdown }
    };
    Ok((0..platform.cpus.len()).map(point).collect())
}
