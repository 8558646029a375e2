//! `corun record`: what corun sees of programs, look by look, into a file.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use corun_hosting::{DecisionPrinter, Watch};
use corun_live::{Host, RecordingWriter};
use corun_policy::{BuildOptions, CounterKind, build, registry};

use super::watching::{Asked, watch};
use crate::cli::RecordArgs;
use crate::failure::{Failure, Outcome};
use corun_app::{Cancel, NO_POLICY, tell};
use corun_report::{check_target, counted, size};

/// How often ended programs are looked for.
const TICK: Duration = Duration::from_millis(20);

pub(super) fn run(arguments: &RecordArgs) -> Outcome<String> {
    check_target(&arguments.output)?;
    let cancel = Cancel::on_signal()?;
    let mut watch = watch(&Asked {
        targets: &arguments.targets,
        figures: &arguments.figures,
        policy: Some(NO_POLICY),
        seed: 1,
        counters: needed_by_any(),
        out_of_sight: false,
        act: false,
        journals: None,
        else_all: false,
    })?;
    let file = File::create(&arguments.output).with_context(|| shown(&arguments.output))?;
    watch.start()?;
    let recorder =
        RecordingWriter::new(BufWriter::new(file), &watch.host, arguments.figures.interval);
    let mut session = Session {
        recorder: recorder.with_context(|| shown(&arguments.output))?,
        printer: DecisionPrinter::default(),
        most_threads: 0,
    };
    let recorded = session.record(&mut watch, arguments, &cancel);
    let ended = watch.end();
    session.say(arguments);
    recorded.and(ended)?;
    watch.exit(&cancel)
}

fn shown(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// All that a policy may ask for later.
fn needed_by_any() -> Vec<CounterKind> {
    let policies =
        registry().iter().filter_map(|entry| build(entry.name, &BuildOptions::default()).ok());
    let mut counters: Vec<CounterKind> =
        policies.flat_map(|policy| policy.needs().counters).collect();
    counters.extend([
        CounterKind::Instructions,
        CounterKind::Cycles,
        CounterKind::LlcReferences,
        CounterKind::LlcMisses,
        CounterKind::MemoryBytes,
        CounterKind::LlcOccupancy,
    ]);
    counters.extend(CounterKind::OF_SCHEDULER);
    counters.sort_unstable();
    counters.dedup();
    counters
}

struct Session {
    recorder: RecordingWriter<'static>,
    printer: DecisionPrinter,
    most_threads: usize,
}

impl Session {
    /// Until there is nothing more to record.
    fn record(&mut self, watch: &mut Watch, arguments: &RecordArgs, cancel: &Cancel) -> Outcome {
        let started = Instant::now();
        let until = arguments.duration.map(Duration::from_secs_f64);
        self.look(&mut watch.host, &arguments.output)?;
        loop {
            watch.reap()?;
            if cancel.is_set() || watch.is_over() {
                return Ok(());
            }
            let over = until.is_some_and(|until| started.elapsed() >= until);
            // Also when the time is over: on a busy machine it may be over before the second look, without which a recording
            // says nothing.
            if watch.host.now() >= watch.host.next_tick() {
                self.look(&mut watch.host, &arguments.output)?;
                let gone = watch.host.views().is_empty();
                if gone && !arguments.targets.pid.is_empty() {
                    return Ok(());
                }
            }
            if over {
                return Ok(());
            }
            thread::sleep(TICK.min(Duration::from_secs_f64(arguments.figures.interval)));
        }
    }

    fn look(&mut self, host: &mut Host, path: &Path) -> Outcome {
        let tick = host.tick().map_err(Failure::live)?;
        self.printer.tick(host, &tick);
        self.most_threads = self.most_threads.max(host.views().len());
        Ok(self.recorder.sample(host, &tick).with_context(|| shown(path))?)
    }

    fn say(&self, arguments: &RecordArgs) {
        let (looks, threads) = (self.recorder.samples(), self.most_threads);
        tell(format_args!(
            "{} at {} in {} ({})",
            counted(looks as usize, "look"),
            match threads {
                0 => "no thread".to_owned(),
                1 => "1 thread".to_owned(),
                _ => format!("up to {threads} threads"),
            },
            arguments.output.display(),
            size(self.recorder.bytes() as f64)
        ));
    }
}
