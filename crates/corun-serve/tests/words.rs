//! What the page calls its figures stands in its list of words.

use std::collections::BTreeSet;
use std::path::Path;

/// Words of the heads of tables that everybody knows.
const PLAIN: [&str; 5] = ["from", "to", "time", "reason", "machine"];
/// Abbreviations that are no words of the page: they stand for what is typed, or are of comments and requests.
const TYPED: [&str; 8] = ["JSON", "NAME", "FILE", "SECONDS", "API", "CSS", "GET", "POST"];

/// The text of each source of the page but the list itself, and the list's.
fn sources() -> (Vec<String>, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page/src");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_source =
        |path: &Path| path.extension().is_some_and(|ending| ending == "tsx" || ending == "ts");
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let (list, others): (Vec<_>, Vec<_>) =
        files.filter(|path| is_source(path)).partition(|path| path.ends_with("words.tsx"));
    (others.iter().map(|path| read(path)).collect(), read(&list[0]))
}

/// What stands behind each of these beginnings, up to one of these ends.
fn behind(text: &str, beginning: &str, ends: &[char]) -> Vec<String> {
    let parts = text.split(beginning).skip(1);
    parts.map(|part| part.split(ends).next().unwrap_or_default().trim().to_owned()).collect()
}

/// The words of the list, in lower case.
fn words(list: &str) -> BTreeSet<String> {
    let lines = list.lines().filter_map(|line| line.trim().strip_prefix("[[")?.split_once("], "));
    lines
        .flat_map(|(words, _)| words.split(','))
        .map(|one| one.trim().trim_matches('"').to_lowercase())
        .collect()
}

#[test]
fn each_head_of_a_table_and_each_figure_is_explained() {
    let (sources, list) = sources();
    let words = words(&list);
    assert!(words.contains("cpu") && words.contains("stp"), "{words:?}");
    let mut heads = Vec::new();
    for source in &sources {
        // A head may have a class.
        let source = source.replace(r#"<th scope="col" class="n">"#, r#"<th scope="col">"#);
        heads.extend(behind(&source, r#"<th scope="col">"#, &['<', '{']));
        heads.extend(behind(&source, "<dt>", &['<', '{', '(']));
        // The figures of recordings, which are heads of a table too.
        let figures = source.lines().filter(|line| line.contains(", long: "));
        heads.extend(figures.flat_map(|line| behind(line, "{ name: \"", &['"'])));
    }
    let mut heads: BTreeSet<String> = heads.iter().map(|head| head.to_lowercase()).collect();
    assert!(heads.len() > 20, "{heads:?}");
    // Whose abbreviation stands behind in brackets.
    let long = ["", "instructions per cycle", "llc misses per 1000 instructions"];
    heads.retain(|head| !PLAIN.contains(&head.as_str()) && !long.contains(&head.as_str()));
    let missing: Vec<&String> = heads.difference(&words).collect();
    assert!(missing.is_empty(), "not in page/src/words.tsx: {missing:?}");
}

#[test]
fn each_abbreviation_is_explained() {
    let (sources, list) = sources();
    let words = words(&list);
    let names = sources.iter().flat_map(|source| behind(source, "const ", &[':', ' ', ';', '=']));
    let constants: BTreeSet<String> = names.collect();
    let mut seen = BTreeSet::new();
    for source in &sources {
        let all = source.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let short = all.map(|one| one.strip_suffix('s').unwrap_or(one));
        let is_short =
            |one: &&str| one.len() > 1 && one.bytes().all(|one| one.is_ascii_uppercase());
        seen.extend(short.filter(is_short).map(str::to_owned));
    }
    seen.retain(|one| !constants.contains(one) && !TYPED.contains(&one.as_str()));
    assert!(seen.contains("LLC") && seen.contains("MPKI"), "{seen:?}");
    let missing: Vec<&String> =
        seen.iter().filter(|one| !words.contains(&one.to_lowercase())).collect();
    assert!(missing.is_empty(), "not in page/src/words.tsx: {missing:?}");
}
