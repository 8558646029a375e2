//! Reading a profile file never panics, and what is read is written and read again.

#![no_main]

use corun_profile::Profile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(read) = Profile::from_toml(text, "fuzz.toml") {
        assert_eq!(read.check(), Ok(()));
        let written = read.to_toml();
        let again = Profile::from_toml(&written, "written.toml").expect("what is written is read");
        assert_eq!(again.to_toml(), written);
    }
});
