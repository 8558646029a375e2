//! What can be chosen: machines, programs, policies; and what was pasted, checked.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use corun_app::{DEFAULT_MACHINE, PLACEMENT_SEARCHES, PlacementSearch};
use corun_machine::{BandwidthDomain, Machine, THIS_MACHINE, preset, presets};
use corun_model::{Model, ModelOptions};
use corun_policy::{PolicyKind, registry};
use corun_profile::{Mix, Profile, ProfileDocument};
use serde::{Deserialize, Serialize};

use super::answer::{Asked, Failure, Part};
use super::question::MachineChoice;
use super::{Desk, off_thread};

/// A cache at which programs are set side by side, in bytes.
const COMPARED_AT: f64 = (1 << 20) as f64;

/// What the page starts with.
#[derive(Debug, Serialize)]
pub(crate) struct Session {
    version: &'static str,
    /// The machine to start with, by name.
    machine: String,
    /// The programs to start with; empty: the page's own choice.
    apps: Vec<String>,
    /// The machine that is observed, as [`machine`] draws it; null where nothing is.
    live: Option<Drawing>,
    /// May viewers act on it?
    acts: bool,
    /// Is there an experiment whose progress comes in?
    experiment: bool,
}

pub(crate) async fn session(State(desk): State<Arc<Desk>>) -> Json<Session> {
    let options = &desk.options;
    let machine = options.machine.as_ref().map_or(DEFAULT_MACHINE, Machine::name);
    Json(Session {
        version: env!("CARGO_PKG_VERSION"),
        machine: machine.to_owned(),
        apps: options.apps.clone(),
        live: options.live.as_ref().map(|live| Drawing::new(&live.machine, None)),
        acts: options.live.as_ref().is_some_and(|live| live.asker().is_some()),
        experiment: options.experiment.is_some(),
    })
}

/// A machine that can be chosen.
#[derive(Debug, Serialize)]
pub(crate) struct MachineEntry {
    name: String,
    title: String,
    llcs: usize,
    cores: usize,
    cpus: usize,
}

impl MachineEntry {
    fn new(name: &str, machine: &Machine) -> Self {
        Self {
            name: name.to_owned(),
            title: machine.title().to_owned(),
            llcs: machine.llcs().len(),
            cores: machine.cores().len(),
            cpus: machine.cpus().len(),
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Machines {
    machines: Vec<MachineEntry>,
}

pub(crate) async fn machines(State(desk): State<Arc<Desk>>) -> Result<Json<Machines>, Failure> {
    off_thread(move |_| {
        let mut machines = Vec::new();
        if let Some(own) = &desk.options.machine {
            machines.push(MachineEntry::new(own.name(), own));
        }
        // Where this machine does not tell what it is, there is none to choose.
        if let Ok(this) = desk.machine(&MachineChoice::Name(THIS_MACHINE.to_owned()))
            && machines.iter().all(|one| one.name != THIS_MACHINE)
        {
            machines.push(MachineEntry::new(THIS_MACHINE, &this));
        }
        for name in presets() {
            if machines.iter().all(|one| one.name != name)
                && let Ok(machine) = preset(name)
            {
                machines.push(MachineEntry::new(name, &machine));
            }
        }
        Ok(Machines { machines })
    })
    .await
}

/// A program that can be chosen.
#[derive(Debug, Serialize)]
pub(crate) struct ProgramEntry {
    name: String,
    instructions: u64,
    footprint_bytes: Option<u64>,
    /// Misses per 1000 instructions alone with 1 MiB of cache.
    mpki_at_1_mib: f64,
}

impl ProgramEntry {
    fn new(profile: &Profile) -> Self {
        Self {
            name: profile.name.clone(),
            instructions: profile.instructions(),
            footprint_bytes: profile.footprint_bytes(),
            mpki_at_1_mib: corun_app::round(profile.solo_mpki(COMPARED_AT).value, 6),
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Programs {
    programs: Vec<ProgramEntry>,
}

pub(crate) async fn programs(State(desk): State<Arc<Desk>>) -> Json<Programs> {
    Json(Programs { programs: desk.options.library.iter().map(ProgramEntry::new).collect() })
}

/// A policy, or a search for a placement.
#[derive(Debug, Serialize)]
pub(crate) struct PolicyLine {
    name: &'static str,
    /// The text of its button.
    label: &'static str,
    summary: &'static str,
    source: &'static str,
    /// Is it a search for the best or the worst placement?
    search: bool,
    /// Does it answer where programs are to run? Policies that only divide caches do not.
    places: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct Policies {
    policies: Vec<PolicyLine>,
}

pub(crate) async fn policies() -> Json<Policies> {
    let search = |search: PlacementSearch| PolicyLine {
        name: search.name,
        label: search.label,
        summary: search.summary,
        source: "",
        search: true,
        places: true,
    };
    let mut policies: Vec<PolicyLine> = PLACEMENT_SEARCHES.into_iter().map(search).collect();
    policies.extend(registry().iter().map(|entry| PolicyLine {
        name: entry.name,
        label: entry.name,
        summary: entry.summary,
        source: entry.source,
        search: false,
        places: entry.kind() == PolicyKind::Placement,
    }));
    Json(Policies { policies })
}

/// A machine as it is drawn. CPUs, cores, LLCs, nodes and packages are named by their place in these lists,
/// but `id` and `os_index` are the operating system's numbers.
#[derive(Debug, Serialize)]
pub(crate) struct Drawing {
    name: String,
    title: String,
    packages: Vec<u32>,
    nodes: Vec<NodeDrawing>,
    llcs: Vec<LlcDrawing>,
    cpus: Vec<CpuDrawing>,
    core_types: Vec<String>,
    bandwidth: Vec<DomainDrawing>,
    /// What had to be assumed, for people.
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct NodeDrawing {
    os_index: u32,
    memory_mib: Option<u64>,
}

#[derive(Debug, Serialize)]
struct LlcDrawing {
    size_bytes: Option<u64>,
    /// Null where the machine does not say; the model then takes 16.
    ways: Option<u32>,
    level: Option<u32>,
}

#[derive(Debug, Serialize)]
struct CpuDrawing {
    id: u32,
    core: usize,
    llc: usize,
    node: usize,
    package: usize,
    core_type: usize,
    memory_path: Vec<usize>,
}

#[derive(Debug, Serialize)]
struct DomainDrawing {
    name: String,
    kind: corun_machine::BandwidthKind,
    peak_mb_per_s: f64,
}

impl Drawing {
    fn new(machine: &Machine, ways: Option<&Model>) -> Self {
        let domain = |one: &BandwidthDomain| DomainDrawing {
            name: one.name.clone(),
            kind: one.kind,
            peak_mb_per_s: one.peak_mb_per_s,
        };
        let cpu = |(place, one): (usize, &corun_machine::Cpu)| CpuDrawing {
            id: one.id.0,
            core: one.core,
            llc: one.llc,
            node: one.node,
            package: one.package,
            core_type: one.core_type,
            memory_path: machine.memory_path(place, one.node),
        };
        let llc = |(place, one): (usize, &corun_machine::Llc)| {
            let first = machine.cpus().iter().position(|cpu| cpu.llc == place);
            LlcDrawing {
                size_bytes: one.cache.map(|cache| cache.size_bytes),
                ways: one
                    .cache
                    .and_then(|cache| cache.ways)
                    .or_else(|| Some(ways?.llc_ways(first?))),
                level: one.cache.map(|cache| cache.level),
            }
        };
        Self {
            name: machine.name().to_owned(),
            title: machine.title().to_owned(),
            packages: machine.packages().iter().map(|one| one.os_index).collect(),
            nodes: machine
                .nodes()
                .iter()
                .map(|one| NodeDrawing { os_index: one.os_index, memory_mib: one.memory_mib })
                .collect(),
            llcs: machine.llcs().iter().enumerate().map(llc).collect(),
            cpus: machine.cpus().iter().enumerate().map(cpu).collect(),
            core_types: machine.core_types().iter().map(|one| one.name.clone()).collect(),
            bandwidth: machine.bandwidth_domains().iter().map(domain).collect(),
            warnings: machine.warnings().to_vec(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MachineAsked {
    machine: MachineChoice,
}

pub(crate) async fn machine(
    State(desk): State<Arc<Desk>>,
    Asked(asked): Asked<MachineAsked>,
) -> Result<Json<Drawing>, Failure> {
    off_thread(move |_| {
        let machine = Arc::new(desk.machine(&asked.machine)?);
        let wrong = |error| Failure::of(Part::Machine)(corun_app::Error::from(error));
        let model = Model::new(machine.clone(), ModelOptions::default()).map_err(wrong)?;
        Ok(Drawing::new(&machine, Some(&model)))
    })
    .await
}

/// A file's text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextAsked {
    text: String,
}

/// What of a mix is a placement's: programs that run all the time.
#[derive(Debug, Serialize)]
pub(crate) struct MixAnswer {
    machine: Option<String>,
    apps: Vec<String>,
    /// What the mix says that a placement knows nothing of, for people.
    left_out: Vec<String>,
}

pub(crate) async fn mix(Asked(asked): Asked<TextAsked>) -> Result<Json<MixAnswer>, Failure> {
    off_thread(move |_| {
        let wrong = |error| Failure::of(Part::Mix)(corun_app::Error::from(error));
        Ok(answer_of(&Mix::from_toml(&asked.text, "pasted mix").map_err(wrong)?))
    })
    .await
}

fn answer_of(mix: &Mix) -> MixAnswer {
    let mut answer =
        MixAnswer { machine: mix.machine.clone(), apps: Vec::new(), left_out: Vec::new() };
    for app in &mix.apps {
        let Some(profile) = &app.profile else {
            let why = "is a command without a profile";
            answer.left_out.push(format!("{} {why}", app.shown_name()));
            continue;
        };
        let copies = u64::from(app.count) * u64::from(app.threads);
        answer.apps.extend((0..copies).map(|_| profile.clone()));
        let name = app.shown_name();
        if app.threads > 1 {
            let threads = app.threads;
            answer
                .left_out
                .push(format!("{name}: its {threads} threads stand as programs by themselves"));
        }
        let waits = app.io.is_some() || app.barrier.is_some() || app.service.is_some();
        if app.start_s > 0.0 || app.kill_s.is_some() || waits {
            answer.left_out.push(format!("{name}: when it starts, ends and waits"));
        }
    }
    answer
}

/// A profile that was pasted.
pub(crate) async fn profile(
    Asked(asked): Asked<TextAsked>,
) -> Result<Json<ProfileDocument>, Failure> {
    off_thread(move |_| {
        let wrong = |error| Failure::of(Part::Profiles)(corun_app::Error::from(error));
        let profile = Profile::from_toml(&asked.text, "pasted profile").map_err(wrong)?;
        Ok(ProfileDocument::new(&profile, None))
    })
    .await
}
