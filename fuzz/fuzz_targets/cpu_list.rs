//! Any text is a CPU list that prints as an equal one, or an error; never a panic.
#![no_main]

use corun_machine::CpuSet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(set) = text.parse::<CpuSet>() {
        assert_eq!(set.to_string().parse::<CpuSet>().as_ref(), Ok(&set));
    }
});
