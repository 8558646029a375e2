//! `corun validate`: predictions beside what this machine does.

use std::time::Duration;

use anyhow::anyhow;
use corun_app::{Cancel, Scenario, find_machine, open_library, tell};
use corun_linux::{NoiseMeter, Roots};
use corun_machine::{CpuId, CpuSet, Machine, discover};
use corun_profile::{Library, Profile, ProfileData};
use corun_validate::{
    Conditions, EarlierRun, KeepError, Kept, LastCache, ProgramGroup, RoundPlan, RunError,
    TimedProgram, Validation, keep, leave_out_others, measure, random_groups,
};
use corun_views::validation;

use crate::cli::{DocumentFormat, ValidateArgs, model_options};
use crate::failure::{Failure, Outcome};
use corun_report::{check_targets, json, write_file};

pub(super) fn run(arguments: &ValidateArgs) -> Outcome<String> {
    check_targets([&arguments.report, &arguments.svg].into_iter().flatten())?;
    let earlier = arguments.measured.as_deref().map(EarlierRun::read).transpose()?;
    let library = open_library(arguments.profiles.as_deref())?;
    let machine = find_machine(&arguments.machine)?;
    let found = match earlier {
        Some(earlier) => again(arguments, &library, machine, &earlier)?,
        None => {
            let found = anew(arguments, &library, machine.clone())?;
            said(keep(&arguments.machine, &machine, &found, arguments.force));
            found
        }
    };
    if found.alone.is_empty() {
        let why = found.left_out.first().map(|one| format!(": {}: {}", one.name, one.why));
        let why = format!("no program was timed{}", why.unwrap_or_default());
        return Err(Failure::Failed(anyhow!(why)));
    }
    if let Some(report) = &arguments.report {
        write_file(report, validation::page(&found).as_bytes())?;
    }
    if let Some(svg) = &arguments.svg {
        write_file(svg, validation::drawing(&found).as_bytes())?;
    }
    match arguments.format {
        DocumentFormat::Text => Ok(validation::text(&found)),
        DocumentFormat::Json => json(&found),
    }
}

/// The measurement is worth more than a file that cannot be written.
fn said(kept: Result<Kept, KeepError>) {
    match kept {
        Ok(Kept::In(file)) => tell(format_args!(
            "{}: how far predictions are off is noted there; predict, place, partition and compare show it",
            file.display()
        )),
        Ok(Kept::Handwritten(file)) => tell(format_args!(
            "{}: how far predictions are off is not noted there, since the file has no [measurement]; \
             corun calibrate writes one that has",
            file.display()
        )),
        Ok(Kept::Weaker(file, why)) => tell(format_args!(
            "{}: how far predictions were off stays as it is there: {why}\n  try: --force",
            file.display()
        )),
        Ok(Kept::Nowhere) => {}
        Err(error) => tell(error),
    }
}

/// Predictions beside what is measured now.
fn anew(arguments: &ValidateArgs, library: &Library, machine: Machine) -> Outcome<Validation> {
    if !arguments.folder.is_dir() {
        let why = format!("{}: no such folder", arguments.folder.display());
        return Err(Failure::input(why));
    }
    let (profiles, unfit) = chosen(library, &arguments.programs, &arguments.beside)?;
    let cpus = shared_cpus(&machine)?;
    let names: Vec<String> = profiles.iter().map(|profile| profile.name.clone()).collect();
    let scenario = Scenario::new(machine, library, &names, model_options(&arguments.model))?;
    check_group_size(arguments, cpus.len())?;
    let plan = plan(arguments, &names, cpus.len());
    let used: CpuSet = cpus.iter().map(|&cpu| scenario.machine().cpus()[cpu].id).collect();
    let conditions = Conditions {
        // Programs are started from within it, so that a relative path would mean another one there.
        folder: std::path::absolute(&arguments.folder)
            .map_err(|error| Failure::Failed(error.into()))?,
        cpus: cpus.iter().map(|&cpu| scenario.machine().cpus()[cpu].id.0).collect(),
        cores: cpus.iter().map(|&cpu| scenario.machine().cpus()[cpu].core).collect(),
        same_llc_ns: scenario.machine().spec().line_transfer.and_then(|one| one.same_llc_ns),
        additions_per_cycle: {
            let machine = scenario.machine();
            let core_type = &machine.core_types()[machine.cpus()[cpus[0]].core_type];
            core_type.execution.and_then(|one| one.additions_per_cycle)
        },
        shared_cache: shared_cache(scenario.machine(), cpus[0]),
        limit: Duration::from_secs_f64(arguments.limit_s),
    };
    let subjects: Vec<TimedProgram> =
        profiles.iter().filter_map(|profile| subject(profile)).collect();
    let meter = NoiseMeter::new(&Roots::default(), used);
    let mut measured = measured(&subjects, &plan, &conditions)?;
    leave_out_others(&scenario, &plan, cpus[0], &mut measured);
    if measured.rounds < plan.rounds {
        let (whole, asked) = (measured.rounds, plan.rounds);
        tell(format_args!("interrupted: {whole} of {asked} rounds are whole, and count"));
    }
    let load = meter.noise();
    Validation::new(&scenario, &plan, &cpus, (&measured, load), unfit)
}

/// Predictions beside what an earlier run measured.
fn again(
    arguments: &ValidateArgs,
    library: &Library,
    machine: Machine,
    earlier: &EarlierRun,
) -> Outcome<Validation> {
    let known = earlier.names();
    let wanted = if arguments.programs.is_empty() { &known } else { &arguments.programs };
    let is_known = |name: &&String| known.contains(name) && library.get(name).is_ok();
    let names: Vec<String> = wanted.iter().filter(is_known).cloned().collect();
    if names.is_empty() {
        return Err(Failure::input("none of the programs was timed in that run"));
    }
    let cpus = of_one_llc(&machine, |_| true);
    let scenario = Scenario::new(machine, library, &names, model_options(&arguments.model))?;
    let (plan, measured, load) = earlier.measured(&names);
    Validation::new(&scenario, &plan, &cpus, (&measured, load), Vec::new())
}

/// A program that cannot be run again, and why.
type Unfit = (String, String);

/// The profiles of programs that can be run again, and the names of those that cannot with the
/// reason. Programs that were named and cannot be are an error.
fn chosen<'a>(
    library: &'a Library,
    named: &[String],
    beside: &[String],
) -> Outcome<(Vec<&'a Profile>, Vec<Unfit>)> {
    let mut wanted: Vec<&Profile> = Vec::new();
    if named.is_empty() {
        wanted.extend(library.iter());
    }
    for name in named.iter().chain(beside) {
        let profile = library.get(name.trim())?;
        if wanted.iter().all(|one| one.name != profile.name) {
            wanted.push(profile);
        }
    }
    let mut unfit = Vec::new();
    let mut fit = Vec::new();
    for profile in wanted {
        match fault(profile) {
            None => fit.push(profile),
            Some(why) => unfit.push((profile.name.clone(), why.to_owned())),
        }
    }
    if fit.is_empty() {
        let why =
            unfit.first().map_or("no programs".to_owned(), |(name, why)| format!("{name}: {why}"));
        return Err(
            Failure::input(why).hint("a profile that corun profile wrote of a program's whole run")
        );
    }
    Ok((fit, unfit))
}

/// Why a profile's program cannot be run again and compared.
fn fault(profile: &Profile) -> Option<&'static str> {
    let ProfileData::Recording(recording) = &profile.data else {
        return Some("a table of solo figures, which has no command");
    };
    if recording.origin.command.is_empty() {
        Some("the recording has no command")
    } else if !recording.origin.complete {
        Some("only a part of its run was recorded")
    } else if recording.origin.untraced_processes > 0 {
        Some("not all of its processes were recorded")
    } else {
        None
    }
}

fn subject(profile: &Profile) -> Option<TimedProgram> {
    let ProfileData::Recording(recording) = &profile.data else { return None };
    Some(TimedProgram {
        name: profile.name.clone(),
        command: recording.origin.command.clone(),
        good_codes: recording.origin.exit_code.into_iter().collect(),
    })
}

/// The caches of a CPU (index), where its machine file says that others outside use the last one.
fn shared_cache(machine: &Machine, cpu: usize) -> Option<LastCache> {
    let llc = &machine.llcs()[machine.cpus()[cpu].llc];
    let is_shared = !machine.objects()[llc.object?].idle_survival.is_empty();
    let private = machine.private_cache(cpu)?.size_bytes;
    let bytes = llc.cache.as_ref()?.size_bytes;
    is_shared.then_some(LastCache { private_bytes: private as f64, bytes: bytes as f64 })
}

/// CPUs (indices) of the machine under the LLC with most of them that may be used here.
fn shared_cpus(machine: &Machine) -> Outcome<Vec<usize>> {
    let here =
        discover(std::path::Path::new("/")).map_err(|error| Failure::Failed(error.into()))?;
    let allowed: CpuSet = here.cpu_set();
    let found = of_one_llc(machine, |cpu| allowed.contains(cpu));
    if let Some(why) = here.difference(machine) {
        let name = machine.name();
        tell(format_args!(
            "times are of this machine, and predictions of another one, {name}: {why}"
        ));
    }
    if found.is_empty() {
        let why = format!("{} has no CPU that this machine has", machine.name());
        return Err(Failure::input(why).hint("--machine this"));
    }
    Ok(found)
}

/// CPUs (indices) under the LLC with most of them that may be used: first one of each core, then the
/// other threads of the cores.
fn of_one_llc(machine: &Machine, may_be_used: impl Fn(CpuId) -> bool) -> Vec<usize> {
    let of_llc = |llc: usize| -> Vec<usize> {
        let all = machine.cpus().iter().enumerate();
        all.filter(|(_, cpu)| cpu.llc == llc && may_be_used(cpu.id)).map(|(at, _)| at).collect()
    };
    let sets = (0..machine.llcs().len()).map(of_llc);
    let most = sets.fold(Vec::new(), |most, set| if set.len() > most.len() { set } else { most });
    let core = |cpu: usize| machine.cpus()[cpu].core;
    let is_first =
        |&cpu: &usize| most.iter().all(|&other| other >= cpu || core(other) != core(cpu));
    let (first, rest): (Vec<usize>, Vec<usize>) = most.iter().partition(|cpu| is_first(cpu));
    first.into_iter().chain(rest).collect()
}

/// Groups that were asked for and cannot be are refused. On a machine of one CPU those of the default cannot be, either.
fn check_group_size(arguments: &ValidateArgs, cpus: usize) -> Outcome {
    let size = arguments.group_size;
    if arguments.groups == 0 || size as usize <= cpus {
        return Ok(());
    }
    let why = format!("groups of {size} need {size} CPUs under one LLC, there are {cpus}");
    if cpus == 1 && size == 2 {
        tell(format_args!("{why}: programs are timed alone"));
        return Ok(());
    }
    Err(Failure::input(why).hint("--group-size of fewer").hint("--groups 0"))
}

fn plan(arguments: &ValidateArgs, names: &[String], cpus: usize) -> RoundPlan {
    let size = arguments.group_size as usize;
    let mut groups: Vec<ProgramGroup> = Vec::new();
    if size <= cpus {
        groups = random_groups(names.len(), size, arguments.groups as usize, arguments.seed);
    }
    if cpus >= 2 {
        for beside in &arguments.beside {
            let Some(stressor) = names.iter().position(|name| name == beside.trim()) else {
                continue;
            };
            let pairs = (0..names.len()).map(|one| vec![one.min(stressor), one.max(stressor)]);
            groups.extend(pairs.filter(|pair| pair[0] != pair[1]));
        }
    }
    groups.sort();
    groups.dedup();
    RoundPlan {
        rounds: arguments.rounds as usize,
        most_further: arguments.further_rounds as usize,
        groups,
        seed: arguments.seed,
    }
}

fn measured(
    subjects: &[TimedProgram],
    plan: &RoundPlan,
    conditions: &Conditions,
) -> Outcome<corun_validate::Measured> {
    const STEPS: u64 = 1000;
    let cancel = Cancel::on_signal()?;
    let bar = corun_cli::progress_bar(STEPS, "{percent:>3} % {eta:>4} left  {msg}");
    let found = measure(subjects, plan, conditions, &|done, what| {
        bar.set_position((done * STEPS as f64) as u64);
        bar.set_message(what.to_owned());
        !cancel.is_set()
    });
    bar.finish_and_clear();
    found.map_err(|error| match error {
        RunError::Stopped => Failure::Interrupted,
        other => Failure::Failed(other.into()),
    })
}
