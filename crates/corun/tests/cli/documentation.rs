//! Manual pages and completions, as `make install` puts them where manuals and shells look.

use std::path::Path;
use std::process::Command;

use crate::fixture::Fixture;

/// The folder of the command, to be found first by whoever looks for `corun`.
fn search_path() -> String {
    let folder = assert_cmd::cargo::cargo_bin!("corun").parent().unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

/// The installed folder.
fn install(fixture: &Fixture) -> std::path::PathBuf {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install-documentation.sh");
    let share = fixture.path("share");
    let status = Command::new(script)
        .arg(assert_cmd::cargo::cargo_bin!("corun"))
        .arg(&share)
        .status()
        .unwrap();
    assert!(status.success());
    share
}

#[test]
fn every_command_has_a_manual_page() {
    let fixture = Fixture::new();
    let pages = install(&fixture).join("man/man1");
    let help = fixture.run(&["--help"]).done();
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let commands = commands.lines().take_while(|line| !line.is_empty());
    // The summary of a command may go on in the next line, further to the right.
    let names = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names.iter().filter(|&&name| name != "help") {
        let page = std::fs::read_to_string(pages.join(format!("corun-{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH corun-{name} 1")), "{page}");
    }
    assert!(pages.join("corun.1").is_file() && pages.join("corun-profiles-show.1").is_file());
    let top = std::fs::read_to_string(pages.join("corun.1")).unwrap();
    assert_eq!(fixture.run(&["man"]).done(), top);
    // By the name of the command or of the page; a mistyped one makes no folder.
    assert_eq!(fixture.run(&["man", "corun"]).done(), top);
    let page = std::fs::read_to_string(pages.join("corun-profiles-show.1")).unwrap();
    for name in ["profiles-show", "corun-profiles-show"] {
        assert_eq!(fixture.run(&["man", name]).done(), page);
    }
    fixture.run(&["man", "explian"]).refused(&["no command and no folder is called `explian`"]);
    assert!(!fixture.path("explian").exists());
}

/// Who installs a package has README and no repository: what README leads to under docs/ is beside it.
#[test]
fn readme_is_installed_with_the_documents_that_it_leads_to() {
    let fixture = Fixture::new();
    let doc = install(&fixture).join("doc/corun");
    let readme = std::fs::read_to_string(doc.join("README.md")).unwrap();
    let links = readme.split("](docs/").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let links: Vec<&str> = links.collect();
    assert!(links.len() > 20 && links.contains(&"operating.md"), "{links:?}");
    let missing = links.iter().filter(|link| !doc.join("docs").join(link).is_file());
    assert_eq!(missing.collect::<Vec<_>>(), [] as [&&str; 0]);
}

#[test]
fn bash_completes_names_after_the_script_was_read() {
    let fixture = Fixture::new();
    let script = install(&fixture).join("bash-completion/completions/corun");
    // What bash's own code does at Tab, without a terminal.
    let ask = r#"
        source "$1"; shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
        _clap_complete_corun corun "${@: -1}" "" 2>/dev/null
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let offered = |words: &[&str]| {
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", ask, "bash"]).arg(&script).args(words);
        let output = bash.env("PATH", search_path()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.split(|one: char| one.is_whitespace() || one == '\u{b}')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(offered(&["corun", "verif"]), ["verify"]);
    assert_eq!(offered(&["corun", "compare", "--apps", "sort,sql"]), ["sort,sqlite3"]);
    assert_eq!(offered(&["corun", "topology", "--machine", "opt"]), ["opteron-2350"]);
    assert_eq!(offered(&["corun", "run", "--policy", "vbs"]), ["vbsc"]);
}

/// What fish and zsh offer at Tab once the installed file is where they look.
#[test]
fn fish_and_zsh_complete_by_the_installed_files() {
    let fixture = Fixture::new();
    let share = install(&fixture);
    let there = |shell: &str| Command::new(shell).arg("--version").output().is_ok();
    let said = |command: &mut Command| {
        let output = command.env("PATH", search_path()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    if there("fish") {
        let script = "set -p fish_complete_path $argv[1]; complete -C $argv[2]";
        let folder = share.join("fish/vendor_completions.d");
        let ask = |line: &str| {
            said(Command::new("fish").args(["-N", "-c", script]).arg(&folder).arg(line))
        };
        assert_eq!(ask("corun compare --machine opt").trim(), "opteron-2350");
        assert!(ask("corun verif").starts_with("verify\t"), "{}", ask("corun verif"));
    } else {
        println!("skipped: no fish");
    }
    if there("zsh") {
        // A Tab in an interactive zsh on a terminal of its own.
        let script = r#"
            zmodload zsh/zpty; zpty z zsh -f -i
            zpty -w z "PS1='READY>'; fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D"
            zpty -r z line '*READY>*READY>*'
            zpty -w -n z $'corun topology --machine opter\t'
            zpty -r z line '*opteron-2350*' && print -r -- "$line"
        "#;
        let folder = share.join("zsh/site-functions");
        let found = said(
            Command::new("timeout").args(["60", "zsh", "-f", "-c", script, "zsh"]).arg(folder),
        );
        assert!(found.contains("opteron-2350"), "{found:?}");
    } else {
        println!("skipped: no zsh");
    }
}

#[test]
fn shells_get_a_script_and_others_a_refusal() {
    let fixture = Fixture::new();
    for (shell, words) in [("zsh", "#compdef corun"), ("fish", "complete --keep-order")] {
        assert!(fixture.run(&["completions", shell]).done().contains(words), "{shell}");
    }
    fixture.run(&["completions", "tcsh"]).refused(&["tcsh", "bash, zsh, fish"]);
}

/// A shell that asks and a program of the user's own library.
#[test]
fn programs_of_the_library_on_the_line_are_offered() {
    let fixture = Fixture::new();
    let words = ["--", "corun", "predict", "--profiles", "solo.csv", "--apps", "stream,n"];
    let output = Command::new(assert_cmd::cargo::cargo_bin!("corun"))
        .args(words)
        .env("CORUN_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", "5")
        .current_dir(fixture.path(""))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "stream,needy");
}
