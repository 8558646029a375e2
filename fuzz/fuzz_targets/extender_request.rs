//! A request of Kubernetes' scheduler: any bytes are answered for every node that they name, or refused.
#![no_main]

use std::sync::LazyLock;

use corun_fleet::{Extender, Seats};
use corun_model::ModelOptions;
use corun_profile::{Library, MeasuredOn, import_csv};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// The clock of the requests.
const NOW_S: u64 = 1_764_000_000;

static EXTENDER: LazyLock<Extender> = LazyLock::new(|| {
    let table = include_str!("../corpus/solo_csv/two-programs");
    let profiles = import_csv(table, "two-programs", &MeasuredOn::xeon_gold_6138());
    let mut library = Library::default();
    for (profile, name) in profiles.expect("it is in the corpus").into_iter().zip(["a", "b"]) {
        let profile = corun_profile::Profile { name: name.to_owned(), ..profile };
        library.insert(profile, name.to_owned()).expect("the names differ");
    }
    let machine = corun_machine::preset("xeon-gold-6138").expect("it is a preset");
    let machine = ("m".to_owned(), machine, Seats::Cores);
    Extender::new(vec![machine], &library, ModelOptions::default(), 300).expect("both can be")
});

/// Nodes of a request, by its own list of them; none where the request has numbers that a [`Value`] cannot hold,
/// which the extender does not look at.
fn nodes(bytes: &[u8]) -> Option<usize> {
    let request: Value = serde_json::from_slice(bytes).ok()?;
    Some(request["Nodes"]["items"].as_array().map_or(0, Vec::len))
}

fuzz_target!(|bytes: &[u8]| {
    match EXTENDER.filter(bytes, NOW_S) {
        Ok(answer) => {
            if let Some(asked) = nodes(bytes) {
                let result: Value = serde_json::from_str(&answer.body).expect("an answer is JSON");
                let kept = result["Nodes"]["items"].as_array().map_or(0, Vec::len);
                let failed = result["FailedNodes"].as_object().expect("it is an object").len();
                // Nodes of one name fail together.
                assert!(kept + failed <= asked && (failed > 0 || kept == asked));
            }
        }
        Err(error) => assert!(!error.report().is_empty()),
    }
    match EXTENDER.prioritize(bytes, NOW_S) {
        Ok(answer) => {
            let scores: Value = serde_json::from_str(&answer.body).expect("an answer is JSON");
            let scores = scores.as_array().expect("it is a list");
            assert!(nodes(bytes).is_none_or(|asked| scores.len() >= asked));
            for score in scores {
                assert!(score["Score"].as_i64().is_some_and(|score| (0..=10).contains(&score)));
            }
        }
        Err(error) => assert!(!error.report().is_empty()),
    }
});
