//! `corun replay`.

use corun_trace::trace_file::{Access, AccessKind, TraceHeader, TraceWriter};

use crate::fixture::Fixture;

/// A trace that touches these lines, one in two instructions, as a file's bytes.
pub(crate) fn trace(lines: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let command = vec!["made".to_owned(), "up".to_owned()];
    let header = TraceHeader { line_bytes: 64, guest: "x86_64".to_owned(), command };
    let mut writer = TraceWriter::new(Vec::new(), &header).unwrap();
    for (at, line) in lines.into_iter().enumerate() {
        writer.push(Access { line, gap: 2, kind: AccessKind::Load }).unwrap();
        // Chunks of a thousand, so that a cut leaves some.
        if at % 1000 == 999 {
            writer.flush().unwrap();
        }
    }
    writer.finish(0).unwrap()
}

/// A loop over 512 lines and a stream.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    std::fs::write(fixture.path("loop.trace"), trace((0..20_000).map(|at| at % 512))).unwrap();
    std::fs::write(fixture.path("stream.trace"), trace(0..20_000)).unwrap();
    fixture
}

#[test]
fn a_loop_that_just_fits_falls_beside_a_stream_and_masks_save_it() {
    let fixture = fixture();
    let cache = ["--cache", "48KiB/full", "--format", "json"];
    let run = |more: &[&str]| {
        fixture.run(&[&["replay", "loop.trace", "stream.trace"], more].concat()).json()
    };
    let together = run(&cache);
    let found = &together["programs"][0];
    assert_eq!((&found["alone"]["misses"], &found["alone"]["mpki"]), (&512.into(), &12.8.into()));
    // 1024 lines come between two uses, in a cache of 768: a loop under LRU loses all or nothing.
    // That it could keep all, were it once established, does not help: each pass begins cold, and
    // while both miss they are equally fast.
    assert_eq!(found["together"]["miss_ratio"], 1.0);
    assert!(found["slowdown"].as_f64().unwrap() > 20.0, "{found}");
    let roomy = run(&["--cache", "80KiB/full", "--format", "json"]);
    assert_eq!(roomy["programs"][0]["together"]["miss_ratio"], 0.0256);
    let masked = [
        "--cache",
        "48KiB/12",
        "--latency-ns",
        "0",
        "--masks",
        "0x7ff,0x800",
        "--index",
        "modulo",
        "--format",
        "json",
    ];
    let masked = run(&masked);
    assert_eq!(masked["programs"][0]["together"]["misses"], 512);
    assert_eq!(masked["programs"][1]["mask"], "0x800");
}

#[test]
fn one_trace_alone_and_the_same_twice() {
    let fixture = fixture();
    let text = fixture.run(&["replay", "loop.trace", "loop.trace"]).done();
    assert!(text.contains("loop#2") && text.starts_with("2MiB/16, lru, memory at 90 ns"), "{text}");
    let csv = fixture.run(&["replay", "--format", "csv", "loop.trace"]).done();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[1].replace("alone", "together"), lines[2]);
}

#[test]
fn a_trace_that_breaks_off_is_replayed_and_said_to() {
    let fixture = fixture();
    let whole = std::fs::read(fixture.path("loop.trace")).unwrap();
    std::fs::write(fixture.path("cut.trace"), &whole[..whole.len() / 2]).unwrap();
    let words = ["replay", "cut.trace", "--format", "json"];
    let document = fixture.run(&words).json();
    let program = &document["programs"][0];
    assert_eq!(program["trace_complete"], false);
    let accesses = program["together"]["accesses"].as_u64().unwrap();
    assert!(accesses > 0 && accesses < 20_000 && accesses.is_multiple_of(1000), "{accesses}");
    assert!(fixture.run(&words[..2]).done().contains("cut: the trace breaks off"));
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let fixture = fixture();
    let refused = |words: &[&str], said: &[&str]| {
        fixture.run(&[&["replay"], words].concat()).refused(said);
    };
    refused(&["none.trace"], &["none.trace", "No such file"]);
    refused(&["solo.csv"], &["solo.csv", "is no trace", "corunTRC"]);
    refused(&["loop.trace", "--cache", "2MB/16"], &["2MB/16", "2MiB/16"]);
    refused(&["loop.trace", "--cache", "2MiB/15"], &["whole number of sets"]);
    refused(&["loop.trace", "--cache", "3KiB/3", "--replacement", "plru"], &["power of two"]);
    refused(&["loop.trace", "--cache", "1MiB/full", "--replacement", "random"], &["LRU"]);
    refused(&["loop.trace", "--replacement", "fifo"], &["fifo", "srrip"]);
    refused(&["loop.trace", "--masks", "0x10000"], &["0x10000", "16 ways"]);
    refused(&["loop.trace", "--cpi", "1,2,3"], &["--cpi has 3 values for 1 trace:"]);
    std::fs::write(fixture.path("empty.trace"), trace([])).unwrap();
    refused(&["loop.trace", "empty.trace"], &["empty.trace", "makes no access"]);
    let mut bent = std::fs::read(fixture.path("loop.trace")).unwrap();
    bent[30] ^= 0x10;
    std::fs::write(fixture.path("bent.trace"), bent).unwrap();
    refused(&["bent.trace"], &["bent.trace", "frame"]);
}
