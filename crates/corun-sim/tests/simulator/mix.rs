//! From a mix to programs to run.

use corun_policy::Nanoseconds;
use corun_profile::{App, Method, Mix};

use super::fixture::*;
use corun_sim::{AppSpec, SimError, apps_from_mix};

fn mix(apps: Vec<App>) -> Mix {
    Mix { version: 1, machine: None, seeds: None, method: Method::Restart3, apps }
}

fn app() -> App {
    App { profile: Some("calm".to_owned()), count: 1, threads: 1, weight: 1.0, ..App::default() }
}

fn read(app: App) -> Result<Vec<AppSpec>, SimError> {
    let machine = machine(2, 1, 1, 1);
    let model = model(machine.clone());
    let calm = calm(&model, SECOND);
    apps_from_mix(&mix(vec![app]), &machine, |name| (name == "calm").then(|| calm.clone()))
}

#[test]
fn copies_and_figures_are_taken_over() {
    let specs = read(App {
        count: 2,
        threads: 3,
        start_s: 0.5,
        kill_s: Some(2.0),
        home_node: Some(1),
        instructions: Some(77),
        important: true,
        ..app()
    })
    .unwrap();
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["calm", "calm#2"]);
    let spec = &specs[1];
    assert_eq!((spec.threads, spec.home, spec.instructions), (3, Some(1), Some(77)));
    assert_eq!((spec.start, spec.kill), (Nanoseconds(SECOND / 2), Some(Nanoseconds(2 * SECOND))));
    assert!(spec.important);
}

#[test]
fn what_cannot_be_run_is_refused() {
    let wrong = |app: App| read(app).unwrap_err().to_string();
    let command = App { profile: None, cmd: Some(vec!["true".to_owned()]), ..app() };
    assert!(wrong(command).contains("no commands"));
    let unknown = App { profile: Some("cold".to_owned()), ..app() };
    assert_eq!(wrong(unknown), "app `cold`: profile is cold, expected a profile of the library");
    assert!(wrong(App { start_s: -1.0, ..app() }).contains("start_s is -1"));
    assert!(wrong(App { start_s: f64::NAN, ..app() }).contains("start_s is NaN"));
    assert!(wrong(App { home_node: Some(9), ..app() }).contains("home_node is 9"));
    assert!(wrong(App { weight: -2.0, ..app() }).contains("weight is -2"));
}
