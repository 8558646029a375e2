use proptest::prelude::*;

use super::*;

const EXAMPLE: &str = r#"version = 1
machine = "xeon-x5365"
seeds = 10
method = "window"

[[app]]
profile = "mcf06"
count = 2
start_s = 1.5
kill_s = 20

[[app]]
cmd = ["sleep", "1"]
weight = 0.5
io = { cpu_ms = 2, wait_ms = 8 }
env = { LANG = "C" }
"#;

fn refusal(from: &str, to: &str) -> String {
    assert!(EXAMPLE.contains(from), "{from}");
    Mix::from_toml(&EXAMPLE.replacen(from, to, 1), "m.toml").unwrap_err().to_string()
}

#[test]
fn the_example_is_read_with_its_defaults() {
    let mix = Mix::from_toml(EXAMPLE, "m.toml").unwrap();
    assert_eq!((mix.seeds, mix.method, mix.threads()), (Some(10), Method::Window, 3));
    let app = &mix.apps[0];
    assert_eq!((app.shown_name(), app.threads, app.weight), ("mcf06", 1, 1.0));
    assert_eq!((app.kill_s, app.important, app.restart), (Some(20.0), false, None));
    assert_eq!(mix.apps[1].shown_name(), "sleep");
    assert_eq!(mix.apps[1].start_s, 0.0);
    let least = Mix::from_toml("[[app]]\nprofile = \"a\"", "m.toml").unwrap();
    assert_eq!(least, Mix::of_apps(&["a"]).unwrap());
    assert_eq!((least.version, least.method), (1, Method::Restart3));
}

#[test]
fn threads_that_meet_at_barriers_spin_unless_told_otherwise() {
    let with = |barrier: &str| EXAMPLE.replacen("count = 2", barrier, 1);
    let spin = Mix::from_toml(&with("barrier = { every_instructions = 5000 }"), "m.toml").unwrap();
    let expected = Barrier { every_instructions: 5000, waiting: Waiting::Spin };
    assert_eq!(spin.apps[0].barrier, Some(expected));
    let text = with("barrier = { every_instructions = 5000, waiting = \"sleep\" }");
    let sleep = Mix::from_toml(&text, "m.toml").unwrap();
    assert_eq!(sleep.apps[0].barrier.map(|one| one.waiting), Some(Waiting::Sleep));
    assert_eq!(Mix::from_toml(&sleep.to_toml(), "m.toml").unwrap(), sleep);
}

#[test]
fn a_service_has_its_defaults() {
    let text = EXAMPLE.replacen(
        "count = 2",
        "service = { requests_per_s = 500, instructions = 2e6, target_ms = 5 }",
        1,
    );
    let mix = Mix::from_toml(&text, "m.toml").unwrap();
    let service = mix.apps[0].service.unwrap();
    assert_eq!((service.percentile, service.warm_up_s), (99.0, 0.0));
    assert_eq!((service.variation, service.variation()), (None, 1.0));
    assert_eq!(Mix::from_toml(&mix.to_toml(), "m.toml").unwrap(), mix);
}

#[test]
fn bad_mixes_are_refused_with_line_and_field() {
    for (from, to, expected) in [
        ("version = 1", "version = 9", "m.toml:1: version: found 9, expected 1"),
        ("= 10", "= 0", "m.toml:3: seeds: found 0, expected a whole number >= 1"),
        ("= 10", "= -1", "m.toml:3: seeds: invalid value: integer `-1`, expected a whole number"),
        (
            "window",
            "widow",
            "m.toml:4: method: unknown variant `widow` (did you mean `window`?), expected one of",
        ),
        ("\"xeon-x5365\"", "\"\"", "m.toml:2: machine: found no name"),
        ("profile = \"mcf06\"", "", "m.toml:6: app[0].profile: missing: expected profile or cmd"),
        ("count = 2", "count = 0", "m.toml:8: app[0].count: found 0, expected a whole"),
        (
            "count = 2",
            "threads = \"x\"",
            "m.toml:8: app[0].threads: invalid type: string \"x\", expected a whole number",
        ),
        (
            "count = 2",
            "weight = \"x\"",
            "m.toml:8: app[0].weight: invalid type: string \"x\", expected a number",
        ),
        ("count = 2", "threads = 0", "m.toml:8: app[0].threads: found 0, expected a whole"),
        ("count = 2", "count = 99999", "m.toml:6: app: found 100000 threads in all"),
        ("count = 2", "counts = 2", "m.toml:8: app[0].counts: unknown field `counts`"),
        ("count = 2", "count = 1.5", "m.toml:8: app[0].count: invalid type: floating point"),
        ("count = 2", "env = { A = \"b\" }", "m.toml:8: app[0].env: found without cmd"),
        ("count = 2", "instructions = 0", "m.toml:8: app[0].instructions: found 0"),
        ("= 1.5", "= -1", "m.toml:9: app[0].start_s: found -1, expected a number >= 0"),
        ("= 1.5", "= nan", "m.toml:9: app[0].start_s: found NaN, expected a number >= 0"),
        ("= 20", "= 1.5", "m.toml:10: app[0].kill_s: found 1.5, expected a number above start_s"),
        ("= 20", "= inf", "m.toml:10: app[0].kill_s: found inf, expected a number above start_s"),
        ("[\"sleep\", \"1\"]", "[]", "m.toml:13: app[1].cmd: found no program"),
        ("weight = 0.5", "weight = 0", "m.toml:14: app[1].weight: found 0, expected a number > 0"),
        (
            "weight = 0.5",
            "instructions = 1",
            "m.toml:14: app[1].instructions: found without profile",
        ),
        ("wait_ms = 8", "wait_ms = -8", "m.toml:15: app[1].io.wait_ms: found -8, expected a"),
        ("cpu_ms = 2, ", "", "m.toml:15: app[1].io: missing field `cpu_ms`"),
        (
            "weight = 0.5",
            "barrier = { every_instructions = 5000 }",
            "m.toml:14: app[1].barrier: found with io",
        ),
        (
            "count = 2",
            "barrier = { every_instructions = 999 }",
            "m.toml:8: app[0].barrier.every_instructions: found 999, expected at least 1000",
        ),
        (
            "count = 2",
            "barrier = { every_instructions = 5000, waiting = \"doze\" }",
            "m.toml:8: app[0].barrier.waiting: unknown variant `doze`, expected `spin` or `sleep`",
        ),
        (
            "count = 2",
            "service = { requests_per_s = 10, instructions = 10, target_ms = 5 }",
            "m.toml:8: app[0].service.instructions: found 10, expected 1000 to 1e15",
        ),
        (
            "count = 2",
            "service = { requests_per_s = 10, instructions = 1e6, target_ms = 5, percentile = 100 }",
            "m.toml:8: app[0].service.percentile: found 100, expected a number above 0",
        ),
        (
            "weight = 0.5",
            "service = { requests_per_s = 10, instructions = 1e6, target_ms = 5 }",
            "m.toml:14: app[1].service: found with io or barrier",
        ),
        ("LANG =", "\"A=B\" =", "m.toml:16: app[1].env: found \"A=B\", expected the name"),
        ("[[app]]", "[app]", "m.toml:"),
    ] {
        let found = refusal(from, to);
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    let none = Mix::from_toml("seeds = 1", "m.toml").unwrap_err();
    assert_eq!(none.to_string(), "m.toml: app: found none, expected at least one");
}

#[test]
fn a_list_of_names_is_a_mix() {
    let mix = Mix::of_apps(&["a", "b", "a"]).unwrap();
    assert_eq!(mix.apps.iter().map(App::shown_name).collect::<Vec<_>>(), ["a", "b", "a"]);
    assert!(Mix::of_apps::<&str>(&[]).is_err());
    assert_eq!(Mix::of_apps(&["a", ""]).unwrap_err().field(), "app[1].profile");
}

#[test]
fn a_mix_comes_back_the_same() {
    let mix = Mix::from_toml(EXAMPLE, "m.toml").unwrap();
    let text = toml::to_string(&mix).unwrap();
    assert_eq!(Mix::from_toml(&text, "again").unwrap(), mix);
}

proptest! {
    #[test]
    fn random_text_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        prop_assert!(Mix::from_toml(&text, "m").is_err());
    }

    #[test]
    fn a_damaged_file_never_panics(
        at in 0..EXAMPLE.len(), len in 0usize..20, put in "[\\[\\]{}=\"0-9a-z\\-.\n]{0,6}",
    ) {
        // The example is ASCII: any index is a character's border.
        let end = (at + len).min(EXAMPLE.len());
        if let Ok(mix) = Mix::from_toml(&format!("{}{put}{}", &EXAMPLE[..at], &EXAMPLE[end..]), "m")
        {
            prop_assert!(mix.check().is_ok() && !mix.apps.is_empty());
        }
    }
}
