//! The page that is embedded is what its sources give.

use std::path::Path;
use std::process::Command;

/// What a command says of itself, or that it is not there or failed.
fn run(folder: &Path, program: &str, words: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .current_dir(folder)
        .args(words)
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(said) } else { Err(said) }
}

#[test]
fn the_bundle_is_that_of_the_sources() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    if let Err(why) = run(&page, "node", &["--version"]) {
        println!("skipped: no Node.js, which bundles the page: {}", why.trim());
        return;
    }
    if !page.join("node_modules/esbuild").exists()
        && let Err(why) = run(&page, "npm", &["ci", "--no-audit", "--no-fund", "--ignore-scripts"])
    {
        println!("skipped: npm cannot install esbuild: {}", why.lines().last().unwrap_or_default());
        return;
    }
    let checked = run(&page, "node", &["build.mjs", "--check"]);
    assert!(checked.is_ok(), "{}", checked.unwrap_err());
    let types = run(&page, "node", &["node_modules/typescript/bin/tsc", "--noEmit"]);
    assert!(types.is_ok(), "the page's types: npm run check in {}", page.display());
}
