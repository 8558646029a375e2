//! Any text is schemata that print as equal ones, or an error; never a panic.
#![no_main]

use corun_linux::resctrl::Schemata;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(schemata) = text.parse::<Schemata>() {
        assert_eq!(schemata.to_string().parse::<Schemata>().as_ref(), Ok(&schemata));
    }
});
