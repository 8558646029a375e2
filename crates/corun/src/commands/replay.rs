//! `corun replay`: recorded programs against a shared cache, access by access.

use std::path::Path;

use corun_cache::{
    CacheConfig, Geometry, Indexing, MemoryTiming, ReplayError, ReplayFigures, ReplaySetup,
    ReplayedProgram, TraceFile, TraceInput, TraceSourceError, Until, replay,
};
use rayon::prelude::*;
use serde::Serialize;

use crate::cli::{IndexName, ReplayArgs, TableFormat, UntilName};
use crate::failure::{Failure, Outcome};
use corun_report::{Columns, counted, json, round, size};

#[derive(Debug, Serialize)]
struct Document {
    cache: String,
    replacement: String,
    indexing: &'static str,
    private_caches: Vec<String>,
    latency_ns: f64,
    service_ns: f64,
    clock_mhz: f64,
    programs: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    program: String,
    command: Vec<String>,
    /// Does the trace go on to the end of the program, or of what was asked for?
    trace_complete: bool,
    cpi: f64,
    mask: Option<String>,
    slowdown: f64,
    alone: Run,
    together: Run,
}

#[derive(Debug, Serialize)]
struct Run {
    passes: u64,
    instructions: u64,
    accesses: u64,
    llc_accesses: u64,
    hits: u64,
    misses: u64,
    evictions: u64,
    miss_ratio: f64,
    mpki: f64,
    mean_occupancy_bytes: f64,
    cycles: f64,
}

impl Run {
    fn new(figures: &ReplayFigures, clock_mhz: f64) -> Self {
        Self {
            passes: figures.passes,
            instructions: figures.instructions,
            accesses: figures.accesses,
            llc_accesses: figures.shared_accesses,
            hits: figures.hits(),
            misses: figures.misses,
            evictions: figures.evictions,
            miss_ratio: round(figures.miss_ratio(), 6),
            mpki: round(figures.mpki(), 6),
            mean_occupancy_bytes: figures.mean_occupancy_bytes.round(),
            cycles: (figures.ns * clock_mhz / 1000.0).round(),
        }
    }
}

/// What was asked for, checked.
struct Plan<'a> {
    arguments: &'a ReplayArgs,
    setup: ReplaySetup,
    private: Vec<CacheConfig>,
    names: Vec<String>,
    traces: Vec<TraceInput>,
}

pub(super) fn run(arguments: &ReplayArgs) -> Outcome<String> {
    let plan = Plan::new(arguments)?;
    let all: Vec<usize> = (0..arguments.traces.len()).collect();
    let mut runs: Vec<&[usize]> = vec![&all];
    if all.len() > 1 {
        runs.extend(all.chunks(1));
    }
    let mut ran: Vec<Vec<(ReplayFigures, TraceFile)>> =
        runs.into_par_iter().map(|which| plan.replay(which)).collect::<Outcome<_>>()?;
    let together = ran.remove(0);
    // A single program runs alone as it is.
    let alone: Vec<ReplayFigures> = if all.len() == 1 {
        together.iter().map(|(figures, _)| *figures).collect()
    } else {
        ran.iter().map(|one| one[0].0).collect()
    };
    let document = plan.document(&together, &alone);
    match arguments.format {
        TableFormat::Table => Ok(document.text()),
        TableFormat::Json => json(&document),
        TableFormat::Csv => document.csv(),
    }
}

impl<'a> Plan<'a> {
    fn new(arguments: &'a ReplayArgs) -> Outcome<Self> {
        let traces = arguments.traces.iter().map(|path| TraceInput::new(path));
        let traces: Vec<TraceInput> = traces.collect::<Result<_, _>>().map_err(Failure::input)?;
        let line_bytes = line_bytes(&arguments.traces, &traces)?;
        let indexing = match arguments.index {
            IndexName::Hashed => Indexing::Hashed,
            IndexName::Modulo => Indexing::Modulo,
        };
        let shape = |text: &str, replacement| -> Outcome<CacheConfig> {
            let geometry = Geometry::parse(text, line_bytes).map_err(Failure::input)?;
            let shape = CacheConfig { geometry, replacement, indexing };
            shape.check().map_err(Failure::input)?;
            Ok(shape)
        };
        let private = arguments.private.iter().map(|text| shape(text, Default::default()));
        let private = private.collect::<Outcome<_>>()?;
        let setup = ReplaySetup {
            shared: shape(&arguments.cache, arguments.replacement)?,
            memory: MemoryTiming {
                latency_ns: arguments.latency_ns,
                service_ns: arguments.service_ns,
            },
            until: match arguments.until {
                UntilName::First => Until::First,
                UntilName::Longest => Until::Longest,
            },
            warm_up: arguments.warm_up,
            same_process: arguments.same_process,
        };
        let programs = arguments.traces.len();
        one_or_each("--cpi", arguments.cpi.len(), programs)?;
        if !arguments.masks.is_empty() {
            one_or_each("--masks", arguments.masks.len(), programs)?;
        }
        Ok(Self { arguments, setup, private, names: names(&arguments.traces), traces })
    }

    fn cpi(&self, program: usize) -> f64 {
        self.arguments.cpi[program.min(self.arguments.cpi.len() - 1)]
    }

    fn mask(&self, program: usize) -> Option<u64> {
        let last = self.arguments.masks.len().checked_sub(1)?;
        Some(self.arguments.masks[program.min(last)])
    }

    /// Runs some of the programs together; their figures, and their traces as they were left.
    fn replay(&self, which: &[usize]) -> Outcome<Vec<(ReplayFigures, TraceFile)>> {
        let open = |&at: &usize| self.traces[at].open();
        let mut files: Vec<TraceFile> =
            which.iter().map(open).collect::<Result<_, _>>().map_err(Failure::input)?;
        let programs = files.iter_mut().zip(which).map(|(source, &at)| ReplayedProgram {
            source,
            ns_per_instruction: self.cpi(at) * 1000.0 / self.arguments.clock_mhz,
            mask: self.mask(at),
            private: self.private.clone(),
        });
        let programs = programs.collect();
        let figures = replay(&self.setup, programs).map_err(|error| self.failure(error, which))?;
        Ok(figures.into_iter().zip(files).collect())
    }

    fn failure(&self, error: ReplayError<TraceSourceError>, which: &[usize]) -> Failure {
        match error {
            ReplayError::Empty { program } | ReplayError::TooLong { program } => {
                let path = self.arguments.traces[which[program]].display();
                let why = error.to_string();
                let why = why.split_once(char::is_numeric).map_or("", |(_, rest)| rest);
                let why = why.trim_start_matches(char::is_numeric).trim_start();
                Failure::input(format!("{path}: {why}"))
            }
            other => Failure::input(other),
        }
    }

    fn document(
        &self,
        together: &[(ReplayFigures, TraceFile)],
        alone: &[ReplayFigures],
    ) -> Document {
        let arguments = self.arguments;
        let rows = together.iter().zip(alone).enumerate().map(|(at, ((figures, file), alone))| {
            let slowdown = figures.ns_per_instruction() / alone.ns_per_instruction();
            Row {
                program: self.names[at].clone(),
                command: file.header().command.clone(),
                trace_complete: !file.broken_off(),
                cpi: self.cpi(at),
                mask: self.mask(at).map(|mask| format!("{mask:#x}")),
                slowdown: round(slowdown, 6),
                alone: Run::new(alone, arguments.clock_mhz),
                together: Run::new(figures, arguments.clock_mhz),
            }
        });
        Document {
            cache: arguments.cache.clone(),
            replacement: arguments.replacement.to_string(),
            indexing: match arguments.index {
                IndexName::Hashed => "hashed",
                IndexName::Modulo => "modulo",
            },
            private_caches: arguments.private.clone(),
            latency_ns: arguments.latency_ns,
            service_ns: arguments.service_ns,
            clock_mhz: arguments.clock_mhz,
            programs: rows.collect(),
        }
    }
}

fn one_or_each(option: &str, found: usize, programs: usize) -> Outcome {
    if found == 1 || found == programs {
        return Ok(());
    }
    let (values, traces) = (counted(found, "value"), counted(programs, "trace"));
    let message = format!("{option} has {values} for {traces}");
    Err(Failure::input(format!("{message}: expected one for all, or one a trace")))
}

/// The bytes of a line, the same in all traces.
fn line_bytes(paths: &[std::path::PathBuf], traces: &[TraceInput]) -> Outcome<u64> {
    let mut common: Option<(u64, &Path)> = None;
    for (path, trace) in paths.iter().zip(traces) {
        let found = trace.open().map_err(Failure::input)?.header().line_bytes;
        match common {
            Some((other, first)) if other != found => {
                return Err(Failure::input(format!(
                    "{}: lines of {found} bytes, {} has lines of {other}: expected the same",
                    path.display(),
                    first.display()
                )));
            }
            _ => common = Some((found, path)),
        }
    }
    Ok(common.map_or(64, |(bytes, _)| bytes))
}

/// File names without `.trace`; a name that stands again is `name#2` and up.
fn names(traces: &[std::path::PathBuf]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let stems: Vec<String> = traces
        .iter()
        .map(|path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    for (at, stem) in stems.iter().enumerate() {
        let before = stems[..at].iter().filter(|&one| one == stem).count();
        names.push(if before == 0 { stem.clone() } else { format!("{stem}#{}", before + 1) });
    }
    names
}

impl Document {
    fn text(&self) -> String {
        let queue = match self.service_ns {
            0.0 => String::new(),
            service => format!(", {service} ns a line"),
        };
        let behind: String =
            self.private_caches.iter().map(|cache| format!("behind {cache}, ")).collect();
        let mut text = format!(
            "{}, {}, {behind}memory at {} ns{queue}, {} MHz\n\n",
            self.cache, self.replacement, self.latency_ns, self.clock_mhz
        );
        let columns = Columns::of(&self.programs)
            .left("program", |row| row.program.clone())
            .right("CPI", |row| row.cpi)
            .right("M accesses", |row| format!("{:.1}", row.together.accesses as f64 / 1e6))
            .right("MPKI alone", |row| format!("{:.3}", row.alone.mpki))
            .right("together", |row| format!("{:.3}", row.together.mpki))
            .right("miss ratio", |row| format!("{:.4}", row.together.miss_ratio))
            .right("evictions", |row| row.together.evictions)
            .right("held", |row| size(row.together.mean_occupancy_bytes))
            .right("M cycles", |row| format!("{:.1}", row.together.cycles / 1e6))
            .right("slowdown", |row| format!("{:.3}", row.slowdown));
        text.push_str(&columns.table());
        for row in self.programs.iter().filter(|row| !row.trace_complete) {
            text.push_str(&format!(
                "\n{}: the trace breaks off; the figures are of the part that is there\n",
                row.program
            ));
        }
        for row in self.programs.iter().filter(|row| row.together.passes == 0) {
            text.push_str(&format!(
                "\n{}: had not ended when another did; its figures are of what it did by then\n",
                row.program
            ));
        }
        text
    }

    fn csv(&self) -> Outcome<String> {
        let of_row = |row| {
            let row: &Row = row;
            [(row, "alone", &row.alone, 1.0), (row, "together", &row.together, row.slowdown)]
        };
        let rows: Vec<(&Row, &str, &Run, f64)> = self.programs.iter().flat_map(of_row).collect();
        Columns::of(&rows)
            .left("program", |(row, ..)| row.program.clone())
            .left("run", |(_, name, ..)| *name)
            .left("passes", |(_, _, run, _)| run.passes)
            .left("instructions", |(_, _, run, _)| run.instructions)
            .left("accesses", |(_, _, run, _)| run.accesses)
            .left("llc_accesses", |(_, _, run, _)| run.llc_accesses)
            .left("hits", |(_, _, run, _)| run.hits)
            .left("misses", |(_, _, run, _)| run.misses)
            .left("evictions", |(_, _, run, _)| run.evictions)
            .left("miss_ratio", |(_, _, run, _)| run.miss_ratio)
            .left("mpki", |(_, _, run, _)| run.mpki)
            .left("mean_occupancy_bytes", |(_, _, run, _)| run.mean_occupancy_bytes)
            .left("cycles", |(_, _, run, _)| run.cycles)
            .left("slowdown", |(.., slowdown)| *slowdown)
            .csv()
    }
}
