//! Output that nobody reads: `corun .. 2>&1 | head -1`. No command panics, and what was changed is undone.

use std::io::pipe;
use std::process::Stdio;

use crate::fixture::Fixture;
use crate::hosting::{Daemon, Ended, corun, eventually, signal};

/// A stream whose reader went away.
fn unread() -> Stdio {
    let (_, writer) = pipe().unwrap();
    writer.into()
}

#[test]
fn a_run_that_nobody_reads_goes_on_to_its_end_and_is_undone() {
    let fixture = Fixture::new();
    fixture.write(
        "mix.toml",
        "[[app]]\ncmd = [\"sleep\", \"0.2\"]\n\n[[app]]\ncmd = [\"sleep\", \"0.2\"]\n",
    );
    let (mix, journals, summary) =
        (fixture.path("mix.toml"), fixture.path("journals"), fixture.path("run.json"));
    let mut command = corun();
    command.arg("run").arg(&mix).arg("--journals").arg(&journals).arg("-o").arg(&summary);
    command.args(["--policy", "random", "--interval", "0.05", "--counters", "profiles"]);
    let code = command.stdout(unread()).stderr(unread()).status().unwrap().code();
    assert_eq!(code, Some(0));
    // Its last act, after the programs' end.
    let document = std::fs::read_to_string(&summary).unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["undone"]["failed"], serde_json::json!([]));
    assert_eq!(std::fs::read_dir(&journals).unwrap().count(), 0, "a journal was left");
}

#[test]
fn a_daemon_whose_log_nobody_reads_goes_on_and_undoes_at_its_end() {
    let Some(ground) = Daemon::new(true) else { return };
    let mut command = corun();
    command.args(["daemon", "--config"]).arg(ground.fixture.path("config.toml"));
    let mut daemon = Ended(command.stderr(unread()).spawn().unwrap());
    assert!(eventually(|| ground.now() != ground.before), "nothing was held");
    signal(&daemon.0, "-HUP");
    assert!(daemon.0.try_wait().unwrap().is_none(), "it ended");
    assert!(eventually(|| ground.now() != ground.before), "nothing is held after a reload");
    signal(&daemon.0, "-TERM");
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0));
    assert_eq!(ground.now(), ground.before);
}

/// As with a reader, but for what is not read.
#[test]
fn exit_codes_are_the_same_where_nobody_reads() {
    let fixture = Fixture::new();
    let commands: [(&[&str], i32); 9] = [
        (&["--version"], 0),
        (&["help"], 0),
        (&["--help"], 0),
        (&["topology", "--list"], 0),
        (&["predict", "--machine", "xeon-x5365", "--apps", "sort,xz"], 0),
        (&["compare", "--machine", "xeon-x5365", "--apps", "sort,xz", "--seeds", "1"], 0),
        (&["man"], 0),
        (&["predict", "--machine", "no-such-machine", "--apps", "sort"], 2),
        (&["no-such-command"], 2),
    ];
    for (words, code) in commands {
        let mut command = corun();
        command.current_dir(fixture.path(".")).env("XDG_DATA_HOME", fixture.path("."));
        let ended = command.args(words).stdout(unread()).stderr(unread()).status().unwrap();
        assert_eq!(ended.code(), Some(code), "corun {}", words.join(" "));
    }
}
