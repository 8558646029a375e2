//! `corun serve`: the page in the browser.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use corun_app::{Cancel, find_machine, open_library, tell};
use corun_linux::raise_descriptor_limit;
use corun_machine::Machine;
use corun_serve::{Asker, Attached, Live, ServeError, ServeOptions, Server, follow_experiment};
use corun_top::{COUNTERS, Observer};
use serde_json::json;

use super::watching::{Asked, watch};
use crate::cli::ServeArgs;
use crate::failure::{Failure, Outcome};

pub(super) fn run(arguments: &ServeArgs) -> Outcome<String> {
    // Threads and counters of those that are looked at, connections, and what undoing needs.
    raise_descriptor_limit();
    let library = open_library(arguments.figures.profiles.as_deref())?;
    let machine = arguments.machine.as_deref().map(find_machine).transpose()?;
    let apps: Vec<String> = arguments.apps.iter().map(|app| app.trim().to_owned()).collect();
    for app in &apps {
        library.get(app)?;
    }
    let watched = watched(arguments)?;
    let (asker, orders) = Asker::new();
    let live =
        watched.as_ref().map(|watched| Live::new(watched.machine(), asker.clone(), arguments.act));
    // What was done has to be undone, whatever the user's hurry.
    let cancel = if arguments.act { Cancel::on_signal_undoing()? } else { Cancel::on_signal()? };
    cancel.when_set(move || asker.wake());
    let experiment = arguments.ab.as_deref().map(|file| follow_experiment(file, &cancel));
    let experiment = experiment.transpose()?;
    let options = ServeOptions { library, machine, apps, live: live.clone(), experiment };
    let server = Server::bind(arguments.listen, options).map_err(|error| match error {
        ServeError::NotLoopback(_) | ServeError::Listen(..) => {
            Failure::input(error).hint("--listen 127.0.0.1:0, which takes any free port")
        }
        ServeError::Start(_) => Failure::failed(error),
    })?;
    corun_report::print(&format!("corun: open {}\nCtrl-C ends it.\n", server.link()))?;
    match (watched, live) {
        (Some(watched), Some(live)) => {
            let ends = cancel.clone();
            // The observer's parts belong to the thread that made them.
            let serving = thread::spawn(move || server.run(&ends));
            let watched = match watched {
                Watched::Own(observer) => observer.watch(&live, &orders, &cancel),
                Watched::Daemon(attached) => {
                    attached.watch(&live, &orders, &cancel);
                    Ok(())
                }
            };
            if let Err(failure) = &watched {
                live.show(&json!({ "error": failure.report().trim_end() }).to_string());
            }
            if let Err(panicked) = serving.join() {
                resume_unwind(panicked);
            }
            watched?;
        }
        _ => server.run(&cancel),
    }
    Ok(String::new())
}

/// What the page's Live view shows.
enum Watched {
    /// Processes that this corun looks at.
    Own(Box<Observer>),
    /// What a daemon sees.
    Daemon(Attached),
}

impl Watched {
    fn machine(&self) -> Arc<Machine> {
        match self {
            Self::Own(observer) => Arc::new(observer.machine().clone()),
            Self::Daemon(attached) => attached.machine(),
        }
    }
}

/// What was asked for; where nobody is named all programs that this user may look into. None where these cannot be watched,
/// which is said: the page's other views need no machine.
fn watched(arguments: &ServeArgs) -> Outcome<Option<Watched>> {
    if let Some(socket) = &arguments.daemon {
        return Ok(Some(Watched::Daemon(Attached::to(socket, arguments.act)?)));
    }
    let is_named = arguments.targets.is_given();
    if arguments.act && !is_named {
        return Err(Failure::input("--act: nobody is named who may be acted on")
            .hint("--daemon, --user NAME, --command PATTERN, --unit UNIT or --pid PID"));
    }
    let watch = watch(&Asked {
        targets: &arguments.targets,
        figures: &arguments.figures,
        policy: arguments.policy.as_deref(),
        seed: arguments.seed,
        counters: COUNTERS.to_vec(),
        out_of_sight: true,
        act: arguments.act,
        journals: arguments.journals.as_deref(),
        else_all: true,
    });
    match watch {
        Ok(watch) => {
            let observer = Observer::new(watch, arguments.figures.interval);
            Ok(Some(Watched::Own(Box::new(observer))))
        }
        Err(failure) if is_named || arguments.policy.is_some() => Err(failure),
        Err(failure) => {
            tell(format_args!("note: Live shows nothing: {}", failure.report().trim_end()));
            Ok(None)
        }
    }
}
