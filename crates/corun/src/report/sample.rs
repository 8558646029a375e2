//! A report made by hand, for the tests of the page.

use corun_app::{Migration, Timeline};

use super::document::{Entry, Kind, Llc, Machine, Package, Program, Report};

const PROGRAMS: [(&str, f64); 8] = [
    ("mcf06", 33.1),
    ("milc06", 24.6),
    ("lbm06", 31.9),
    ("soplex06", 18.2),
    ("omnetpp06", 9.4),
    ("gcc06", 2.7),
    ("namd06", 0.1),
    ("povray06", 0.0),
];

/// Eight programs, two LLCs, four policies and the bounds.
pub(crate) fn report() -> Report {
    Report {
        command: "corun compare --machine 2x-gold-6138-4c --apps mcf06,milc06,lbm06,soplex06,\
                  omnetpp06,gcc06,namd06,povray06 --seeds 10 --report report.html"
            .to_owned(),
        version: "0.1.0".to_owned(),
        machine: machine(),
        programs: PROGRAMS.iter().map(|&(name, mpki)| program(name, mpki)).collect(),
        results: results(),
        bounds_proven: true,
        facts: vec![
            ("Method".to_owned(), "restart-3, 10 seeds".to_owned()),
            ("Model".to_owned(), "space fill-time, bandwidth additive".to_owned()),
            ("Profiles".to_owned(), "8 imported tables, measured on xeon-gold-6138".to_owned()),
        ],
        extrapolated: vec!["povray06: below 1 MiB of cache".to_owned()],
    }
}

fn machine() -> Machine {
    let package = |place: u32| Package {
        label: format!("Package {place}"),
        llcs: vec![Llc {
            label: format!("LLC {place}"),
            bytes: Some(27 * 1024 * 1024 + 512 * 1024),
            cores: (0..4).map(|core| vec![place * 4 + core]).collect(),
        }],
    };
    Machine {
        name: "2x-gold-6138-4c".to_owned(),
        title: "Two last-level caches of a Xeon Gold 6138, 4 cores each".to_owned(),
        packages: vec![package(0), package(1)],
    }
}

fn program(name: &str, solo_mpki: f64) -> Program {
    let curve = (0..11)
        .map(|way| {
            let bytes = (1.0 + 2.5 * f64::from(way)) * 1024.0 * 1024.0;
            (bytes, solo_mpki + solo_mpki * 1.5 * (-f64::from(way) / 3.0).exp())
        })
        .collect();
    Program { name: name.to_owned(), solo_mpki, curve }
}

fn results() -> Vec<Entry> {
    let mixed = vec![0, 1, 4, 5, 2, 3, 6, 7];
    let packed = vec![0, 1, 2, 3, 4, 5, 6, 7];
    let mut results = vec![
        entry("optimal", Kind::Optimal, 1.121, &[0, 4, 5, 1, 6, 2, 3, 7]),
        entry("di", Kind::Policy, 1.128, &mixed),
        entry("dio", Kind::Policy, 1.134, &mixed),
        entry("linux-default", Kind::Policy, 1.176, &[0, 2, 4, 1, 3, 5, 6, 7]),
        entry("random", Kind::Policy, 1.189, &[0, 2, 1, 4, 3, 5, 6, 7]),
        entry("random (expected)", Kind::Expectation, 1.181, &[]),
        entry("worst", Kind::Worst, 1.334, &packed),
    ];
    results[2].time_line = Some(time_line());
    results
}

fn entry(name: &str, kind: Kind, mean: f64, placement: &[u32]) -> Entry {
    let bound = kind != Kind::Policy;
    let slowdowns: Vec<f64> = if placement.is_empty() {
        Vec::new()
    } else {
        let heavy = |place: usize| 1.0 - place as f64 / 8.0;
        (0..8).map(|place| 1.0 + (mean - 1.0) * 2.0 * heavy(place)).collect()
    };
    Entry {
        name: name.to_owned(),
        kind,
        mean_slowdown: mean,
        stp: Some(8.0 / mean),
        unfairness: (!placement.is_empty()).then_some(1.3),
        worst_slowdown: Some(mean * 1.2),
        spread: (!bound).then_some(0.004),
        migrations: (!bound).then_some(2.0),
        above_optimal_percent: Some((mean / 1.121 - 1.0) * 100.0),
        slowdowns,
        placement: placement.to_vec(),
        time_line: (!bound).then(|| Timeline {
            seconds: 512.0,
            lanes: placement.iter().map(|&cpu| vec![(0.0, cpu as usize / 4)]).collect(),
            moves: Vec::new(),
        }),
    }
}

fn time_line() -> Timeline {
    let mut lanes: Vec<Vec<(f64, usize)>> = (0..8).map(|place| vec![(0.0, place / 4)]).collect();
    let mut moves = Vec::new();
    for (at_s, first, second) in [(1.2, 1, 5), (90.0, 2, 6), (260.0, 5, 2)] {
        for (program, other) in [(first, second), (second, first)] {
            let llc = 1 - lanes[program][lanes[program].len() - 1].1;
            lanes[program].push((at_s, llc));
            moves.push(Migration {
                at_s,
                program,
                from_cpu: program as u32,
                to_cpu: other as u32,
                reason: format!(
                    "{}: {} MPKI, off LLC {}, shared with mcf06",
                    PROGRAMS[program].0,
                    PROGRAMS[program].1,
                    1 - llc
                ),
            });
        }
    }
    Timeline { seconds: 512.0, lanes, moves }
}
