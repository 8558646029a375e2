//! A fleet file, the list of a node's pods and a node's learned profiles: any text is read or refused, and what is read has
//! sane figures.
#![no_main]

use std::collections::BTreeMap;

use corun_fleet::{AgentReport, FleetDescription, LearnedNotes, running_pods};
use corun_input::TomlFile as _;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match FleetDescription::from_toml(text, "fuzz.toml") {
        Ok(fleet) => {
            assert!(!fleet.node.is_empty());
            assert!(fleet.program.iter().all(|one| one.cpus >= 1 && one.memory_gib >= 0.0));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    // What an agent before this one learned, a hundred years later: all that could be read is taken away.
    let learned = LearnedNotes::resume("m", Some(text)).due(0, 3_000_000_000, &[]);
    match running_pods(text.as_bytes(), &mut Vec::new()) {
        Ok(pods) => {
            assert!(pods.iter().all(|pod| pod.cpus >= 1));
            let patch = AgentReport::new("m", &pods, &BTreeMap::new(), 1).patch(learned.as_ref());
            assert!(patch.starts_with('{'));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
