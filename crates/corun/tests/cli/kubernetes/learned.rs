//! A workload that nobody recorded, scheduled by what a node's agent learned of it.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;

use corun_fleet::{AgentReport, LearnedNotes, PodGroups, RunningPod};
use corun_hosting::{CountedGroup, Learning, LearningSettings};
use corun_linux::Roots;
use corun_live::{ModelledSource, Source};
use corun_model::{LoadedProgram, Model};
use corun_policy::Nanoseconds;
use corun_profile::{Library, TABLE_INSTRUCTIONS};
use serde_json::json;

use super::{Cluster, MACHINE, NODES, OWN, corun, ended, is_calm, name_of, now_s, pod};
use crate::control_plane::until;
use crate::fixture::Fixture;
use crate::made_up_processes::{has_run, process, uid};

/// A workload and what it is in truth, which no profile says.
const WORKLOAD: (&str, &str) = ("web", "kernel-hash-join");
/// Minutes for which its node counts it.
const COUNTED_MIN: u64 = 40;

/// A workload that nobody recorded runs on a node. What its agent learns there, with the rights of an agent, decides where the
/// next pod of it goes.
pub(super) fn a_pod_that_nobody_recorded_goes_where_it_suits(cluster: &mut Cluster) {
    cluster.extender_again();
    let node = name_of(NODES);
    let web = |name: &str| pod(name, OWN, 2, json!({"corun.dev/profile": WORKLOAD.0}));
    cluster.node_once(web("unlearned"));
    let scores = cluster.scores("unlearned");
    assert!(scores.iter().all(|(_, score)| *score == 5), "nothing is known: {scores:?}");
    cluster.token_of_agent_on(&node);
    let patch = learned_patch(&cluster.fixture);
    let words = ["patch", "node", &node, "--type=merge", "-p", &patch];
    let (done, said) = cluster.as_agent(&node, &words);
    assert!(done, "{said}");
    let on = cluster.node_once(web("learned"));
    let scores = cluster.scores("learned");
    let best = |calm: bool| {
        scores.iter().filter(|one| is_calm(one.0) == calm).map(|one| one.1).max().unwrap()
    };
    assert!(is_calm(on) && scores.contains(&(on, 10)), "{on}: {scores:?}");
    assert!(best(false) < best(true), "{scores:?}");
    let said = cluster.extender_again();
    for pod in ["pod default/learned", &format!("node {node}: pod default/web-1")] {
        let line = format!(
            "{pod}: no profile \"web\" was recorded: it counts by what nodes learned of it, "
        );
        assert_eq!(said.matches(&line).count(), 1, "{said}");
    }
    // An agent that begins on this node leaves what was learned, also where nothing can be counted.
    let note = |key: &str| {
        let notes =
            cluster.control.json(&["get", "node", &node])["metadata"]["annotations"].clone();
        notes[key].as_str().unwrap().to_owned()
    };
    let before = note("corun.dev/learned");
    let mut command = cluster.control.command(&node, &corun());
    command.args(["fleet", "agent", "--learn", "--machine", MACHINE, "--node", &node]);
    command.arg("--root").arg(&cluster.control.folder).stderr(Stdio::piped());
    let mut agent = command.spawn().unwrap();
    until("the agent's report", || {
        note("corun.dev/programs").contains(&format!("default/quiet-{NODES}")).then_some(())
    });
    ended(&mut agent);
    assert_eq!(note("corun.dev/learned"), before);
}

/// What an agent would patch its node's object with after it counted a pod of the workload, on modelled counters.
fn learned_patch(fixture: &Fixture) -> String {
    let root = fixture.path("counted");
    let cpus = root.join("sys/devices/system/cpu");
    std::fs::create_dir_all(&cpus).unwrap();
    std::fs::write(cpus.join("online"), "0-7\n").unwrap();
    let roots = Roots::below(&root);
    let machine = Arc::new(corun_machine::preset(MACHINE).unwrap());
    let model = Arc::new(Model::new(machine.clone(), Default::default()).unwrap());
    let truth = model.load(Library::shipped().unwrap().get(WORKLOAD.1).unwrap()).unwrap();
    let truth: BTreeMap<String, Arc<LoadedProgram>> =
        [(WORKLOAD.0.to_owned(), Arc::new(truth))].into();
    let sources = move || -> corun_app::Result<Vec<Box<dyn Source>>> {
        let length = TABLE_INSTRUCTIONS as f64;
        Ok(vec![Box::new(ModelledSource::new(model.clone(), truth.clone(), length))])
    };
    let settings = LearningSettings {
        roots: roots.clone(),
        machine,
        library: Library::default(),
        every: Nanoseconds(10_000_000_000),
        window_s: 3600.0,
    };
    let mut learning = Learning::new(settings, Box::new(sources)).unwrap();
    for clock_s in (0..=COUNTED_MIN * 60).step_by(10) {
        has_run(&root, 1, clock_s);
        process(&root, 1, 2, clock_s);
        let cgroup = PodGroups::find(&roots).path(&uid(1)).unwrap().to_owned();
        let counted = CountedGroup { program: WORKLOAD.0.to_owned(), cgroup };
        let unread = learning.look(&[counted], Nanoseconds(clock_s * 1_000_000_000)).unwrap();
        assert_eq!(unread, Vec::<String>::new());
    }
    let update = LearnedNotes::resume(MACHINE, None).due(0, now_s(), &learning.running()).unwrap();
    let pod = RunningPod {
        name: format!("default/{}-1", WORKLOAD.0),
        uid: uid(1),
        profile: Some(WORKLOAD.0.to_owned()),
        cpus: 1,
        bound: None,
    };
    AgentReport::new(MACHINE, &[pod], &BTreeMap::new(), now_s()).patch(Some(&update))
}
