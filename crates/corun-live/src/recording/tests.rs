use std::sync::Mutex;

use corun_linux::{Roots, Task, TaskFacts};
use corun_machine::{CpuId, preset};
use corun_policy::{
    BuildOptions, Rates, Scope, ScopedRate, SoloFigures, ThreadState, ThreadView, WaysCurve,
    WaysPoint, build,
};
use proptest::prelude::*;

use super::line::{kept_curve, nine_digits};
use super::*;
use crate::{
    Decision, DryRunActuator, Host, HostOptions, LiveError, PlacementActuator, RecordingSource,
    Scanner, Source, SourceError, Target, Threads,
};

/// What a test says of threads in a sample.
type Said = Vec<(ScannedThread, RecordedFigures)>;

/// What a test says that is there, sample by sample.
#[derive(Clone)]
struct Script {
    samples: Arc<Vec<Said>>,
    next: Arc<Mutex<usize>>,
    counted_at: Option<Nanoseconds>,
    targets: Vec<Target>,
}

impl Script {
    fn new(samples: Vec<Said>) -> Self {
        let target = |name: &str, important: bool| Target {
            profile: important.then(|| "sort".to_owned()),
            important,
            ..Target::new(name, crate::ProcessSelector::Rule(crate::Rule::default()))
        };
        let targets = vec![target("one", true), target("other", false)];
        Self { samples: Arc::new(samples), next: Arc::default(), counted_at: None, targets }
    }
}

impl Scanner for Script {
    fn targets(&self) -> &[Target] {
        &self.targets
    }

    fn scan(&mut self) -> Result<Vec<ScannedThread>, LiveError> {
        let mut next = self.next.lock().unwrap();
        *next += 1;
        Ok(self.samples[*next - 1].iter().map(|(thread, _)| thread.clone()).collect())
    }

    fn add(&mut self, target: Target) -> Result<(), LiveError> {
        self.targets.push(target);
        Ok(())
    }

    fn online(&self) -> Option<CpuSet> {
        // One goes off line now and then.
        let cpus = if self.next.lock().unwrap().is_multiple_of(3) { "0-6" } else { "0-7" };
        Some(cpus.parse().unwrap())
    }
}

impl Source for Script {
    fn name(&self) -> &'static str {
        "script"
    }

    fn counters(&self) -> Vec<CounterKind> {
        vec![CounterKind::Instructions, CounterKind::Cycles, CounterKind::LlcMisses]
    }

    fn knows_profiles(&self) -> bool {
        true
    }

    fn count(&mut self, now: Nanoseconds, threads: &mut Threads) -> Result<(), SourceError> {
        let before = self.counted_at.replace(now).unwrap_or(now);
        let sample = &self.samples[*self.next.lock().unwrap() - 1];
        for (view, thread) in threads.iter_mut() {
            let own = sample.iter().find(|(one, _)| one.facts.task == thread.task());
            let (_, said) = own.expect("the host asks of those that are there");
            // As hardware's counters, which are opened when a thread is seen first.
            let rates = if now == before { Rates::default() } else { said.rates };
            RecordedFigures { rates, ..said.clone() }.add_to(view, Nanoseconds(now.0 - before.0));
        }
        Ok(())
    }
}

fn host(scanner: Box<dyn Scanner>, source: Box<dyn Source>, policy: &str) -> Host {
    let nowhere = Roots { sys: "/nonexistent".into(), ..Roots::default() };
    Host::new(
        Arc::new(preset("xeon-x5365").unwrap()),
        vec![build(policy, &BuildOptions::default()).unwrap()],
        scanner,
        vec![source],
        vec![Box::new(PlacementActuator::new(&nowhere)), Box::new(DryRunActuator::default())],
        nowhere,
        HostOptions::default(),
    )
    .unwrap()
}

/// All that a host knows after a tick, and what its policy wants.
type After = (Vec<ThreadView>, Vec<(TaskFacts, Rates)>, Vec<Decision>);

fn after(host: &Host, decisions: Vec<Decision>) -> After {
    let threads = host.threads().map(|one| (one.thread.facts.clone(), one.rates));
    (host.views().to_vec(), threads.collect(), decisions)
}

/// A sample every 0.6 s: some come without a decision.
fn moment(sample: usize) -> Nanoseconds {
    Nanoseconds(1 + sample as u64 * 600_000_000)
}

fn record(samples: &[Said], policy: &str) -> (Vec<u8>, Vec<After>) {
    let script = Script::new(samples.to_vec());
    let mut host = host(Box::new(script.clone()), Box::new(script), policy);
    let mut text = Vec::new();
    let mut recorder = RecordingWriter::new(&mut text, &host, 0.6).unwrap();
    let mut found = Vec::new();
    for sample in 0..samples.len() {
        let tick = host.tick_at(moment(sample)).unwrap();
        recorder.sample(&host, &tick).unwrap();
        found.push(after(&host, tick.decisions));
    }
    let counted = (recorder.samples(), recorder.bytes());
    drop(recorder);
    assert_eq!(counted, (samples.len() as u64, text.len() as u64));
    (text, found)
}

fn play(recording: LiveRecording, policy: &str) -> Vec<After> {
    let times: Vec<Nanoseconds> = recording.times().collect();
    let threads = RecordedThreads::new(Arc::new(recording));
    let source = RecordingSource::new(threads.playback());
    let mut host = host(Box::new(threads), Box::new(source), policy);
    let mut found = Vec::new();
    for at in times {
        let tick = host.tick_at(at).unwrap();
        found.push(after(&host, tick.decisions));
    }
    found
}

fn rates() -> impl Strategy<Value = Rates> {
    let rate = || proptest::option::of(0.0..1e12);
    (rate(), rate(), rate(), rate(), rate(), any::<bool>(), proptest::option::of(0.0..1.0))
        .prop_map(|(instructions, cycles, misses, references, bytes, prefetches, stalls)| {
            // A share of cycles that are not known, or of none, is none.
            let stalls = stalls.filter(|_| cycles.is_some_and(|cycles| cycles > 0.0));
            let scope = if prefetches { Scope::DemandAndPrefetch } else { Scope::Demand };
            let scoped = |rate: Option<f64>| rate.map(|per_s| ScopedRate { per_s, scope });
            Rates {
                instructions_per_s: instructions,
                cycles_per_s: cycles,
                llc_misses: scoped(misses),
                llc_references: scoped(references),
                memory_bytes_per_s: bytes,
                memory_stall_share: stalls,
                ..Rates::default()
            }
            .map(nine_digits)
        })
}

/// A thread of the number, where it is there in a sample.
fn thread(number: u32) -> impl Strategy<Value = Option<(ScannedThread, RecordedFigures)>> {
    let affinity = prop_oneof![3 => Just("0-7"), 1 => Just("0-3"), 1 => Just("2,5")];
    let facts = (0u64..2, 0u32..8, affinity, any::<bool>(), -5i32..5, "[a-c\u{1b}\"é]{1,3}");
    let figures = (rates(), proptest::option::of(0.0..1e8), 1.0..9.0);
    proptest::option::weighted(0.8, (facts, figures, 0u64..3)).prop_map(move |one| {
        let (facts, (rates, llc_occupancy_bytes, slowdown), ran) = one?;
        let (start_ticks, cpu, affinity, runs, nice, name) = facts;
        let has_profile = number.is_multiple_of(2);
        let point = WaysPoint { slowdown, llc_mpki: slowdown / 3.0, ..WaysPoint::default() };
        let solo = SoloFigures {
            llc_mpki: slowdown,
            llc_apki: 7.0,
            instructions_per_s: 1e9,
            memory_bytes_per_s: 0.0,
            numa_penalty: Some(1.25),
            speedup_factor: Some(2.5),
        };
        let facts = TaskFacts {
            task: Task { pid: number / 2 * 2, tid: number, start_ticks },
            parent: 1,
            name: corun_linux::escape_controls(&name).into_owned(),
            wants_cpu: runs,
            cpu: CpuId(cpu),
            cpu_ns: ran * 300_000_000,
            nice,
            is_real_time: false,
            affinity: affinity.parse().unwrap(),
        };
        let curve = WaysCurve::new(vec![point; 2]).filter(|_| has_profile);
        let figures = RecordedFigures {
            rates,
            llc_occupancy_bytes: llc_occupancy_bytes.map(nine_digits),
            solo: has_profile.then(|| solo.map(nine_digits)),
            by_ways: curve.as_ref().and_then(kept_curve),
            pages_by_node: if runs { vec![0.25, 0.75] } else { Vec::new() },
        };
        let state = if runs { ThreadState::Running } else { ThreadState::Sleeping };
        Some((ScannedThread { facts, state, target: number as usize % 2 }, figures))
    })
}

fn samples() -> impl Strategy<Value = Vec<Said>> {
    let sample = (10..16u32).map(thread).collect::<Vec<_>>();
    let sample = sample.prop_map(|threads| threads.into_iter().flatten().collect::<Said>());
    proptest::collection::vec(sample, 1..7)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Played, a recording shows a policy what it saw on the machine, and it decides the same.
    #[test]
    fn a_recording_plays_as_it_was(samples in samples(), policy in prop_oneof![Just("dio"), Just("ucp")]) {
        let (text, lived) = record(&samples, policy);
        let recording = LiveRecording::read(&text[..]).unwrap();
        prop_assert!(!recording.is_broken_off());
        let played = play(recording.clone(), policy);
        prop_assert_eq!(&played, &lived);
        // Nothing but the file decides.
        prop_assert_eq!(play(recording, policy), played);
        prop_assert_eq!(record(&samples, policy).0, text);
    }

    /// Wherever a recording breaks off, its whole lines are good.
    #[test]
    fn a_part_of_a_recording_is_read_up_to_its_last_line(samples in samples(), part in 0.0..1.0f64) {
        let (text, _) = record(&samples, "di");
        let cut = (text.len() as f64 * part) as usize;
        let lines = text[..cut].iter().filter(|&&byte| byte == b'\n').count();
        match LiveRecording::read(&text[..cut]) {
            Ok(recording) => {
                prop_assert_eq!(recording.times().count() + 1, lines);
                prop_assert_eq!(recording.is_broken_off(), !text[..cut].ends_with(b"\n"));
            }
            Err(
                RecordingError::SomethingElse { .. }
                | RecordingError::CutOff
                | RecordingError::Io(_),
            ) => {
                prop_assert_eq!(lines, 0);
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    /// Also within a letter of several bytes.
    #[test]
    fn a_recording_may_break_off_in_a_letter(samples in samples()) {
        let (text, _) = record(&samples, "di");
        let is_within = |cut: &usize| text[*cut] & 0b1100_0000 == 0b1000_0000;
        for cut in (0..text.len()).filter(is_within).take(4) {
            let recording = LiveRecording::read(&text[..cut]);
            prop_assert!(recording.is_ok_and(|one| one.is_broken_off()), "{cut}");
        }
    }

    /// Nine digits come back from text as they were.
    #[test]
    fn figures_survive_the_text(value in prop_oneof![0.0..1e13f64, 0.0..1e-9f64]) {
        let short = nine_digits(value);
        let text = serde_json::to_string(&short).unwrap();
        let back: f64 = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(back.to_bits(), short.to_bits());
        prop_assert!((short - value).abs() <= 1e-8 * value);
    }
}

fn text() -> String {
    let facts = TaskFacts {
        task: Task { pid: 5, tid: 6, start_ticks: 9 },
        parent: 1,
        name: "one".to_owned(),
        wants_cpu: true,
        cpu: CpuId(3),
        cpu_ns: 0,
        nice: 0,
        is_real_time: false,
        affinity: "0-7".parse().unwrap(),
    };
    let thread = ScannedThread { facts, state: ThreadState::Running, target: 0 };
    let said = vec![(thread, RecordedFigures::default())];
    let (text, _) = record(&[said.clone(), said], "di");
    String::from_utf8(text).unwrap()
}

#[test]
fn a_thread_that_does_the_same_again_takes_no_line() {
    let text = text();
    let lines: Vec<&str> = text.lines().collect();
    let first = "{\"at_ns\":1,\"online\":\"0-7\",\"programs\":[{\"name\":\"one\",\"profile\":\"sort\",\
        \"important\":true},{\"name\":\"other\"}],\"threads\":[{\"tid\":6,\"new\":{\"pid\":5,\
        \"start_ticks\":9,\"program\":0},\"state\":\"running\",\"cpu\":3,\"cpu_ns\":0,\
        \"affinity\":\"0-7\",\"nice\":0,\"parent\":1,\"name\":\"one\"}]}";
    assert_eq!(lines[1..], [first, "{\"at_ns\":600000001}"]);
    let head = "{\"corun_live_recording\":1,\"written_by\":\"corun ";
    assert!(lines[0].starts_with(head), "{}", lines[0]);
}

#[test]
fn what_cannot_be_is_refused_with_its_line() {
    let good = text();
    for (from, to, expected) in [
        (
            "\"corun_live_recording\":1",
            "\"corun_live_recording\":2",
            "line 1: the recording is in version 2",
        ),
        (
            "{\"corun_live_recording\":1",
            "version = 1",
            "line 1: this is no recording of a machine: found `version = 1",
        ),
        ("\"interval_s\":0.6", "\"interval_s\":0.0", "line 1: interval_s: found 0"),
        ("\"llc-misses\"", "\"llc-hits\"", "line 1: unknown variant `llc-hits`"),
        ("\"at_ns\":600000001", "\"at_ns\":0", "line 3: at_ns: found 0, expected 1 or more"),
        (
            "{\"at_ns\":600000001}",
            "{\"at_ns\":7,\"gone\":[8]}",
            "line 3: gone: there is no thread 8",
        ),
        ("{\"at_ns\":600000001}", "{\"at\":7}", "line 3: unknown field `at`"),
        ("{\"at_ns\":600000001}", "", "line 3: EOF while parsing a value"),
        ("{\"at_ns\":600000001}", "[]", "line 3: invalid length 0, expected a table"),
        (
            "600000001",
            "18446744073709551615",
            "line 3: at_ns: found 18446744073709551615, expected at most 100 years",
        ),
        ("\"program\":0}", "\"program\":2}", "line 2: thread 6: program 2: there are 2"),
        (
            "\"new\":{\"pid\":5,\"start_ticks\":9,\"program\":0},",
            "",
            "line 2: thread 6: it was not there before",
        ),
        ("\"nice\":0,", "", "line 2: thread 6: `nice` is missing"),
        (
            "\"nice\":0",
            "\"nice\":0,\"cycles_per_s\":-1.0",
            "line 2: thread 6: cycles_per_s: found -1",
        ),
        ("\"nice\":0", "\"nice\":0,\"by_ways\":[]", "line 2: thread 6: by_ways: expected one way"),
        ("\"affinity\":\"0-7\"", "\"affinity\":\"7-0\"", "line 2: "),
        ("\"cpu\":3", "\"cpu\":-3", "line 2: invalid value"),
        (
            "\"cpu\":3",
            "\"cpu\":77",
            "line 2: thread 6: cpu: found 77, expected a CPU of the machine (0-7) or on line",
        ),
    ] {
        assert!(good.contains(from), "{from}");
        let error = LiveRecording::read(good.replacen(from, to, 1).as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}; expected {expected}");
    }
    for accepted in [
        good.replace("\"online\":\"0-7\"", "\"online\":\"0-77\"")
            .replace("\"cpu\":3", "\"cpu\":77"),
        good.replace("\"running\",\"cpu\":3", "\"sleeping\",\"cpu\":77"),
    ] {
        LiveRecording::read(accepted.as_bytes()).unwrap();
    }
    let cut = LiveRecording::read(&good.as_bytes()[..300]).unwrap_err().to_string();
    assert!(cut.starts_with("line 1: the recording is cut off"), "{cut}");
    let empty = LiveRecording::read(&b""[..]).unwrap_err().to_string();
    assert!(empty.contains("this is no recording of a machine"), "{empty}");
}

#[test]
fn a_line_that_is_no_text_is_refused_with_its_number() {
    let read = |bytes: &[u8]| LiveRecording::read(bytes).unwrap_err().to_string();
    let mut bytes = text().into_bytes();
    let at = bytes.windows(7).position(|part| part == b"\"other\"").unwrap() + 2;
    bytes[at] = 0xff;
    let error = read(&bytes);
    assert!(error.starts_with("line 2: found what is no UTF-8: "), "{error}");
    // A trace of accesses, for instance, with an end of a line in it or none.
    let something_else = "line 1: this is no recording of a machine: found `corunTRC\\u0001";
    for bytes in [b"corunTRC\x01\0\xff\n\xff".as_slice(), b"corunTRC\x01\0\xff"] {
        let error = read(bytes);
        assert!(error.starts_with(something_else), "{error}");
    }
}

#[test]
fn a_line_without_an_end_is_not_read_whole() {
    let endless = || std::io::BufReader::new(std::io::repeat(b'x'));
    let error = LiveRecording::read(endless()).unwrap_err().to_string();
    assert!(error.starts_with("line 1: this is no recording of a machine: found `xxx"), "{error}");
    let text = text();
    let head = text.lines().next().unwrap().to_owned() + "\n";
    let from = std::io::Read::chain(head.as_bytes(), endless());
    let error = LiveRecording::read(from).unwrap_err().to_string();
    assert_eq!(error, "line 2: found more than 256 MiB without an end");
}
