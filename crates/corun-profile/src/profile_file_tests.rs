use proptest::prelude::*;

use super::*;

pub(crate) const EXAMPLE: &str = r#"version = 1
name = "xz"

[origin]
command = ["xz", "-9", "input"]
sampling_rate = 0.01
complete = true

[[phase]]
instructions = 1000000
data_accesses_pki = 400
mix = { loads_pki = 300, stores_pki = 100, branches_pki = 150, float_pki = 0, mispredicted_pki = 5 }
prefetchable = 0.3
memory_level_parallelism = 1.5
dirty_share = 0.25
footprint_bytes = 1048576
curve = [
  [4096, 100.0],
  [8192, 60.0],
  [1048576, 1.5],
]
"#;

fn refusal(from: &str, to: &str) -> String {
    assert!(EXAMPLE.contains(from), "{from}");
    Profile::from_toml(&EXAMPLE.replacen(from, to, 1), "p.toml").unwrap_err().to_string()
}

#[test]
fn the_example_is_read() {
    let profile = Profile::from_toml(EXAMPLE, "p.toml").unwrap();
    assert_eq!(profile.name, "xz");
    assert_eq!(profile.instructions(), 1_000_000);
    assert_eq!(profile.footprint_bytes(), Some(1 << 20));
    let ProfileData::Recording(recording) = &profile.data else { panic!("expected a recording") };
    assert_eq!(recording.phases[0].threads, 1);
    assert_eq!(recording.phases[0].curve.points().len(), 3);
    assert_eq!(Profile::from_toml(&profile.to_toml(), "again").unwrap(), profile);
}

#[test]
fn figures_that_cannot_be_are_refused_with_line_and_field() {
    for (from, to, expected) in [
        ("= 0.3", "= 1.3", "p.toml:13: phase[0].prefetchable: found 1.3, expected a share"),
        ("= 0.25", "= nan", "p.toml:15: phase[0].dirty_share: found NaN, expected a share"),
        ("= 1.5\n", "= 0.5\n", "p.toml:14: phase[0].memory_level_parallelism: found 0.5"),
        ("= 400", "= -400", "p.toml:11: phase[0].data_accesses_pki: found -400, expected a"),
        ("loads_pki = 300", "loads_pki = inf", "p.toml:12: phase[0].mix.loads_pki: found inf"),
        ("pki = 5 ", "pki = 500 ", "p.toml:12: phase[0].mix.mispredicted_pki: found 500"),
        ("= 1000000\n", "= 0\n", "p.toml:10: phase[0].instructions: found 0, expected"),
        ("= 0.01", "= 0", "p.toml:6: origin.sampling_rate: found 0, expected a share above 0"),
        ("8192, 60.0", "4096, 60.0", "p.toml:19: phase[0].curve[1]: curve sizes must rise"),
        ("8192, 60.0", "8192, -1", "p.toml:19: phase[0].curve[1]: the miss rate at 8192"),
        ("4096, 100.0", "0, 1.0", "p.toml:18: phase[0].curve[0]: a curve point at 0 bytes"),
        ("\"xz\"\n", "\"a,b\"\n", "p.toml:2: name: found \"a,b\", expected a name without"),
    ] {
        let found = refusal(from, to);
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    let phase = EXAMPLE.find("[[phase]]").unwrap();
    let none = Profile::from_toml(&EXAMPLE[..phase], "p.toml").unwrap_err();
    assert_eq!(none.to_string(), "p.toml: phase: found none, expected at least one");
}

#[test]
fn the_wrong_shape_is_refused_with_line_and_field() {
    for (from, to, expected) in [
        ("version = 1", "version = 2", "p.toml:1: version: found 2, expected 1, the version"),
        ("version = 1", "version = \"1\"", "p.toml:1: version: found a string, expected 1"),
        ("version = 1\n", "", "p.toml: version: missing; expected 1"),
        ("= 1000000\n", "= \"many\"\n", "p.toml:10: phase[0].instructions: invalid type"),
        ("complete = true\n", "", "p.toml:4: origin: missing field `complete`"),
        ("dirty_share", "dirty", "p.toml:15: phase[0].dirty: unknown field `dirty`"),
        ("8192, 60.0", "8192", "p.toml:19: phase[0].curve[1]: invalid length 1"),
        ("[origin]", "[origin", "p.toml:4: no TOML: "),
    ] {
        let found = refusal(from, to);
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
}

proptest! {
    #[test]
    fn random_text_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        prop_assert!(Profile::from_toml(&text, "p").is_err());
    }

    #[test]
    fn a_damaged_file_never_panics(
        at in 0..EXAMPLE.len(), len in 0usize..20, put in "[\\[\\]{}=\"0-9a-z\\-.\n]{0,6}",
    ) {
        // The example is ASCII: any index is a character's border.
        let end = (at + len).min(EXAMPLE.len());
        let _ = Profile::from_toml(&format!("{}{put}{}", &EXAMPLE[..at], &EXAMPLE[end..]), "p");
    }
}
