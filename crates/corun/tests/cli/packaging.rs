//! What is shipped: the Debian package, and for clusters manifests that read as what they are and Slurm's prolog.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixture::Fixture;

pub(crate) fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

/// Documents of a YAML file as JSON, by Python's parser, which `make test` has anyway; none without it.
pub(crate) fn documents(path: &Path) -> Option<Vec<serde_json::Value>> {
    let script =
        "import json,sys,yaml\nprint(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let output = Command::new("python3").args(["-c", script]).arg(path).output().ok()?;
    let text = String::from_utf8(output.stderr).unwrap();
    if text.contains("No module named") {
        return None;
    }
    assert!(output.status.success(), "{text}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// What is corun's in these pods runs as nobody, without a right of its own, and writes to no host.
fn has_few_rights(pods: &serde_json::Value, accounts: &[String]) {
    let account = pods["serviceAccountName"].as_str().unwrap();
    assert!(accounts.iter().any(|one| one == account), "{account}");
    let containers = pods["containers"].as_array().unwrap();
    let own = containers.iter().filter(|one| one["image"].as_str().unwrap().contains("/corun:"));
    for container in own {
        let security = &container["securityContext"];
        assert_eq!(security["runAsNonRoot"], true, "{security}");
        assert_eq!(security["allowPrivilegeEscalation"], false, "{security}");
        assert_eq!(security["readOnlyRootFilesystem"], true, "{security}");
        assert_eq!(security["capabilities"]["drop"][0], "ALL", "{security}");
    }
    let volumes = pods["volumes"].as_array().unwrap();
    let hosts: Vec<_> = volumes.iter().filter(|one| !one["hostPath"].is_null()).collect();
    let mounts = containers.iter().filter_map(|one| one["volumeMounts"].as_array()).flatten();
    for mount in mounts.filter(|mount| hosts.iter().any(|host| host["name"] == mount["name"])) {
        assert_eq!(mount["readOnly"], true, "{mount}");
    }
}

#[test]
fn manifests_grant_little_and_name_options_that_there_are() {
    let Some(all) = documents(&packaging("kubernetes/base/corun.yaml")) else {
        println!("skipped: Python has no module yaml");
        return;
    };
    let kind = |kind: &'static str| all.iter().filter(move |one| one["kind"] == kind);
    for one in &all {
        assert!(one["apiVersion"].is_string() && one["metadata"]["name"].is_string(), "{one}");
    }
    // The agent's role, of which another test holds the verbs against what the agent asks for, and for the scheduler what
    // Kubernetes grants its own. Each account is one of these manifests, in their namespace.
    let named = |one: &serde_json::Value| one["metadata"]["name"].as_str().unwrap().to_owned();
    let roles: Vec<String> = kind("ClusterRole").chain(kind("Role")).map(named).collect();
    assert_eq!(roles, ["corun-agent"]);
    let accounts: Vec<String> = kind("ServiceAccount").map(named).collect();
    let mut grants = Vec::new();
    for binding in kind("ClusterRoleBinding").chain(kind("RoleBinding")) {
        let subjects = binding["subjects"].as_array().unwrap();
        assert!(subjects.len() == 1 && subjects[0]["kind"] == "ServiceAccount", "{binding}");
        assert_eq!(subjects[0]["namespace"], "corun", "{binding}");
        let account = subjects[0]["name"].as_str().unwrap();
        assert!(accounts.iter().any(|one| one == account), "{binding}");
        grants.push((account, binding["roleRef"]["name"].as_str().unwrap()));
    }
    let expected = [
        ("corun-agent", "corun-agent"),
        ("corun-scheduler", "system:kube-scheduler"),
        ("corun-scheduler", "system:volume-scheduler"),
        ("corun-scheduler", "extension-apiserver-authentication-reader"),
    ];
    assert_eq!(grants, expected);
    for pods in kind("DaemonSet").chain(kind("Deployment")) {
        has_few_rights(&pods["spec"]["template"]["spec"], &accounts);
    }
    // The extender's options and those of the agent are the command's own.
    let pods = kind("Deployment").next().unwrap()["spec"]["template"]["spec"].clone();
    let extender = &pods["containers"][1]["command"];
    let words: Vec<&str> =
        extender.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    let fixture = Fixture::new();
    let help = fixture.run(&["fleet", "serve-extender", "--help"]).done();
    for option in words.iter().filter(|word| word.starts_with("--")) {
        assert!(help.contains(option), "{option}");
    }
    let agents = std::fs::read_to_string(packaging("kubernetes/hold/agent.yaml")).unwrap();
    let agents = kind("DaemonSet").next().unwrap().to_string() + &agents;
    let help = fixture.run(&["fleet", "agent", "--help"]).done();
    for option in ["--node", "--machine", "--root", "--learn", "--hold"] {
        let quoted = format!("\"{option}\"");
        assert!(agents.contains(&quoted) && help.contains(option), "{option}");
    }
    let config = kind("ConfigMap").next().unwrap()["data"]["scheduler.yaml"].as_str().unwrap();
    for line in ["ignorable: true", "nodeCacheCapable: false", "filterVerb: filter"] {
        assert!(config.contains(line), "{line}");
    }
}

/// All files of a folder, and of those in it, with this end.
fn files_with_end(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with_end(&path, end));
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn every_manifest_reads_as_objects_of_kubernetes() {
    let files = files_with_end(&packaging(""), ".yaml");
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        let Some(all) = documents(&file) else {
            println!("skipped: Python has no module yaml");
            return;
        };
        let mut named = Vec::new();
        for one in &all {
            let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
            let (version, kind) = (text("apiVersion"), text("kind"));
            assert!(!version.is_empty() && !kind.is_empty(), "{}: {one}", file.display());
            if kind == "Kustomization" {
                // What it is made of is there.
                let list = |key: &str| one[key].as_array().cloned().unwrap_or_default();
                let patches = list("patches").into_iter().map(|one| one["path"].clone());
                for part in list("resources").into_iter().chain(patches) {
                    let part = file.with_file_name(part.as_str().unwrap());
                    assert!(part.exists(), "{}", part.display());
                }
                continue;
            }
            let metadata = &one["metadata"];
            let key = (kind, metadata["namespace"].to_string(), metadata["name"].to_string());
            assert!(metadata["name"].is_string() && !named.contains(&key), "{key:?}");
            named.push(key);
        }
    }
}

#[test]
fn slurms_prolog_holds_a_task_to_one_cache_and_leaves_it_alone_otherwise() {
    let fixture = Fixture::new();
    let allowed = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = allowed.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap();
    let allowed = allowed.rsplit('\t').next().unwrap().to_owned();
    if !allowed.starts_with("0-") || Command::new("taskset").arg("-h").output().is_err() {
        println!("skipped: needs taskset and CPUs from 0 on, found {allowed}");
        return;
    }
    // A tree in which CPU 0 has a last-level cache of its own, and all others share one.
    let last: u32 = allowed.rsplit('-').next().unwrap().parse().unwrap();
    for cpu in 0..=last {
        for (index, level, shared) in [
            (0, 1, cpu.to_string()),
            (1, 3, if cpu == 0 { "0".to_owned() } else { format!("1-{last}") }),
        ] {
            let folder = format!("sysfs/cpu{cpu}/cache/index{index}");
            std::fs::create_dir_all(fixture.path(&folder)).unwrap();
            fixture.write(&format!("{folder}/level"), &level.to_string());
            fixture.write(&format!("{folder}/shared_cpu_list"), &shared);
        }
    }
    let mut task = Command::new("sleep").arg("60").spawn().unwrap();
    // What it says on stderr. On stdout it must say nothing: Slurm takes each line as an order.
    let run_by = |mut prolog: Command, settings: &[(&str, &str)]| {
        prolog.env("CORUN_SYSFS", fixture.path("sysfs"));
        prolog.env("SLURM_TASK_PID", task.id().to_string());
        let output = prolog.envs(settings.iter().copied()).output().unwrap();
        assert!(output.status.success());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
        String::from_utf8(output.stderr).unwrap()
    };
    let script = packaging("slurm/corun-task-prolog.sh");
    let run = |settings: &[(&str, &str)]| run_by(Command::new(&script), settings);
    let held = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", task.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap();
        line.rsplit('\t').next().unwrap().to_owned()
    };
    assert_eq!(run(&[("CORUN_HOLD", "0")]), "");
    assert_eq!(held(), allowed);
    assert_eq!(run(&[("SLURM_CPUS_PER_TASK", "4000")]), "");
    assert_eq!(held(), allowed);
    assert_eq!(run(&[("SLURM_LOCALID", "0")]), "corun: held to CPUs 0\n");
    assert_eq!(held(), "0");
    // Slurm closes stderr before it runs a prolog.
    let mut closed = Command::new("sh");
    closed.args(["-c", "exec \"$0\" 2>&-"]).arg(&script);
    assert_eq!(run_by(closed, &[("SLURM_LOCALID", "0")]), "");
    assert_eq!(held(), "0");
    task.kill().unwrap();
    task.wait().unwrap();
}

/// Runs dpkg on a root of its own, where nothing else is installed; the package's scripts are told so.
fn dpkg(root: &Path, words: &[&str]) {
    let forced = "--force-depends,script-chrootless,not-root";
    let output = Command::new("dpkg")
        .arg(forced)
        .arg(format!("--root={}", root.display()))
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// All files below a folder that a package could have left, relative to it; dpkg's own are none.
fn files_below(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let below = path.strip_prefix(root).unwrap();
        if below.starts_with("var/lib") || below.starts_with("var/log") {
            continue;
        }
        if path.is_dir() {
            files_below(root, &path, found);
        } else {
            found.push(below.to_owned());
        }
    }
}

/// Who is a user of the system. A user stays when a package goes: files may be theirs.
fn is_of_users(file: &Path) -> bool {
    let names = ["passwd", "group", "shadow", "gshadow", ".pwd.lock"];
    let name = file.file_name().unwrap().to_string_lossy();
    file.parent() == Some(Path::new("etc")) && names.contains(&name.trim_end_matches('-'))
}

#[test]
fn the_debian_package_installs_into_a_fresh_root_and_leaves_nothing_there() {
    let there = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    let tools = ["dpkg", "dpkg-deb", "dpkg-shlibdeps", "strip", "systemd-sysusers"];
    if !tools.into_iter().all(there) {
        println!("skipped: needs dpkg-dev, binutils and systemd");
        return;
    }
    let fixture = Fixture::new();
    let built = assert_cmd::cargo::cargo_bin!("corun").parent().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/build-deb.sh");
    let output = Command::new(script)
        .arg(built)
        .arg(fixture.path("out"))
        .env("DEB_COMPRESSION", "none")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let package = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert!(package.contains(concat!("corun_", env!("CARGO_PKG_VERSION"), "_")), "{package}");

    let root = fixture.path("root");
    std::fs::create_dir_all(root.join("var/lib/dpkg/info")).unwrap();
    std::fs::create_dir_all(root.join("var/lib/dpkg/updates")).unwrap();
    for file in ["status", "available"] {
        std::fs::write(root.join("var/lib/dpkg").join(file), "").unwrap();
    }
    dpkg(&root, &["--install", &package]);
    for file in [
        "usr/bin/corun",
        "usr/lib/corun/libcorun_trace.so",
        "usr/lib/systemd/system/corun.service",
        "usr/lib/systemd/system/corun.socket",
        "usr/lib/systemd/system/corun-page.service",
        "usr/share/man/man1/corun-explain.1.gz",
        "usr/share/bash-completion/completions/corun",
        "usr/share/zsh/vendor-completions/_corun",
        "usr/share/fish/vendor_completions.d/corun.fish",
        "usr/share/doc/corun/copyright",
    ] {
        assert!(root.join(file).is_file(), "{file}");
    }
    // The installed program runs, and takes the installed configuration, which changes nothing.
    let config = root.join("etc/corun/config.toml");
    let checked =
        Command::new(root.join("usr/bin/corun")).arg("check-config").arg(&config).output();
    let checked = checked.unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    assert!(std::fs::read_to_string(&config).unwrap().contains("\napply = false\n"));
    for name in ["corun", "corun-page"] {
        let unit = root.join(format!("usr/lib/systemd/system/{name}.service"));
        let unit = std::fs::read_to_string(unit).unwrap();
        assert!(
            unit.contains("ExecStart=/usr/bin/corun ") && !unit.contains("/usr/local"),
            "{unit}"
        );
    }
    // The page's user: one of the system, who cannot log in.
    let users = std::fs::read_to_string(root.join("etc/passwd")).unwrap();
    let user = users.lines().find(|line| line.starts_with("corun:")).unwrap();
    assert!(user.ends_with("nologin"), "{user}");

    dpkg(&root, &["--remove", "corun"]);
    let mut left = Vec::new();
    files_below(&root, &root, &mut left);
    // The configuration stays, and that the daemon was enabled, until the package is purged.
    let stays = |file: &PathBuf| {
        file.ends_with("corun/config.toml")
            || file.starts_with("etc/systemd/system")
            || is_of_users(file)
    };
    assert!(left.iter().all(stays), "{left:?}");
    dpkg(&root, &["--purge", "corun"]);
    let mut left = Vec::new();
    files_below(&root, &root, &mut left);
    left.retain(|file| !is_of_users(file));
    assert_eq!(left, [] as [PathBuf; 0]);
}

/// The repository's folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn out_of(command: &mut Command) -> (i32, String) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].map(|part| String::from_utf8(part).unwrap()).concat();
    (output.status.code().unwrap(), text)
}

#[test]
fn what_make_install_puts_under_a_prefix_make_uninstall_takes_away() {
    let fixture = Fixture::new();
    let corun = assert_cmd::cargo::cargo_bin!("corun");
    std::fs::create_dir_all(fixture.path("built/deps")).unwrap();
    std::os::unix::fs::symlink(corun, fixture.path("built/corun")).unwrap();
    std::fs::copy("/bin/true", fixture.path("built/corun-study")).unwrap();
    fixture.write("built/deps/libcorun_trace.so", "the tracer");
    let script = |words: &[&str]| {
        let mut script = Command::new(root().join("scripts/install.sh"));
        script.current_dir(fixture.path("")).args(words).env("DESTDIR", fixture.path("stage"));
        let (code, text) = out_of(&mut script);
        assert_eq!(code, 0, "{text}");
    };
    // What is not corun's stays.
    std::fs::create_dir_all(fixture.path("stage/opt/lib/systemd/system")).unwrap();
    fixture.write("stage/opt/lib/systemd/system/other.service", "");
    script(&["built", "/opt"]);
    let stage = fixture.path("stage/opt");
    for file in ["bin/corun-study", "lib/corun/libcorun_trace.so", "share/man/man1/corun-top.1"] {
        assert!(stage.join(file).is_file(), "{file}");
    }
    for unit in ["corun", "corun-page"] {
        let text =
            std::fs::read_to_string(stage.join(format!("lib/systemd/system/{unit}.service")));
        assert!(text.unwrap().contains("ExecStart=/opt/bin/corun "), "{unit}");
    }
    let (code, text) = out_of(Command::new(stage.join("bin/corun")).arg("--version"));
    assert_eq!((code, text.starts_with("corun ")), (0, true), "{text}");
    script(&["--remove", "/opt"]);
    let mut left = Vec::new();
    files_below(&stage, &stage, &mut left);
    assert_eq!(left, [PathBuf::from("lib/systemd/system/other.service")]);
}

/// A wheel with a native module that is a program of the system, under a name of its own.
fn wheel(fixture: &Fixture, name: &str, module: &str) -> PathBuf {
    let script =
        "import sys,zipfile\nzipfile.ZipFile(sys.argv[1],'w').write(sys.argv[2],sys.argv[3])";
    let path = fixture.path(name);
    let made =
        Command::new("python3").args(["-c", script]).arg(&path).args(["/bin/sh", module]).status();
    assert!(made.unwrap().success());
    path
}

#[test]
fn a_wheel_that_promises_too_much_is_found_out() {
    let there = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    if !["python3", "objdump"].into_iter().all(there) {
        println!("skipped: needs Python and binutils");
        return;
    }
    let fixture = Fixture::new();
    let check = |name: &str, module: &str| {
        let path = wheel(&fixture, name, module);
        let script = root().join("scripts/check-wheel.py");
        out_of(Command::new("python3").arg(script).arg(path).arg("1.2.3"))
    };
    const MODULE: &str = "corun/_corun.abi3.so";
    let good = check("corun-1.2.3-cp310-abi3-manylinux_2_99_x86_64.whl", MODULE);
    assert_eq!(good, (0, String::new()));
    for (name, module, what) in [
        ("corun-1.2.3-cp310-abi3-manylinux_2_1_x86_64.whl", MODULE, "its name promises 2.1"),
        ("corun-1.2.4-cp310-abi3-manylinux_2_99_x86_64.whl", MODULE, "that of Cargo.toml is 1.2.3"),
        ("corun-1.2.3-cp310-cp310-manylinux_2_99_x86_64.whl", MODULE, "expected abi3"),
        ("corun-1.2.3-cp310-abi3-manylinux_2_99_x86_64.whl", "corun/a.so", "no native module"),
        ("corun-1.2.3-cp310-abi3-linux_x86_64.whl", MODULE, "expected corun-VERSION"),
    ] {
        let (code, text) = check(name, module);
        assert!(code == 1 && text.contains(what), "{name}: {code} {text}");
    }
}

/// No engine that builds images runs in tests: what can be read is checked.
#[test]
fn the_container_file_copies_what_its_script_provides() {
    let text = std::fs::read_to_string(packaging("container/Containerfile")).unwrap();
    let joined = text.replace("\\\n", " ");
    let lines: Vec<&str> =
        joined.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()).collect();
    let known = ["FROM", "ARG", "LABEL", "COPY", "ENV", "USER", "CMD"];
    for line in &lines {
        assert!(known.contains(&line.split(' ').next().unwrap()), "{line}");
    }
    // The base may be another one, and has a name that says from where.
    assert!(lines[0].starts_with("ARG BASE=docker.io/"), "{}", lines[0]);
    assert_eq!(lines[1], "FROM ${BASE}");
    let script = std::fs::read_to_string(root().join("scripts/build-container.sh")).unwrap();
    let copies = lines.iter().filter_map(|line| line.strip_prefix("COPY "));
    let sources: Vec<&str> = copies
        .flat_map(|words| {
            let words: Vec<&str> = words.split_whitespace().collect();
            words[..words.len() - 1].to_vec()
        })
        .collect();
    assert!(sources.len() >= 4, "{sources:?}");
    for source in sources {
        let is_put_there = script.contains(&format!("\"$out/{source}\""))
            || script.contains(&format!("\"$root/{source}\""));
        assert!(is_put_there, "{source}");
    }
    // Nobody's rights, and what the manifests run is there: a shell, corun and kubectl on the path.
    assert!(lines.contains(&"USER 65534:65534"));
}

/// A repository of its own in which all is ready for a release, and then one thing is not.
#[test]
fn the_check_list_of_a_release_finds_what_is_missing() {
    if Command::new("git").arg("--version").output().is_err() {
        println!("skipped: needs git");
        return;
    }
    let fixture = Fixture::new();
    let git = |words: &[&str]| {
        let (code, text) = out_of(
            Command::new("git")
                .args(["-c", "user.name=t", "-c", "user.email=t@localhost"])
                .args(words)
                .current_dir(fixture.path("")),
        );
        assert_eq!(code, 0, "{text}");
    };
    for folder in ["scripts", "src", "packaging"] {
        std::fs::create_dir(fixture.path(folder)).unwrap();
    }
    for script in ["release-check.sh", "version.sh"] {
        std::fs::copy(root().join("scripts").join(script), fixture.path("scripts").join(script))
            .unwrap();
    }
    let manifest = "[workspace]\nmembers = []\n[workspace.package]\nversion = \"1.2.3\"\nrust-version = \"1.88\"\n\
                    [package]\nname = \"corun\"\nversion.workspace = true\nedition = \"2024\"\n";
    let changelog =
        "# Changelog\n\n## Unreleased\n\n## 1.2.3 - 2026-01-02\n\n### Added\n\n- A thing.\n";
    fixture.write("Cargo.toml", manifest);
    fixture.write("src/lib.rs", "");
    fixture
        .write("Cargo.lock", "version = 4\n\n[[package]]\nname = \"corun\"\nversion = \"1.2.3\"\n");
    fixture.write("CHANGELOG.md", changelog);
    fixture.write("README.md", "Rust 1.88 or later\n");
    fixture.write("pyproject.toml", "dynamic = [\"version\"]\n");
    fixture.write("packaging/a.yaml", "image: registry.example/corun:1.2.3\n");
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-qm", "all"]);
    let check = || {
        let script = fixture.path("scripts/release-check.sh");
        out_of(Command::new("bash").arg(script).arg("--quick").current_dir(fixture.path("")))
    };
    let (code, text) = check();
    assert_eq!((code, text.matches("\nyes  ").count()), (0, 9), "{text}");
    for (file, good, bad, line) in [
        ("CHANGELOG.md", "- A thing.", "", "the changelog has the version"),
        ("CHANGELOG.md", "## Unreleased\n", "## Unreleased\n\n- More.\n", "under Unreleased"),
        ("packaging/a.yaml", ":1.2.3", ":1.2.2", "the images of the manifests"),
        ("README.md", "1.88", "1.80", "the least Rust"),
        ("src/lib.rs", "", "// Not committed.", "the tree is clean"),
        ("Cargo.toml", "version = \"1.2.3\"", "version = \"1.2\"", "a semantic one"),
    ] {
        let text = std::fs::read_to_string(fixture.path(file)).unwrap();
        fixture
            .write(file, &if good.is_empty() { bad.to_owned() } else { text.replace(good, bad) });
        let (code, said) = check();
        let is_said = said.lines().any(|one| one.starts_with("NO ") && one.contains(line));
        assert!(code == 1 && is_said, "{file}: {code}\n{said}");
        fixture.write(file, &text);
    }
    git(&["tag", "v1.2.3"]);
    let (code, said) = check();
    assert!(code == 1 && said.contains("the tag v1.2.3 is there already"), "{said}");
}
