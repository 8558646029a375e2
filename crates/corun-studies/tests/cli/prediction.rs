//! `corun-study prediction` on programs made up so that what is true of them is known.

use corun_profile::{EngineKind, Profile, ProfileData};
use corun_trace::block::Block;
use corun_trace::engine::{Engine, EngineOptions, Thread};
use corun_trace::event::TraceEvent;
use corun_trace::summary::recording;
use corun_trace::trace_file::{Access, AccessKind, TraceHeader, TraceWriter};

use crate::fixture::Fixture;

/// Accesses of each program; an instruction before each.
const ACCESSES: u64 = 100_000;

/// Words of 8 bytes of a line.
const WORDS: u64 = 8;

/// A linear congruential generator (Knuth's MMIX constants); its high bits are used.
fn below(state: &mut u64, limit: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((u128::from(*state) * u128::from(limit)) >> 64) as u64
}

/// A trace that touches these lines, one in two instructions, as a file's bytes.
fn trace(lines: impl Iterator<Item = u64>) -> Vec<u8> {
    let header = TraceHeader { line_bytes: 64, guest: "x86_64".to_owned(), command: Vec::new() };
    let mut writer = TraceWriter::new(Vec::new(), &header).unwrap();
    for line in lines {
        writer.push(Access { line, gap: 2, kind: AccessKind::Load }).unwrap();
    }
    writer.finish(0).unwrap()
}

/// A profile by the exact engine of what [`trace`] writes.
fn profile(name: &str, lines: &[u64]) -> String {
    let options =
        EngineOptions { kind: EngineKind::Exact, fetches: false, ..EngineOptions::default() };
    let mut engine = Engine::new(options, None);
    let block = engine.add_block(Block::undecoded(0x1000, 0x1001, 0x1002, 2));
    let events: Vec<TraceEvent> = lines
        .iter()
        .flat_map(|&line| [TraceEvent::block(block), TraceEvent::data(line * WORDS, 1, false)])
        .collect();
    engine.process(&mut Thread::new(), &events);
    let data = ProfileData::Recording(recording(&engine).unwrap());
    Profile { name: name.to_owned(), data }.to_toml()
}

/// Folders of traces and profiles of these programs.
fn recorded(programs: &[(&str, Vec<u64>)]) -> Fixture {
    let fixture = Fixture::new();
    for folder in ["traces", "profiles"] {
        std::fs::create_dir(fixture.path(folder)).unwrap();
    }
    for (name, lines) in programs {
        let file = trace(lines.iter().copied());
        std::fs::write(fixture.path(&format!("traces/{name}.trace")), file).unwrap();
        fixture.write(&format!("profiles/{name}.toml"), &profile(name, lines));
    }
    fixture
}

fn programs() -> Vec<(&'static str, Vec<u64>)> {
    let random = |seed: u64, next: &dyn Fn(&mut u64) -> u64| -> Vec<u64> {
        let mut state = seed;
        (0..ACCESSES).map(|_| next(&mut state)).collect()
    };
    vec![
        // 2 MiB, each line as likely as any other.
        ("even", random(1, &|state| below(state, 32_768))),
        // 4 MiB, lower lines more likely.
        ("lower", random(2, &|state| below(state, 65_536).min(below(state, 65_536)))),
        // Nine in ten accesses to 256 KiB, the others to 8 MiB.
        (
            "hot-cold",
            random(3, &|state| match below(state, 10) {
                0 => 4096 + below(state, 131_072),
                _ => below(state, 4096),
            }),
        ),
        // 0.75 MiB over and over: all or nothing.
        ("loop", (0..ACCESSES).map(|at| at % 12_288).collect()),
        // No line twice.
        ("stream", (0..ACCESSES).collect()),
    ]
}

#[test]
fn the_law_of_lru_is_near_what_the_reference_cache_measures() {
    let fixture = recorded(&programs());
    let words = ["prediction", "--traces", "traces", "--profiles", "profiles"];
    let study = fixture.run(&[&words[..], &["--format", "json", "--svg", "p.svg"]].concat()).json();
    let rows = study["rows"].as_array().unwrap();
    let figure = |law: &str, mib: u64, name: &str| {
        let is = |row: &&serde_json::Value| {
            row["cache"] == "fully associative LRU" && row["law"] == law && row["mib"] == mib
        };
        rows.iter().find(is).unwrap()[name].as_f64().unwrap()
    };
    for mib in [1, 2, 4] {
        let [fill_time, proportional] =
            ["fill-time", "proportional"].map(|law| figure(law, mib, "mpki_error_percent"));
        assert!(fill_time <= 5.0 && fill_time < proportional, "{mib} MiB: {fill_time} %");
    }
    // In 4 MiB next to nobody is in another's way, and ranks are chance.
    for mib in [1, 2] {
        assert!(figure("fill-time", mib, "rank_correlation") >= 0.95, "{mib} MiB");
    }
    let cliffs = study["cliffs"].as_array().unwrap();
    let falls = |cliff: &&serde_json::Value| cliff["program"] == "loop" && cliff["mib"] == 1;
    let loops: Vec<_> = cliffs.iter().filter(falls).collect();
    assert_eq!(loops.len(), 4);
    for cliff in loops {
        assert_eq!(
            (&cliff["beside_mpki"], &cliff["predicted_mpki"][0]),
            (&500.0.into(), &500.0.into())
        );
    }
    let drawn = std::fs::read_to_string(fixture.path("p.svg")).unwrap();
    assert!(drawn.contains("hot-cold beside loop"), "{drawn}");
}
