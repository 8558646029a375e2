//! Any text is a machine that survives being written and read, or an error; never a panic.
#![no_main]

use corun_machine::Machine;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(machine) = Machine::from_toml(text, "fuzzed.toml") {
        let again = Machine::from_toml(&machine.to_toml(), "again.toml").expect("what we wrote");
        assert_eq!(again.spec(), machine.spec());
        let _ = machine.tree_text(true);
        let _ = machine.document();
    }
});
