//! What the page costs, for docs/serve.md: `cargo test -p corun --test serve measured -- --ignored --nocapture`.

use std::time::Instant;

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::server::Server;

/// Looks that are drawn and timed, after as many that are not.
const LOOKS: usize = 40;
const THREADS: u32 = 512;
const CPUS: u32 = 256;

/// A machine of 256 CPUs: two packages of eight LLCs with eight cores of two threads each.
fn machine() -> String {
    let llc = "[[object.object]]\nkind = \"cache\"\nlevel = 3\nsize_kib = 32768\nways = 16\n\
               [[object.object.object]]\nkind = \"core\"\ncount = 8\n";
    let package = format!("[[object]]\nkind = \"package\"\n{}", llc.repeat(8));
    let head = "version = 1\nname = \"large\"\n[[core_type]]\nname = \"core\"\nclock_mhz = 3000\nthreads = 2\n";
    format!("{head}{package}{package}")
}

/// A look at 512 threads of 64 programs, each on another CPU than in the look before.
fn look(round: u32, cpus: &[u64]) -> Value {
    let figures = json!({
        "cpus_busy": 0.9, "instructions_per_s": 1e9 + f64::from(round), "ipc": 1.1, "llc_mpki": f64::from(round % 9),
        "memory_bytes_per_s": 1e9, "llc_occupancy_bytes": 1e6, "threads_waiting": 0.2, "class": null, "solo_llc_mpki": null,
    });
    let with = |mut own: Value| {
        own.as_object_mut().unwrap().extend(figures.as_object().unwrap().clone());
        own
    };
    let program = |of: u32| format!("program-{of}");
    let threads = (0..THREADS).map(|one| {
        let cpu = cpus[((one * 7 + round * 13) % CPUS) as usize];
        with(json!({
            "program": program(one % 64), "pid": 1000 + one % 64, "tid": 1000 + one, "name": "worker", "state": "running",
            "cpu": cpu, "llc": null, "allowed_cpus": "0-255", "would_be_allowed_cpus": null,
        }))
    });
    let programs = (0..64).map(|one| {
        with(json!({ "program": program(one), "processes": 1, "threads": 8, "cpus": "0" }))
    });
    let llcs = (0..16).map(|llc| with(json!({ "llc": llc, "cpus": "0", "threads": 32 })));
    json!({
        "machine": "large", "policy": null, "time_s": round, "interval_s": 1.0, "programs": programs.collect::<Vec<_>>(),
        "threads": threads.collect::<Vec<_>>(), "llcs": llcs.collect::<Vec<_>>(), "decisions": [], "not_measured": [], "notes": [],
    })
}

#[test]
#[ignore = "measures, and judges nothing: for figures of docs/serve.md"]
fn first_paint_and_frames_of_a_large_machine() {
    let Some(browser) = Browser::or_skip() else { return };
    let start = Instant::now();
    let server = Server::start(&[]);
    println!("until the link is printed: {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    browser.look(1280, 900, "light");
    let start = Instant::now();
    browser.open(&server.link(), "document.querySelector('[data-slowdown]')");
    let figures = start.elapsed().as_secs_f64() * 1e3;
    let paint =
        browser.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime");
    println!(
        "first paint: {:.0} ms; figures of the first placement: {figures:.0} ms",
        paint.as_f64().unwrap()
    );

    let drawing = server.asked("machine", &json!({ "machine": { "file": machine() } }));
    let cpus: Vec<u64> = numbers(&drawing["cpus"]);
    assert_eq!(cpus.len(), CPUS as usize);
    let script = format!(
        "const real = window.fetch; window.fetch = async (path, asked) => {{ const answer = await real(path, asked); \
         if (!String(path).endsWith('/session')) return answer; const found = await answer.json(); found.live = {drawing}; \
         return new Response(JSON.stringify(found)); }}; \
         window.EventSource = class {{ constructor() {{ window.source = this; }} close() {{}} }};"
    );
    browser.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script }));
    browser.open(&server.page("?large#view=live"), "window.source?.onmessage");
    let mut times: Vec<f64> = Vec::new();
    for round in 0..2 * LOOKS as u32 {
        let data = Value::String(look(round, &cpus).to_string());
        let drawn = browser.evaluate(&format!(
            "new Promise((done) => {{ const from = performance.now(); window.source.onmessage({{ data: {data} }}); \
             requestAnimationFrame(() => setTimeout(() => done(performance.now() - from))); }})"
        ));
        times.push(drawn.as_f64().unwrap());
    }
    assert!(browser.text(".live .how").contains("512 threads"));
    let mut times = times.split_off(LOOKS);
    times.sort_by(f64::total_cmp);
    println!(
        "a look of {THREADS} threads on {CPUS} CPUs until it is drawn: median {:.0} ms, slowest of {LOOKS} {:.0} ms",
        times[LOOKS / 2],
        times[LOOKS - 1]
    );
}

/// What the page asks for each CPU that a program is dragged over.
#[test]
#[ignore = "measures, and judges nothing: for figures of docs/serve.md"]
fn answers_while_a_program_is_dragged() {
    let server = Server::start(&[]);
    for (machine, programs) in [("xeon-x5365", 6), ("epyc-9554", 64)] {
        let apps = ["sort", "numpy", "xsltproc", "xz", "glpsol", "sqlite3"].iter().cycle();
        let apps: Vec<&str> = apps.take(programs).copied().collect();
        let question = json!({ "machine": { "name": machine }, "apps": apps });
        let mut cpus: Vec<usize> = (0..programs).collect();
        let mut asked = || {
            cpus.rotate_left(1);
            let start = Instant::now();
            server.asked("predict", &json!({ "question": question, "cpu": cpus }));
            start.elapsed().as_secs_f64() * 1e3
        };
        let first = asked();
        let mut times: Vec<f64> = (0..LOOKS).map(|_| asked()).collect();
        times.sort_by(f64::total_cmp);
        println!(
            "an answer about {programs} programs on {machine}: first {first:.0} ms, then median {:.1} ms, slowest of \
             {LOOKS} {:.1} ms",
            times[LOOKS / 2],
            times[LOOKS - 1]
        );
    }
}

/// All numbers of CPUs of a drawing.
fn numbers(cpus: &Value) -> Vec<u64> {
    let all = cpus.as_array().unwrap().iter();
    all.map(|one| {
        one.as_u64().or_else(|| one["cpu"].as_u64()).or_else(|| one["id"].as_u64()).unwrap()
    })
    .collect()
}
