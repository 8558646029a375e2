use super::*;

const PROGRAM: &str = "[[program]]\nname = \"a\"\ncommand = \"a\"\n";

fn read(text: &str) -> Result<Config> {
    Config::from_source(TomlSource::new("c.toml".into(), text.into()))
}

fn refused(text: &str) -> String {
    read(text).unwrap_err().report()
}

#[test]
fn the_example_is_a_configuration_that_only_looks() {
    let config = read(EXAMPLE).unwrap();
    assert!(!config.apply);
    let (programs, source) = (config.programs.clone(), config.source.clone());
    let own = Config { programs, source, ..Config::default() };
    assert_eq!(config, own, "the example shows the defaults");
}

/// A line before the program, or lines, and what is said of the file.
#[test]
fn what_cannot_be_is_refused_with_file_line_and_key() {
    for (line, expected) in [
        // No TOML.
        ("seed = = 1", "c.toml:1: seed: no TOML: "),
        ("seed = 1\nseed = 2", "c.toml:2: seed: no TOML: duplicate key"),
        // Unknown keys and names.
        ("polcy = \"dio\"", "c.toml:1: polcy: unknown field `polcy` (did you mean `policy`?), "),
        ("gate.no = 1", "c.toml:1: gate.no: unknown field `no`"),
        ("log = \"tekst\"", "c.toml:1: log: unknown variant `tekst`, expected `text` or `json`"),
        ("counters = \"pmu\"", "c.toml:1: counters: found `pmu`, expected auto"),
        ("backend = \"bpf\"", "c.toml:1: backend: found `bpf`, expected affinity"),
        ("threads_by = \"ebpf\"", "c.toml:1: threads_by: found `ebpf`, expected auto"),
        // Types.
        ("apply = 1", "c.toml:1: apply: invalid type: integer `1`, expected true or false"),
        ("seed = -1", "c.toml:1: seed: invalid value: integer `-1`, expected a whole number"),
        ("gate = 3", "c.toml:1: gate: invalid type: integer `3`, expected a table"),
        ("journals = 1", "c.toml:1: journals: invalid type: integer `1`, expected a path"),
        ("metrics = \"here\"", "c.toml:1: metrics: found `here`, expected ADDRESS:PORT or off"),
        ("spill_after_s = \"ever\"", "c.toml:1: spill_after_s: found `\"ever\"`, expected seconds"),
        // Figures.
        ("interval_s = 0", "c.toml:1: interval_s: found 0, expected more than 0"),
        ("interval_s = 1e-6", "c.toml:1: interval_s: found 0.000001, expected at least 0.01"),
        ("interval_s = 1e20", "c.toml:1: interval_s: found 100000000000000000000"),
        ("stall_s = -1", "c.toml:1: stall_s: found -1"),
        ("stall_s = 1e20", "expected more than 0 and at most 1e9"),
        ("seed = 1\nstall_s = inf", "c.toml:2: stall_s: found inf"),
        ("spill_after_s = -1", "c.toml:1: spill_after_s: found -1"),
        ("gate.noise = 2", "c.toml:1: gate.noise: found 2, expected a share"),
        ("gate.most_loss = -1", "c.toml:1: gate.most_loss: found -1"),
        ("[gate]\non = true\nrest_s = 0", "c.toml:3: gate.rest_s: found 0"),
        ("gate = { migrations_per_s = nan }", "c.toml:1: gate.migrations_per_s: found NaN"),
        // Policies.
        ("policy = \"doi\"", "c.toml:1: policy: unknown policy `doi`\n  try: di, dio"),
        ("policy = \"di+dio\"", "c.toml:1: policy: `di+dio`: `di` and `dio` both place"),
        (
            "apply = true\npolicy = \"vbsc\"",
            "c.toml:2: policy: policy `vbsc` is not known to do well on a real machine",
        ),
        (
            "policy = \"dio\"\nparameters = { measur = 1 }",
            "c.toml:2: parameters.measur: unknown parameter `measur`",
        ),
        (
            "policy = \"dunn\"\nparameters.curvature = -1",
            "c.toml:2: parameters.curvature: policy `dunn`: parameter `curvature` is -1",
        ),
        (
            "policy = \"corun\"\nparameters = { ways = 1, objective = \"speed\" }",
            "c.toml:2: parameters.objective: found `speed`, expected 0 (mean-slowdown), 1 ",
        ),
        (
            "policy = \"corun\"\nparameters = { objective = 1.5 }",
            "c.toml:2: parameters.objective: policy `corun`: parameter `objective` is 1.5: expected 0 (",
        ),
        (
            "parameters = { measure = 1 }",
            "c.toml:1: parameters: policy = \"auto\" may choose a policy without them",
        ),
        // Viewers.
        ("viewers_may_act = true", "c.toml:1: viewers_may_act: nothing is shown to viewers"),
        (
            "apply = true\nviewers = \"/v\"\nviewers_may_act = true",
            "c.toml:3: viewers_may_act: apply = true",
        ),
    ] {
        let found = refused(&format!("{line}\n{PROGRAM}"));
        assert!(found.contains(expected), "{line}: {found}");
    }
}

/// What stands below a program, which takes lines 1 to 3.
#[test]
fn a_program_that_cannot_be_is_refused_with_file_line_and_key() {
    for (more, expected) in [
        ("unti = \"b\"", "c.toml:4: program[0].unti: unknown field `unti` (did you mean `unit`?)"),
        ("profile = \"a\u{1b}[2J\"", "c.toml:4: profile: no TOML: "),
        ("pid = -1", "c.toml:4: program[0].pid: invalid value: integer `-1`"),
        ("pid = 0", "c.toml:4: program[0].pid: found 0, expected the number of a process"),
        ("cgroup = \"\"", "c.toml:4: program[0].cgroup: found nothing"),
        ("cgroup = \"[\"", "c.toml:4: program[0].cgroup: `/[` is no pattern"),
        ("user = \"nobody-of-this-name\"", "c.toml:4: program[0].user: "),
        ("hold = \"cgroup\"", "c.toml:4: program[0].hold: \"cgroup\" moves all"),
        (PROGRAM, "c.toml:5: program[1].name: `a` stands twice"),
        ("[[program]]\nname = \"b\"", "c.toml:4: program[1]: `b` says nothing to know it by"),
        ("[[program]]\nname = \"b\"\npid = 1.5", "c.toml:6: program[1].pid: invalid type"),
        ("[[program]]\ncommand = \"b\"", "c.toml:4: program[1].name: missing"),
        (
            "[[program]]\nname = \"b\\u001b[2J\"\npid = 1",
            "c.toml:5: program[1].name: found `b\\u{1b}[2J`, expected a name without control",
        ),
    ] {
        let found = refused(&format!("{PROGRAM}{more}\n"));
        assert!(found.contains(expected), "{more}: {found}");
    }
    assert!(refused("").starts_with("c.toml: program: found none, expected at least one"));
}

/// What only the making of a host finds, with a line of the configuration.
#[test]
fn a_file_or_a_profile_that_is_not_there_is_named_with_file_line_and_key() {
    for (line, expected) in [
        ("machine = \"no/such.toml\"", "c.toml:2: machine: no/such.toml: "),
        ("profiles = \"no/such\"", "c.toml:2: profiles: no/such: "),
        ("counters = \"model\"", "c.toml:4: program[0].name: no program is named \"a\""),
        ("counters = \"perf\"", "no host"),
    ] {
        let config = read(&format!("policy = \"di\"\n{line}\n{PROGRAM}")).unwrap();
        let found = config.blamed(Error::input("no host")).report();
        assert!(found.starts_with(expected), "{line}: {found}");
    }
}

#[test]
fn the_folder_of_journals_is_found_in_a_file_that_is_no_good() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.toml");
    for (text, expected) in [
        ("journals = \"/j\"\nno TOML", Ok("/j".into())),
        ("polcy = 1\njournals = \"/j\"", Ok("/j".into())),
        ("policy = \"di\"", Ok(default_folder())),
        ("seed = 1\njournals = 1", Err("c.toml:2: journals: invalid type")),
        ("seed = 1\njournals = /j", Err("c.toml:2: journals: no TOML: ")),
    ] {
        std::fs::write(&path, text).unwrap();
        match (Config::journals_of(&path), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => {
                assert!(found.to_string().contains(expected), "{found}");
            }
            (found, _) => panic!("{text}: {found:?}"),
        }
    }
}
