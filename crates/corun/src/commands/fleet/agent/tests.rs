//! An agent over made-up groups and processes, with an API server in memory and a clock that is told: what the extender
//! then answers.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::anyhow;
use corun_fleet::{Extender, Seats};
use corun_hosting::{Learning, LearningSettings};
use corun_live::{ModelledSource, Source};
use corun_machine::preset;
use corun_model::{LoadedProgram, Model};
use corun_policy::Nanoseconds;
use corun_profile::{Library, TABLE_INSTRUCTIONS};
use serde_json::{Value, json};

use super::*;
use crate::cli::ProfilesArgs;

#[path = "../../../../tests/cli/made_up_processes.rs"]
mod made_up_processes;

use made_up_processes::{has_run, process, uid};

/// Seconds since 1970 when the agent begins.
const BEGAN: u64 = 1_764_000_000;
/// One last-level cache with four cores.
const MACHINE: &str = "i7-2600";
/// A cache-hungry program and a stream: what the processes are in truth. No profile is named so.
const HUNGRY: (&str, &str) = ("web", "kernel-hash-join");
const STREAM: (&str, &str) = ("feed", "kernel-triad");

/// Few profiles: loading all takes seconds.
fn recorded() -> Library {
    let shipped = Library::shipped().unwrap();
    let mut few = Library::default();
    for name in [HUNGRY.1, STREAM.1, "xz"] {
        few.insert(shipped.get(name).unwrap().clone(), name.to_owned()).unwrap();
    }
    few
}

/// An API server of one node in memory.
#[derive(Default)]
struct Stand {
    /// Why it does not answer.
    away: Option<String>,
    pods: Vec<Value>,
    notes: Value,
    asked: u32,
    patches: u32,
}

#[derive(Clone, Default)]
struct Server(Rc<RefCell<Stand>>);

impl Server {
    fn answer<T>(&self, of: impl FnOnce(&mut Stand) -> T) -> Outcome<T> {
        let mut stand = self.0.borrow_mut();
        stand.asked += 1;
        match &stand.away {
            Some(why) => Err(Failure::Failed(anyhow!("kubectl get: {why}"))),
            None => Ok(of(&mut stand)),
        }
    }

    fn note(&self, key: &str) -> Value {
        let text = self.0.borrow().notes[key].clone();
        text.as_str().map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
    }

    /// The node's object under a name, as a scheduler has it.
    fn node(&self, name: &str) -> Value {
        json!({"metadata": {"name": name, "annotations": self.0.borrow().notes}})
    }
}

impl ApiServer for Server {
    fn pods(&mut self) -> Outcome<Vec<u8>> {
        self.answer(|stand| json!({"items": stand.pods}).to_string().into_bytes())
    }

    fn node(&mut self) -> Outcome<Vec<u8>> {
        let node = |stand: &mut Stand| json!({"metadata": {"annotations": stand.notes}});
        self.answer(|stand| node(stand).to_string().into_bytes())
    }

    fn patch_node(&mut self, patch: &str) -> Outcome {
        let patch: Value = serde_json::from_str(patch).unwrap();
        self.answer(|stand| {
            stand.patches += 1;
            if stand.notes.is_null() {
                stand.notes = json!({});
            }
            for (key, text) in patch["metadata"]["annotations"].as_object().unwrap() {
                stand.notes[key] = text.clone();
            }
        })
    }
}

fn pod(name: &str, uid: &str, profile: &str, cpus: u32) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "d", "uid": uid, "labels": {"corun.dev/profile": profile}},
        "spec": {"containers": [{"resources": {"requests": {"cpu": cpus.to_string()}}}]},
    })
}

fn arguments(root: &Path) -> AgentArgs {
    AgentArgs {
        node: "n1".to_owned(),
        machine: MACHINE.to_owned(),
        root: root.to_owned(),
        caches: false,
        hold: None,
        learn: false,
        library: ProfilesArgs { profiles: None },
        every: 10,
        once: false,
    }
}

fn at(clock_s: u64) -> Moment {
    Moment { clock_s: clock_s as f64, since_1970_s: BEGAN + clock_s }
}

fn extender(library: &Library) -> Extender {
    let machines = vec![(MACHINE.to_owned(), preset(MACHINE).unwrap(), Seats::Cores)];
    Extender::new(machines, library, Default::default(), 300).unwrap()
}

/// What the extender says of a pod with this profile: the scores of the nodes in their order, and what it assumed.
fn scores(
    extender: &Extender,
    profile: &str,
    nodes: &[Value],
    clock_s: u64,
) -> (Vec<i64>, Vec<String>) {
    let body = json!({"Pod": pod("new", "9", profile, 1), "Nodes": {"items": nodes}}).to_string();
    let answer = extender.prioritize(body.as_bytes(), BEGAN + clock_s).unwrap();
    let scores: Value = serde_json::from_str(&answer.body).unwrap();
    let scores = scores.as_array().unwrap().iter().map(|one| one["Score"].as_i64().unwrap());
    (scores.collect(), answer.assumed)
}

/// A node of which everything is known, and on which these run.
fn other_node(profile: &str, cpus: u32, clock_s: u64) -> Value {
    let programs = json!([{"pod": "d/other", "profile": profile, "cpus": cpus}]);
    let report = json!({"at": BEGAN + clock_s, "programs": programs}).to_string();
    let notes = json!({"corun.dev/machine": MACHINE, "corun.dev/programs": report});
    json!({"metadata": {"name": "other", "annotations": notes}})
}

/// For more than a minute no request is answered, each time for another reason. A pod comes meanwhile.
#[test]
fn an_api_server_that_goes_away_for_a_minute_is_told_once_and_all_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::default();
    server.0.borrow_mut().pods = vec![pod("a", &uid(1), "kernel-triad", 3)];
    let arguments = arguments(folder.path());
    let mut agent = Agent::new(&arguments, server.clone()).unwrap();
    let extender = extender(&recorded());
    let prefers = |clock_s: u64| {
        let nodes = [server.node("n1"), other_node("kernel-triad", 1, clock_s)];
        scores(&extender, "kernel-hash-join", &nodes, clock_s)
    };
    let look = |agent: &mut Agent<Server>, clock_s: u64| {
        // Three CPUs, all the time.
        has_run(folder.path(), 1, 3 * clock_s);
        agent.look(at(clock_s)).is_ok()
    };
    for clock_s in [0, 10, 20, 30] {
        assert!(look(&mut agent, clock_s));
    }
    let before = prefers(30);
    assert!(before.0[0] < 10 && before.0[1] == 10, "three streams are worse than one: {before:?}");
    assert_eq!(before.1, [] as [&str; 0]);
    let asked = server.0.borrow().asked;
    for clock_s in (40..=100).step_by(10) {
        server.0.borrow_mut().away = Some(format!("connection refused, try {clock_s}"));
        look(&mut agent, clock_s);
        assert_eq!(prefers(clock_s), before, "reports from before are believed");
    }
    // At 40 s, 50 s and 70 s; the next is due at 110 s.
    assert_eq!(server.0.borrow().asked, asked + 3);
    {
        let mut stand = server.0.borrow_mut();
        stand.away = None;
        stand.pods.push(pod("b", &uid(2), "xz", 1));
    }
    assert!(look(&mut agent, 110));
    assert_eq!(server.0.borrow().asked, asked + 5, "a list and a patch");
    let report = server.note("corun.dev/programs");
    assert_eq!(report["at"], BEGAN + 110);
    let pods: Vec<&str> = report["programs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["pod"].as_str().unwrap())
        .collect();
    assert_eq!(pods, ["d/a", "d/b"]);
    assert_eq!(report["programs"][0]["used_cpus"], 3.0, "counted on meanwhile");
    assert_eq!(prefers(110).0[1], 10);
    let said = agent.new_words.clone();
    let away: Vec<&String> = said.iter().filter(|one| one.contains("API server")).collect();
    assert_eq!(away.len(), 2, "{said:?}");
    assert!(
        away[0].starts_with("assumed: the pods that ran last run on")
            && away[0].contains("connection refused, try 40"),
        "{away:?}"
    );
    assert_eq!(away[1], "the API server answers again, after 70 s");
    // It goes away for the second time, which is told again.
    server.0.borrow_mut().away = Some("gone".to_owned());
    look(&mut agent, 120);
    let again = agent.new_words.last().unwrap();
    assert!(
        again.starts_with("assumed: the pods that ran last") && again.contains("gone"),
        "{again}"
    );
}

/// An agent that learns, by modelled counters over made-up processes.
fn learning_agent(root: &Path, server: Server) -> Agent<Server> {
    std::fs::create_dir_all(root.join("sys/devices/system/cpu")).unwrap();
    std::fs::write(root.join("sys/devices/system/cpu/online"), "0-7\n").unwrap();
    let machine = Arc::new(preset(MACHINE).unwrap());
    let model = Arc::new(Model::new(machine.clone(), Default::default()).unwrap());
    let few = recorded();
    let truth: std::collections::BTreeMap<String, Arc<LoadedProgram>> = [HUNGRY, STREAM]
        .map(|(label, program)| {
            (label.to_owned(), Arc::new(model.load(few.get(program).unwrap()).unwrap()))
        })
        .into();
    let settings = LearningSettings {
        roots: roots_of(root),
        machine,
        library: few.clone(),
        every: Nanoseconds(10_000_000_000),
        window_s: 3600.0,
    };
    let sources = move || -> corun_app::Result<Vec<Box<dyn Source>>> {
        let length = TABLE_INSTRUCTIONS as f64;
        Ok(vec![Box::new(ModelledSource::new(model.clone(), truth.clone(), length))])
    };
    let learning = Learning::new(settings, Box::new(sources)).unwrap();
    let mut agent = Agent::new(&arguments(root), server).unwrap();
    agent.learner = Some(Learner::new(MACHINE.to_owned(), learning, few));
    agent
}

/// Two workloads that nobody recorded run on a node. What the agent learns of them by counters is in the place of what was
/// assumed: a pod of the one avoids the other, and a pod that was recorded avoids both, until it grew old.
#[test]
fn what_an_agent_learns_is_where_the_extender_looks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let server = Server::default();
    server.0.borrow_mut().pods =
        vec![pod("w", &uid(1), HUNGRY.0, 1), pod("f", &uid(2), STREAM.0, 1)];
    let mut agent = learning_agent(root, server.clone());
    let few = recorded();
    let minutes = 40;
    for clock_s in (0..=minutes * 60).step_by(10) {
        for number in [1, 2] {
            has_run(root, number, clock_s);
            process(root, number, 2 * number, clock_s);
        }
        agent.look(at(clock_s)).unwrap();
    }
    let end_s = minutes * 60;
    let learned = server.note("corun.dev/learned");
    assert_eq!(learned["version"], 1, "{learned} {:?}", agent.new_words);
    let programs = learned["programs"].as_array().unwrap();
    let names: Vec<&str> = programs.iter().map(|one| one["profile"].as_str().unwrap()).collect();
    assert_eq!(names, [STREAM.0, HUNGRY.0]);
    assert!(server.0.borrow().patches <= 1 + end_s as u32 / 60, "few updates");
    let sure = |at: usize| programs[at]["confidence"].as_f64().unwrap();
    assert!(sure(0) > 0.5 && sure(1) > 0.5, "{learned}");

    // The same nodes for an extender that nobody told, for one that was told, and for one with recorded profiles.
    let mut labelled = few.clone();
    for (label, program) in [HUNGRY, STREAM] {
        let profile = few.get(program).unwrap().clone();
        let profile = corun_profile::Profile { name: label.to_owned(), ..profile };
        labelled.insert(profile, label.to_owned()).unwrap();
    }
    let node = |name: &str, profile: &str, is_told: bool| {
        let mut node = other_node(profile, 3, end_s);
        node["metadata"]["name"] = name.into();
        if is_told {
            node["metadata"]["annotations"]["corun.dev/learned"] =
                server.0.borrow().notes["corun.dev/learned"].clone();
        }
        node
    };
    let asked = |extender: &Extender, profile: &str, is_told: bool, clock_s: u64| {
        let mut nodes = [node("feeds", STREAM.0, is_told), node("calm", "xz", false)];
        for node in &mut nodes {
            let report = node["metadata"]["annotations"]["corun.dev/programs"].as_str().unwrap();
            let mut report: Value = serde_json::from_str(report).unwrap();
            report["at"] = (BEGAN + clock_s).into();
            node["metadata"]["annotations"]["corun.dev/programs"] = report.to_string().into();
        }
        scores(extender, profile, &nodes, clock_s)
    };
    let untold = asked(&extender(&few), HUNGRY.0, false, end_s);
    assert_eq!(untold.0, [5, 5], "nothing is known");
    let told = asked(&extender(&few), HUNGRY.0, true, end_s);
    assert_eq!(told.0, [0, 10], "{told:?}");
    assert_eq!(told.0, asked(&extender(&labelled), HUNGRY.0, true, end_s).0);
    let of_pod =
        told.1.iter().filter(|one| one.starts_with("pod d/new: no profile \"web\" was recorded"));
    let of_node =
        told.1.iter().filter(|one| one.starts_with("node feeds: pod d/other: no profile \"feed\""));
    assert_eq!((of_pod.count(), of_node.count()), (1, 1), "{told:?}");
    // A recorded profile of that name is never replaced, and nothing is said of what was learned.
    assert_eq!(asked(&extender(&labelled), HUNGRY.0, true, end_s).1, [] as [&str; 0]);
    // A pod that was recorded avoids what counted as quiet before.
    assert_eq!(asked(&extender(&few), "kernel-hash-join", true, end_s).0, [0, 10]);
    assert_eq!(asked(&extender(&few), "kernel-hash-join", false, end_s).0[0], 10);
    // Five days later nobody believes it.
    let old = asked(&extender(&few), HUNGRY.0, true, end_s + 5 * 86_400);
    assert_eq!(old.0, [5, 5], "{old:?}");
}
