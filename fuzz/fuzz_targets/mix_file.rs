//! Reading a mix file never panics, and what is read can be.

#![no_main]

use corun_profile::Mix;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(read) = Mix::from_toml(text, "fuzz.toml") {
        assert_eq!(read.check(), Ok(()));
    }
});
