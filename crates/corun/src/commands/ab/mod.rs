//! `corun ab`: what is it worth here? On and off by turns, and what the metrics say of it.

mod document;
mod progress;
mod scheduled;
mod text;
mod throughput;
mod unclear;
mod whose;

use std::time::Duration;

use corun_daemon::{Config, NoPlan};
use corun_hosting::{Counters, Placer, undo_what_was_left};
use corun_linux::{Noise, NoiseMeter, Roots};
use corun_live::ab::{
    Better, Commands, Conclusion, Design, DesignSettings, Ended, ExperimentSettings, Metric,
    MetricKind, MetricSource, PairProgress, SchedCache, StoppingLimits, Switch,
    SwitchbackExperiment, conduct, least_pairs,
};
use corun_live::{Host, default_folder};

use self::progress::Progress;
use self::scheduled::{Backends, Scheduled};
use self::throughput::Throughput;
use self::whose::{Ours, Running, Whose};
use super::starting::programs;
use super::watching::targets;
use crate::cli::{AbArgs, DocumentFormat, TargetArgs};
use crate::failure::{Failure, Outcome};
use corun_app::Cancel;
use corun_report::{json, print};

pub(super) fn run(arguments: &AbArgs) -> Outcome<String> {
    let has_own_policy = !arguments.is_no_policy() && arguments.config.is_none();
    let chosen = match has_own_policy {
        true => arguments.chosen.with_chosen_policy()?,
        false => arguments.chosen.clone(),
    };
    let arguments = &AbArgs { chosen, ..arguments.clone() };
    let metrics = metrics(arguments)?;
    let limits = limits(arguments)?;
    let design = Design::new(DesignSettings {
        block: Duration::from_secs_f64(arguments.block),
        washout: Duration::from_secs_f64(arguments.washout),
        seed: arguments.seed,
    });
    let experiment = SwitchbackExperiment::new(settings(arguments));
    let cancel = Cancel::on_signal_undoing()?;
    let whose = whose(arguments)?;
    let switch = switch(arguments)?;
    let unmeasured = metrics.is_empty();
    let mut commands = Commands::new(switch, metrics, cancel.flag());
    let mut written = Progress::begin(arguments)?;
    let mut told = |progress: &PairProgress| {
        tell(progress, arguments);
        written.pair(progress);
    };
    let checked = |commands: &Commands<'_>| {
        commands.check().map_err(|error| Failure::input(format!("{error}; nothing was changed")))
    };
    let Some(mut whose) = whose else {
        checked(&commands)?;
        tell_beginning(arguments);
        let meter = load_meter();
        let conclusion = conduct(design, experiment, limits, &mut commands, &mut told);
        let load = meter.noise_if_told();
        written.end(&conclusion, load, arguments);
        return concluded(&conclusion, load, arguments);
    };
    // Says what this machine lacks before anything begins.
    let backends = backends(&whose, arguments.against.map(Placer::from))?;
    match backends {
        None => check_policy(&whose, &whose.host(true, None)?)?,
        Some(Backends { tried, against }) => {
            for backend in [tried, against] {
                whose.host(true, Some(backend))?;
            }
        }
    }
    let throughput =
        unmeasured.then(|| Throughput::new(&whose, sample_s(arguments))).transpose()?;
    let began = whose.begin(&cancel);
    let concluded_as = began.and_then(|new| {
        checked(&commands)?;
        let mut subject = Scheduled::new(&mut whose, backends, commands, throughput);
        subject.follow(new).map_err(|error| Failure::Failed(error.into()))?;
        tell_beginning(arguments);
        let meter = load_meter();
        let conclusion = conduct(design, experiment, limits, &mut subject, &mut told);
        Ok((conclusion, meter.noise_if_told()))
    });
    let ended = whose.end();
    let (conclusion, load) = concluded_as?;
    written.end(&conclusion, load, arguments);
    ended?;
    let text = concluded(&conclusion, load, arguments)?;
    if let (Whose::Ours(ours), Ended::Over(_)) = (&whose, &conclusion.ended)
        && let Err(failure) = ours.exit(arguments.programs.mix.is_some())
    {
        print(&text)?;
        return Err(failure);
    }
    Ok(text)
}

/// What all CPUs do from now on.
fn load_meter() -> NoiseMeter {
    let roots = Roots::default();
    let online = corun_linux::sysfs::online_cpus(&roots).unwrap_or_default();
    NoiseMeter::new(&roots, online)
}

/// What turns it on and off where that is no policy.
fn switch(arguments: &AbArgs) -> Outcome<Switch> {
    if !arguments.sched_cache {
        return Ok(Switch::Commands {
            on: arguments.on.clone().unwrap_or_default(),
            off: arguments.off.clone().unwrap_or_default(),
        });
    }
    let (roots, folder) = (Roots::default(), default_folder());
    undo_what_was_left(&folder, &roots)?;
    let switch = SchedCache::new(&roots, &folder);
    let switch = switch.map_err(|why| Failure::input(why.to_string()))?;
    Ok(Switch::SchedCache(Box::new(switch)))
}

/// None where it is no policy that is on and off.
fn whose(arguments: &AbArgs) -> Outcome<Option<Whose>> {
    if arguments.is_no_policy() {
        return Ok(None);
    }
    if let Some(path) = &arguments.config {
        return Ok(Some(Whose::Configured(Config::load(path)?)));
    }
    let host = arguments.chosen.host_settings(false, arguments.seed);
    let running = TargetArgs {
        pid: arguments.pid.clone(),
        unit: arguments.unit.clone(),
        cgroup: arguments.cgroup.clone(),
        ..TargetArgs::default()
    };
    if running.is_given() {
        let targets = targets(&running)?;
        return Ok(Some(Whose::Running(Running { host, targets })));
    }
    if arguments.programs.mix.is_none() && arguments.programs.command.is_empty() {
        return Err(Failure::input("nothing says what is to be on and off by turns")
            .hint(
                "-p PID, --unit UNIT or --cgroup PATH: a policy (--policy) over what runs already",
            )
            .hint("-- PROGRAM ARGUMENTS or a MIX file: a policy over what is started for it")
            .hint("--on CMD --off CMD: a change that two shell commands make and take back")
            .hint("--sched-cache: the kernel's own scheduling by last-level caches")
            .hint("--config FILE: what a daemon with this configuration does"));
    }
    let programs = programs(&arguments.programs, host.counters == Counters::Model)?;
    Ok(Some(Whose::Ours(Ours::new(host, programs))))
}

/// Is there a policy whose blocks would differ from those without? Says so where nothing that it does can help.
fn check_policy(whose: &Whose, host: &Host) -> Outcome {
    if host.needs().all(|needs| needs.controls.is_empty()) {
        return Err(no_policy(whose));
    }
    if NoPlan::beforehand(host) == Some(NoPlan::OneCache) {
        corun_app::tell(NoPlan::OneCache.note());
    }
    Ok(())
}

/// Blocks with the policy and without would be the same.
fn no_policy(whose: &Whose) -> Failure {
    let (why, what_else) = match whose {
        Whose::Configured(config) => match config.chosen() {
            Some(why) => (
                format!("policy = \"auto\" chooses no policy here, since {why}"),
                "policy = \"NAME\" in the file",
            ),
            None => ("the file's policy leaves all to the kernel".to_owned(), "another policy"),
        },
        Whose::Running(_) | Whose::Ours(_) => {
            ("this policy leaves all to the kernel".to_owned(), "--policy NAME")
        }
    };
    Failure::input(format!("there is nothing to compare: {why}"))
        .hint(
            "--on CMD --off CMD: a change of another kind; corun explain PID says what would help",
        )
        .hint(format!("{what_else}: a policy all the same; corun doctor says which can run here"))
}

/// The backends that are compared; none where a policy is compared with none.
fn backends(whose: &Whose, against: Option<Placer>) -> Outcome<Option<Backends>> {
    let Some(against) = against else { return Ok(None) };
    let tried = whose.backend()?;
    if tried == against || [tried, against].contains(&Placer::Auto) {
        let [tried, against] = [tried, against].map(Placer::name);
        let message = format!(
            "--against {against}: the policy is tried by {tried}; expected affinity against sched-ext, \
             or the other way about"
        );
        return Err(Failure::input(message).hint("--backend sched-ext --against affinity"));
    }
    Ok(Some(Backends { tried, against }))
}

fn metrics(arguments: &AbArgs) -> Outcome<Vec<Metric>> {
    let command = |line: &String| MetricSource::Command(line.clone());
    let url = arguments.prometheus.clone().unwrap_or_default();
    let query =
        |query: &String| MetricSource::Prometheus { url: url.clone(), query: query.clone() };
    let metric = |name: &String, source, kind| Metric { name: name.clone(), source, kind };
    let values = arguments.metric.iter().map(|(n, l)| metric(n, command(l), MetricKind::Value));
    let counts = arguments.count.iter().map(|(n, l)| metric(n, command(l), MetricKind::Count));
    let queries = arguments.query.iter().map(|(n, q)| metric(n, query(q), MetricKind::Value));
    let metrics: Vec<Metric> = values.chain(counts).chain(queries).collect();
    if metrics.is_empty() && arguments.is_no_policy() {
        return Err(Failure::input(
            "no metric: expected something that says how programs are doing",
        )
        .hint("--metric NAME=CMD, where CMD prints one number")
        .hint("--prometheus URL --query NAME=PROMQL"));
    }
    for (index, metric) in metrics.iter().enumerate() {
        if metrics[..index].iter().any(|other| other.name == metric.name) {
            let message = format!("two metrics are called `{}`: expected a name each", metric.name);
            return Err(Failure::input(message));
        }
    }
    Ok(metrics)
}

/// Seconds between two readings of a metric: no block is shorter than half of the mean.
fn sample_s(arguments: &AbArgs) -> f64 {
    arguments.sample.unwrap_or_else(|| f64::min(1.0, arguments.block / 2.0))
}

fn limits(arguments: &AbArgs) -> Outcome<StoppingLimits> {
    let pair = 2.0 * (arguments.block + arguments.washout);
    if arguments.longest < pair {
        let message = format!(
            "--longest {}: two blocks take {pair} s on average, and it takes at least {} pairs of \
             them until anything is sure",
            arguments.longest,
            least_pairs(1.0 - arguments.confidence / 100.0)
        );
        return Err(Failure::input(message).hint("shorter blocks (--block, --washout)"));
    }
    let sample_s = sample_s(arguments);
    if sample_s > arguments.block / 2.0 {
        let message = format!(
            "--sample {sample_s}: expected at most half of --block, {} s: the shortest block is half of it",
            arguments.block / 2.0
        );
        return Err(Failure::input(message));
    }
    Ok(StoppingLimits {
        longest: Duration::from_secs_f64(arguments.longest),
        sample: Duration::from_secs_f64(sample_s),
    })
}

fn settings(arguments: &AbArgs) -> ExperimentSettings {
    ExperimentSettings {
        error: 1.0 - arguments.confidence / 100.0,
        precision_percent: arguments.precision,
        harm_percent: arguments.harm,
        collapse_percent: Some(arguments.collapse).filter(|&percent| percent < 100.0),
        better: if arguments.less_is_better { Better::Less } else { Better::More },
        until_clear: arguments.until_clear,
    }
}

/// A line on stderr before the first block.
fn tell_beginning(arguments: &AbArgs) {
    let pair = Duration::from_secs_f64(2.0 * (arguments.block + arguments.washout));
    let least = least_pairs(1.0 - arguments.confidence / 100.0);
    corun_app::tell(text::beginning(pair, least, arguments.longest));
}

/// A line on stderr after each pair of blocks.
fn tell(progress: &PairProgress, arguments: &AbArgs) {
    corun_app::tell(text::pair(progress, arguments.precision, arguments.longest));
}

/// The result goes to stdout also where the experiment was cut short.
fn concluded(conclusion: &Conclusion, load: Option<Noise>, arguments: &AbArgs) -> Outcome<String> {
    let text = match arguments.format {
        DocumentFormat::Text => text::text(conclusion, load, arguments),
        DocumentFormat::Json => json(&document::document(conclusion, load, arguments))?,
    };
    let failure = match (&conclusion.unrestored, &conclusion.ended) {
        (Some(error), _) => {
            Failure::Failed(anyhow::anyhow!("it may still be on, turn it off by hand: {error}"))
        }
        (None, Ended::Failed(error)) => {
            Failure::Failed(anyhow::anyhow!("{error}; it was turned off"))
        }
        (None, Ended::Interrupted) => Failure::Interrupted,
        (None, Ended::Done(_) | Ended::Harm(_) | Ended::Over(_) | Ended::Time) => return Ok(text),
    };
    print(&text)?;
    Err(failure)
}
