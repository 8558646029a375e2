//! The reference pages name every key, and their examples are read.

use crate::{Mix, Profile, ProfileDocument};

const PROFILE_PAGE: &str = include_str!("../../../docs/profile-file.md");
const MIX_PAGE: &str = include_str!("../../../docs/mix-file.md");

/// The TOML examples of a page.
fn examples(page: &str) -> Vec<&str> {
    page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

fn collect_keys(value: &toml::Value, keys: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, inside) in table {
                // The keys of an environment are the person's.
                if key != "env" {
                    collect_keys(inside, keys);
                }
                keys.push(key.clone());
            }
        }
        toml::Value::Array(items) => items.iter().for_each(|item| collect_keys(item, keys)),
        _ => {}
    }
}

fn keys_of(text: &str) -> Vec<String> {
    let mut keys = Vec::new();
    collect_keys(&toml::Value::Table(text.parse().unwrap()), &mut keys);
    keys
}

fn assert_named(page: &str, keys: &[String]) {
    for key in keys {
        let named = [format!("`{key}`"), format!("`[[{key}]]`")];
        assert!(named.iter().any(|name| page.contains(name)), "{key} is not named");
    }
}

#[test]
fn the_profile_page_names_every_key() {
    let examples = examples(PROFILE_PAGE);
    assert_eq!(examples.len(), 2);
    for example in examples {
        let profile = Profile::from_toml(example, "docs/profile-file.md").unwrap();
        // What is written holds every key there is.
        let written = profile.to_toml();
        assert_eq!(Profile::from_toml(&written, "again").unwrap(), profile);
        assert_named(PROFILE_PAGE, &keys_of(&written));
        let document = toml::to_string(&ProfileDocument::new(&profile, None)).unwrap();
        assert_named(PROFILE_PAGE, &keys_of(&document));
    }
    let columns = crate::solo_table::FIGURE_NAMES.map(str::to_owned);
    assert_named(PROFILE_PAGE, &columns);
    assert_named(PROFILE_PAGE, &crate::solo_csv::COLUMNS.map(str::to_owned));
}

#[test]
fn the_mix_page_names_every_key_and_method() {
    let examples = examples(MIX_PAGE);
    assert_eq!(examples.len(), 2);
    let written = examples.iter().map(|example| {
        let mix = Mix::from_toml(example, "docs/mix-file.md").unwrap();
        toml::to_string(&mix).unwrap()
    });
    let mut keys: Vec<String> = written.flat_map(|mix| keys_of(&mix)).collect();
    assert_named(MIX_PAGE, &keys);
    // The page's examples are to hold each optional key, else it would not be looked for: a key they
    // lack is one that the reader's refusal of unknown keys lists and the page does not name.
    let refusal = Mix::from_toml("[[app]]\nnone = 1", "m").unwrap_err().why;
    let listed = refusal.split('`').skip(3).step_by(2).map(str::to_owned);
    let listed: Vec<String> = listed.collect();
    assert_eq!(listed.len(), 16, "{refusal}");
    assert_named(MIX_PAGE, &listed);
    keys.sort();
    assert!(listed.iter().all(|key| keys.binary_search(key).is_ok()), "{listed:?} {keys:?}");
    for method in ["restart-3", "window", "first-run"] {
        let text = format!("method = \"{method}\"\n[[app]]\nprofile = \"a\"");
        assert!(Mix::from_toml(&text, "m").is_ok());
        assert!(MIX_PAGE.contains(&format!("`{method}`")));
    }
}
