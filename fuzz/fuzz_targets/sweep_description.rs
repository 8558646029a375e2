//! A sweep's description: any text is read or refused, and what is read has sane figures.
#![no_main]

use corun_input::TomlFile as _;
use corun_sweep::Description;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for read in [Description::from_toml(text, "fuzz.toml"), Description::from_json(text)] {
        match read {
            Ok(description) => {
                assert!(!description.machines.is_empty());
                let seeds = description.seeds.each().len();
                assert!((1..=10_000).contains(&seeds));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
