//! What `make test` compiles the workspace with (`scripts/rustc-with-lints.sh`) finds what `make lint` finds.

use std::path::Path;
use std::process::Command;

use crate::fixture::Fixture;

/// Whether a crate of this one file is compiled, as cargo asks for it, and what is said of it.
fn compiled(file: &str, words: &[&str], source: &str) -> (bool, String) {
    let fixture = Fixture::new();
    let path = fixture.path(file);
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    std::fs::write(&path, source).unwrap();
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let sysroot = String::from_utf8(sysroot.stdout).unwrap();
    let script = "../../scripts/rustc-with-lints.sh";
    let output = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(script))
        .args(["rustc", "--crate-name", "tried", "--edition=2024"])
        .arg(&path)
        .args(["--error-format=human", "--emit=dep-info,link", "-C", "opt-level=1"])
        .args(words)
        .arg("--out-dir")
        .arg(fixture.path(""))
        .env("CORUN_SYSROOT", sysroot.trim())
        .env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__")
        .env("CARGO_PRIMARY_PACKAGE", "1")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

const LIBRARY: &[&str] = &["--crate-type", "lib"];
const PROGRAM: &[&str] = &["--crate-type", "bin"];
const TEST: &[&str] = &["--test"];

#[test]
fn a_crate_without_faults_is_compiled() {
    let source =
        "//! What is tried.\n\n/// Twice [`u32`].\npub fn twice(of: u32) -> u32 {\n    2 * of\n}\n";
    let (is_compiled, said) = compiled("src/lib.rs", LIBRARY, source);
    assert!(is_compiled && said.is_empty(), "{said}");
}

#[test]
fn a_lint_of_clippy_is_an_error_in_libraries_programs_benchmarks_and_tests() {
    let fault = "fn is_set(bit: bool) -> bool {\n    bit == true\n}\n";
    let library = format!("//! What is tried.\n\n/// Whether the bit is set.\npub {fault}");
    let program = format!("//! What is tried.\n\n{fault}\nfn main() {{\n    is_set(true);\n}}\n");
    let test = format!("{fault}\n#[test]\nfn a_bit_is_set() {{\n    assert!(is_set(true));\n}}\n");
    for (file, words, source) in [
        ("src/lib.rs", LIBRARY, &library),
        ("src/main.rs", PROGRAM, &program),
        ("benches/tried.rs", PROGRAM, &program),
        ("tests/tried.rs", TEST, &test),
    ] {
        let (is_compiled, said) = compiled(file, words, source);
        assert!(!is_compiled && said.contains("clippy::bool-comparison"), "{file}: {said}");
    }
}

#[test]
fn a_link_to_nowhere_is_an_error_also_where_the_item_is_private() {
    let library = "//! What is tried.\n\n/// As [`nobody`] does.\npub fn tried() {}\n";
    let program = "//! What is tried.\n\n/// As [`nobody`] does.\nfn tried() {}\n\nfn main() {\n    tried();\n}\n";
    for (file, words, source) in
        [("src/lib.rs", LIBRARY, library), ("src/main.rs", PROGRAM, program)]
    {
        let (is_compiled, said) = compiled(file, words, source);
        assert!(!is_compiled && said.contains("unresolved link to `nobody`"), "{file}: {said}");
    }
}
