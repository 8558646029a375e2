//! The progress of an experiment of `corun ab`, read from its file while the experiment goes on.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use corun_app::Cancel;
use serde_json::{Value, json};

use crate::Experiment;

/// Between two looks at the file.
const PAUSE: Duration = Duration::from_millis(500);
/// Bytes of a file at most: thousands of pairs.
const MOST_BYTES: u64 = 16 << 20;

/// Reads a file again and again while somebody looks on. The file need not be there yet.
///
/// # Errors
/// When the kernel gives no thread.
pub fn follow_experiment(file: &Path, cancel: &Cancel) -> corun_app::Result<Experiment> {
    let experiment = Experiment::default();
    let (shown, file, cancel): (_, PathBuf, _) =
        (experiment.clone(), file.to_owned(), cancel.clone());
    let following = move || {
        while !cancel.is_set() {
            if shown.is_watched() {
                let known = progress(&file);
                shown.show(known.unwrap_or_else(|why| json!({ "away": why })).to_string());
            }
            thread::sleep(PAUSE);
        }
    };
    thread::Builder::new().name("experiment".to_owned()).spawn(following)?;
    Ok(experiment)
}

/// What the file says by now; else why nothing.
fn progress(file: &Path) -> Result<Value, String> {
    let shown = file.display();
    let mut text = String::new();
    let read = File::open(file).and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text));
    read.map_err(|error| format!("{shown}: {error}; waiting for corun ab --progress"))?;
    // The last line may still be under way.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines = whole.lines().map(serde_json::from_str::<Value>);
    let mut lines: Vec<Value> = lines
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{shown}: no progress of an experiment: {error}"))?;
    if !lines.first().is_some_and(|about| about["corun_ab"] == 1) {
        return Err(format!("{shown}: no progress of an experiment of this version of corun ab"));
    }
    let result = lines.pop_if(|last| last.get("ended").is_some());
    let about = lines.remove(0);
    Ok(json!({ "about": about, "pairs": lines, "result": result }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_grows_is_read_up_to_its_last_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("progress.jsonl");
        assert!(progress(&file).unwrap_err().contains("waiting for corun ab"));
        let about = r#"{"corun_ab":1,"tried":"x"}"#;
        std::fs::write(&file, format!("{about}\n{{\"pairs\":1}}\n{{\"pai")).unwrap();
        let known = progress(&file).unwrap();
        assert_eq!(known["pairs"], json!([{ "pairs": 1 }]));
        assert_eq!((&known["about"]["tried"], &known["result"]), (&json!("x"), &Value::Null));
        std::fs::write(&file, format!("{about}\n{{\"pairs\":1}}\n{{\"ended\":\"time\"}}\n"))
            .unwrap();
        assert_eq!(progress(&file).unwrap()["result"], json!({ "ended": "time" }));
        for wrong in ["", "1\n", "{\"corun_ab\": 2}\n", "no lines\n"] {
            std::fs::write(&file, wrong).unwrap();
            assert!(progress(&file).unwrap_err().contains("no progress"), "{wrong}");
        }
    }
}
