//! The profile file: TOML, one file a program. docs/profile-file.md is its reference.

use std::fmt::Write as _;
use std::path::Path;

use corun_input::{Fault, FileError, PathStep, TomlDocument, read_text};
use serde::Deserialize;

use crate::atomic_file::write_atomically;
use crate::profile::{EARLIER_PROFILE_FILE_VERSIONS, PROFILE_FILE_VERSION};
use crate::solo_table::{FIGURE_NAMES, FIGURES, MeasuredOn, SoloRow, SoloTable, TableFigures};
use crate::{
    CoreDetail, CurveError, CurvePoint, InstructionMix, MicroTraceError, MicroTraces,
    MissRateCurve, Origin, Phase, ProcessRecord, Profile, ProfileData, Recording,
    StackDistanceProfile, Stretch, ThreadRecord,
};

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileFile {
    #[serde(rename = "version")]
    _version: u32,
    name: String,
    sequence: Option<Vec<(usize, u64)>>,
    origin: Option<Origin>,
    phase: Option<Vec<PhaseTable>>,
    #[serde(default)]
    thread: Vec<ThreadTable>,
    #[serde(default)]
    process: Vec<ProcessRecord>,
    #[serde(default)]
    stack_distances: Vec<StackDistanceProfile>,
    micro_traces: Option<PackedTable>,
    measured_on: Option<MeasuredOn>,
    columns: Option<Vec<String>>,
    rows: Option<Vec<Vec<f64>>>,
}

/// A `[[phase]]` as it is written: [`Phase`] with its curve as pairs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PhaseTable {
    instructions: u64,
    #[serde(default = "one_thread")]
    threads: u32,
    data_accesses_pki: f64,
    mix: InstructionMix,
    prefetchable: f64,
    memory_level_parallelism: f64,
    dirty_share: f64,
    footprint_bytes: u64,
    curve: Vec<(u64, f64)>,
    core: Option<CoreTable>,
}

/// A `[phase.core]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CoreTable {
    mispredicted_large_pki: f64,
    instruction_curve: Vec<(u64, f64)>,
    cleared_curve: Option<Vec<(u64, f64)>>,
    #[serde(default)]
    zeroed_mpki: f64,
    page_faults_pki: f64,
    #[serde(default)]
    file_faults_pki: f64,
    system_calls_pki: f64,
    #[serde(default)]
    light_calls_pki: f64,
    #[serde(default)]
    mapping_calls_pki: f64,
    #[serde(default)]
    sleeping_calls_pki: f64,
    transferred_bytes_pki: f64,
    #[serde(default)]
    file_written_bytes_pki: f64,
    #[serde(default)]
    micro_traces: Vec<(u32, f64)>,
}

/// The `[micro_traces]` as they are written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PackedTable {
    data: String,
}

/// A `[[thread]]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ThreadTable {
    #[serde(default)]
    process: u32,
    thread: u32,
    instructions: u64,
    data_accesses_pki: f64,
    curve: Vec<(u64, f64)>,
}

fn one_thread() -> u32 {
    1
}

fn micro_traces_fault(error: &MicroTraceError) -> Fault {
    let fault = Fault::here(format!("damaged: {error}")).under(PathStep::Key("data"));
    fault.under(PathStep::Key("micro_traces"))
}

impl Profile {
    /// Reads a profile file's text; `file` is named in errors.
    ///
    /// # Errors
    /// [`FileError`] with line and field: no TOML, another version, a key missing, unknown or of
    /// the wrong type, or a figure that cannot be.
    pub fn from_toml(text: &str, file: &str) -> Result<Self, FileError> {
        Self::read(text, file).map(|(profile, _)| profile)
    }

    fn read<'a>(text: &'a str, file: &'a str) -> Result<(Self, TomlDocument<'a>), FileError> {
        let document = TomlDocument::parse(text, file)?;
        document.check_versions(PROFILE_FILE_VERSION, &EARLIER_PROFILE_FILE_VERSIONS, true)?;
        let profile_file: ProfileFile = document.read()?;
        let profile = profile_file.into_profile().map_err(|fault| document.locate(&fault))?;
        profile.check().map_err(|fault| document.locate(&fault))?;
        Ok((profile, document))
    }

    /// Reads a profile file.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be read, as [`Self::from_toml`], or when its micro-traces are damaged.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let text = read_text(path)?;
        let file = path.display().to_string();
        let (profile, document) = Self::read(&text, &file)?;
        if let ProfileData::Recording(recording) = &profile.data {
            let checked = recording.micro_traces.check();
            checked.map_err(|error| document.locate(&micro_traces_fault(&error)))?;
        }
        Ok(profile)
    }

    /// Writes the profile to a file, whole or not at all.
    ///
    /// # Errors
    /// [`FileError`] when a figure cannot be, or the file cannot be written; the file is then as
    /// it was.
    pub fn save(&self, path: &Path) -> Result<(), FileError> {
        let file = path.display().to_string();
        self.check().map_err(|fault| FileError::of_fault(&file, &fault))?;
        write_atomically(path, self.to_toml().as_bytes())
            .map_err(|error| FileError::whole(&file, format!("cannot be written: {error}")))
    }

    /// The text of its profile file. Rates of a recording are rounded to 5 significant digits:
    /// sampling is not more exact. Figures of a table stand as they are.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        line(&mut out, "version", PROFILE_FILE_VERSION);
        line(&mut out, "name", quoted(&self.name));
        match &self.data {
            ProfileData::Recording(recording) => write_recording(&mut out, recording),
            ProfileData::Table(table) => write_table(&mut out, table),
        }
        out
    }
}

/// The command line that a recording's profile file was traced with, from the file's head: what comes before its phases.
///
/// # Errors
/// [`FileError`] when the head is no TOML or has no `[origin]`.
pub(crate) fn command_of_recording(text: &str, file: &str) -> Result<Vec<String>, FileError> {
    #[derive(Deserialize)]
    struct Head {
        origin: Origin,
    }
    let head = text.find("\n[[").map_or(text, |end| &text[..=end]);
    Ok(TomlDocument::parse(head, file)?.read::<Head>()?.origin.command)
}

impl ProfileFile {
    fn into_profile(self) -> Result<Profile, Fault> {
        let absent = |key: &'static str| Fault::here("missing").under(PathStep::Key(key));
        let unfit = |key: &'static str, other: &str| {
            let why = format!("found beside {other}: a profile is a recording or a table");
            Err(Fault::here(why).under(PathStep::Key(key)))
        };
        let data = if let Some(measured_on) = self.measured_on {
            if self.origin.is_some() {
                return unfit("origin", "measured_on");
            }
            if self.phase.is_some() {
                return unfit("phase", "measured_on");
            }
            let columns = self.columns.ok_or_else(|| absent("columns"))?;
            let rows = self.rows.ok_or_else(|| absent("rows"))?;
            for (key, found) in [
                ("sequence", self.sequence.is_some()),
                ("thread", !self.thread.is_empty()),
                ("process", !self.process.is_empty()),
                ("stack_distances", !self.stack_distances.is_empty()),
                ("micro_traces", self.micro_traces.is_some()),
            ] {
                if found {
                    return unfit(key, "measured_on");
                }
            }
            let rows = read_rows(&columns, &rows)?;
            ProfileData::Table(SoloTable::new(measured_on, rows)?)
        } else {
            let origin = self.origin.ok_or_else(|| {
                let why = "missing: expected origin (a recording) or measured_on (a solo table)";
                Fault::here(why).under(PathStep::Key("origin"))
            })?;
            if self.columns.is_some() {
                return unfit("columns", "origin");
            }
            if self.rows.is_some() {
                return unfit("rows", "origin");
            }
            let mut phases = Vec::new();
            for (index, phase) in self.phase.unwrap_or_default().into_iter().enumerate() {
                let at_phase = |fault: Fault| {
                    fault.under(PathStep::Index(index)).under(PathStep::Key("phase"))
                };
                phases.push(phase.into_phase().map_err(at_phase)?);
            }
            let mut recording = Recording::new(origin, phases);
            if let Some(sequence) = self.sequence {
                let stretch = |(phase, instructions)| Stretch { phase, instructions };
                recording.sequence = sequence.into_iter().map(stretch).collect();
            }
            for (index, thread) in self.thread.into_iter().enumerate() {
                let at_thread = |fault: Fault| {
                    fault.under(PathStep::Index(index)).under(PathStep::Key("thread"))
                };
                recording.threads.push(thread.into_record().map_err(at_thread)?);
            }
            recording.processes = self.process;
            recording.stack_distances = self.stack_distances;
            if let Some(packed) = self.micro_traces {
                recording.micro_traces = MicroTraces::from_base64(&packed.data)
                    .map_err(|error| micro_traces_fault(&error))?;
            }
            ProfileData::Recording(recording)
        };
        Ok(Profile { name: self.name, data })
    }
}

impl PhaseTable {
    fn into_phase(self) -> Result<Phase, Fault> {
        Ok(Phase {
            instructions: self.instructions,
            threads: self.threads,
            data_accesses_pki: self.data_accesses_pki,
            mix: self.mix,
            prefetchable: self.prefetchable,
            memory_level_parallelism: self.memory_level_parallelism,
            dirty_share: self.dirty_share,
            footprint_bytes: self.footprint_bytes,
            curve: read_curve(self.curve, "curve")?,
            core: self.core.map(CoreTable::into_detail).transpose()?,
        })
    }
}

impl CoreTable {
    fn into_detail(self) -> Result<CoreDetail, Fault> {
        let at_core = |fault: Fault| fault.under(PathStep::Key("core"));
        Ok(CoreDetail {
            mispredicted_large_pki: self.mispredicted_large_pki,
            instruction_curve: read_curve(self.instruction_curve, "instruction_curve")
                .map_err(at_core)?,
            cleared_curve: self
                .cleared_curve
                .map(|pairs| read_curve(pairs, "cleared_curve"))
                .transpose()
                .map_err(at_core)?,
            zeroed_mpki: self.zeroed_mpki,
            page_faults_pki: self.page_faults_pki,
            file_faults_pki: self.file_faults_pki,
            system_calls_pki: self.system_calls_pki,
            light_calls_pki: self.light_calls_pki,
            mapping_calls_pki: self.mapping_calls_pki,
            sleeping_calls_pki: self.sleeping_calls_pki,
            transferred_bytes_pki: self.transferred_bytes_pki,
            file_written_bytes_pki: self.file_written_bytes_pki,
            micro_traces: self.micro_traces,
        })
    }
}

impl ThreadTable {
    fn into_record(self) -> Result<ThreadRecord, Fault> {
        Ok(ThreadRecord {
            process: self.process,
            thread: self.thread,
            instructions: self.instructions,
            data_accesses_pki: self.data_accesses_pki,
            curve: read_curve(self.curve, "curve")?,
        })
    }
}

fn read_curve(pairs: Vec<(u64, f64)>, key: &'static str) -> Result<MissRateCurve, Fault> {
    let points = pairs.into_iter().map(|(bytes, mpki)| CurvePoint { bytes, mpki });
    MissRateCurve::new(points.collect()).map_err(|error| {
        let fault = Fault::here(error.to_string());
        let fault = match error {
            CurveError::Empty => fault,
            CurveError::Order { index, .. }
            | CurveError::Rate { index, .. }
            | CurveError::ZeroSize { index } => fault.under(PathStep::Index(index)),
        };
        fault.under(PathStep::Key(key))
    })
}

/// The rows of a table, whose columns may stand in any order.
fn read_rows(columns: &[String], rows: &[Vec<f64>]) -> Result<Vec<SoloRow>, Fault> {
    let at_columns = |why: String| Fault::here(why).under(PathStep::Key("columns"));
    let place_of = |name: &str| {
        let mut places = (0..columns.len()).filter(|&place| columns[place] == name);
        match (places.next(), places.next()) {
            (Some(place), None) => Ok(place),
            (None, _) => Err(at_columns(format!("missing column {name:?}"))),
            _ => Err(at_columns(format!("found column {name:?} twice"))),
        }
    };
    let ways_place = place_of("ways")?;
    let mut places = [0; FIGURES];
    for (figure, place) in places.iter_mut().enumerate() {
        *place = place_of(FIGURE_NAMES[figure])?;
    }
    if let Some(unknown) =
        columns.iter().find(|name| *name != "ways" && !FIGURE_NAMES.contains(&name.as_str()))
    {
        return Err(at_columns(format!("found unknown column {unknown:?}")));
    }
    let mut out = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        let at_row = |why: String| Fault::here(why).under(PathStep::Index(index));
        if row.len() != columns.len() {
            let why = format!("found {} figures, expected {}", row.len(), columns.len());
            return Err(at_row(why).under(PathStep::Key("rows")));
        }
        let ways = row[ways_place];
        if ways.fract() != 0.0 || !(1.0..=f64::from(u32::MAX)).contains(&ways) {
            let why = format!("found {ways} ways, expected a whole number >= 1");
            return Err(at_row(why).under(PathStep::Key("rows")));
        }
        let figures = TableFigures::from_array(places.map(|place| row[place]));
        out.push(SoloRow { ways: ways as u32, figures });
    }
    Ok(out)
}

fn write_recording(out: &mut String, recording: &Recording) {
    if !recording.is_in_order() {
        out.push_str("sequence = [\n");
        for stretch in &recording.sequence {
            writing(writeln!(out, "  [{}, {}],", stretch.phase, stretch.instructions));
        }
        out.push_str("]\n");
    }
    write_origin(out, &recording.origin);
    for phase in &recording.phases {
        write_phase(out, phase);
    }
    for thread in &recording.threads {
        write_thread(out, thread);
    }
    for process in &recording.processes {
        out.push_str("\n[[process]]\n");
        line(out, "command", words(&process.command));
        if process.count != 1 {
            line(out, "count", process.count);
        }
        line(out, "instructions", process.instructions);
        line(out, "complete", process.complete);
    }
    for one in &recording.stack_distances {
        write_stack_distances(out, one);
    }
    if !recording.micro_traces.is_empty() {
        out.push_str("\n[micro_traces]\ndata = \"\"\"\n");
        out.push_str(&recording.micro_traces.to_base64());
        out.push_str("\n\"\"\"\n");
    }
}

fn write_origin(out: &mut String, origin: &Origin) {
    out.push_str("\n[origin]\n");
    line(out, "command", words(&origin.command));
    for (key, text) in [
        ("program", &origin.program),
        ("input", &origin.input),
        ("date", &origin.date),
        ("tracer", &origin.tracer),
    ] {
        line(out, key, quoted(text));
    }
    line(out, "engine", quoted(origin.engine.name()));
    line(out, "sampling_rate", number(origin.sampling_rate));
    line(out, "instruction_fetches", origin.instruction_fetches);
    line(out, "untraced_processes", origin.untraced_processes);
    line(out, "complete", origin.complete);
    if let Some(code) = origin.exit_code {
        line(out, "exit_code", code);
    }
}

fn write_phase(out: &mut String, phase: &Phase) {
    let mix = &phase.mix;
    out.push_str("\n[[phase]]\n");
    line(out, "instructions", phase.instructions);
    line(out, "threads", phase.threads);
    line(out, "data_accesses_pki", rounded(phase.data_accesses_pki));
    let kinds = [
        ("loads_pki", mix.loads_pki),
        ("stores_pki", mix.stores_pki),
        ("branches_pki", mix.branches_pki),
        ("float_pki", mix.float_pki),
        ("mispredicted_pki", mix.mispredicted_pki),
    ];
    let kinds = kinds.map(|(key, value)| format!("{key} = {}", rounded(value)));
    line(out, "mix", format!("{{ {} }}", kinds.join(", ")));
    line(out, "prefetchable", rounded(phase.prefetchable));
    line(out, "memory_level_parallelism", rounded(phase.memory_level_parallelism));
    line(out, "dirty_share", rounded(phase.dirty_share));
    line(out, "footprint_bytes", phase.footprint_bytes);
    write_curve(out, "curve", &phase.curve);
    let Some(core) = &phase.core else { return };
    out.push_str("\n[phase.core]\n");
    line(out, "mispredicted_large_pki", rounded(core.mispredicted_large_pki));
    if core.cleared_curve.is_none() {
        line(out, "zeroed_mpki", rounded(core.zeroed_mpki));
    }
    line(out, "page_faults_pki", rounded(core.page_faults_pki));
    if core.file_faults_pki > 0.0 {
        line(out, "file_faults_pki", rounded(core.file_faults_pki));
    }
    line(out, "system_calls_pki", rounded(core.system_calls_pki));
    for (key, calls_pki) in [
        ("light_calls_pki", core.light_calls_pki),
        ("mapping_calls_pki", core.mapping_calls_pki),
        ("sleeping_calls_pki", core.sleeping_calls_pki),
    ] {
        if calls_pki > 0.0 {
            line(out, key, rounded(calls_pki));
        }
    }
    line(out, "transferred_bytes_pki", rounded(core.transferred_bytes_pki));
    if core.file_written_bytes_pki > 0.0 {
        line(out, "file_written_bytes_pki", rounded(core.file_written_bytes_pki));
    }
    write_curve(out, "instruction_curve", &core.instruction_curve);
    if let Some(cleared) = &core.cleared_curve {
        write_curve(out, "cleared_curve", cleared);
    }
    let traces = core.micro_traces.iter().map(|(at, share)| format!("[{at}, {}]", rounded(*share)));
    line(out, "micro_traces", format!("[{}]", traces.collect::<Vec<_>>().join(", ")));
}

fn write_thread(out: &mut String, thread: &ThreadRecord) {
    out.push_str("\n[[thread]]\n");
    line(out, "process", thread.process);
    line(out, "thread", thread.thread);
    line(out, "instructions", thread.instructions);
    line(out, "data_accesses_pki", rounded(thread.data_accesses_pki));
    write_curve(out, "curve", &thread.curve);
}

fn write_stack_distances(out: &mut String, one: &StackDistanceProfile) {
    out.push_str("\n[[stack_distances]]\n");
    line(out, "sets", one.sets);
    line(out, "line_bytes", one.line_bytes);
    let private = one.private_caches.iter().map(|(bytes, ways)| format!("[{bytes}, {ways}]"));
    line(out, "private_caches", format!("[{}]", private.collect::<Vec<_>>().join(", ")));
    let hits: Vec<String> = one.hits_pki.iter().map(|&hits| rounded(hits)).collect();
    line(out, "hits_pki", format!("[{}]", hits.join(", ")));
    line(out, "misses_pki", rounded(one.misses_pki));
}

fn write_curve(out: &mut String, key: &str, curve: &MissRateCurve) {
    writing(writeln!(out, "{key} = ["));
    for point in curve.points() {
        writing(writeln!(out, "  [{}, {}],", point.bytes, rounded(point.mpki)));
    }
    out.push_str("]\n");
}

/// Words as a list.
fn words(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("[{}]", words.join(", "))
}

fn write_table(out: &mut String, table: &SoloTable) {
    let columns: Vec<String> = std::iter::once("ways").chain(FIGURE_NAMES).map(quoted).collect();
    line(out, "columns", format!("[\n  {},\n]", columns.join(", ")));
    out.push_str("rows = [\n");
    for row in table.rows() {
        let figures = row.figures.to_array().map(number);
        writing(writeln!(out, "  [{}, {}],", row.ways, figures.join(", ")));
    }
    out.push_str("]\n\n[measured_on]\n");
    let machine = table.measured_on();
    line(out, "machine", quoted(&machine.machine));
    line(out, "clock_mhz", number(machine.clock_mhz));
    line(out, "private_cache_bytes", machine.private_cache_bytes);
    line(out, "inclusive_llc", machine.inclusive_llc);
    line(out, "way_bytes", machine.way_bytes);
    line(out, "line_bytes", machine.line_bytes);
    line(out, "memory_latency_ns", number(machine.memory_latency_ns));
    line(out, "llc_latency_ns", number(machine.llc_latency_ns));
}

fn line(out: &mut String, key: &str, value: impl std::fmt::Display) {
    writing(writeln!(out, "{key} = {value}"));
}

/// Writing to a `String` does not fail.
fn writing(result: std::fmt::Result) {
    debug_assert!(result.is_ok());
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A number with all its digits, in the shortest form that reads back as the same.
fn number(value: f64) -> String {
    toml::Value::from(value).to_string()
}

/// A number with 5 significant digits; the very largest, which would round up to infinity, as it is.
fn rounded(value: f64) -> String {
    let near: f64 = format!("{value:.4e}").parse().unwrap_or(value);
    number(if near.is_finite() { near } else { value })
}

#[cfg(test)]
#[path = "profile_file_tests.rs"]
mod tests;
