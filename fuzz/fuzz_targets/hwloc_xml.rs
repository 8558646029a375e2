//! Any XML is a machine that survives being written and read, or an error; never a panic.
#![no_main]

use corun_machine::Machine;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(machine) = Machine::from_hwloc_xml(text, "fuzzed.xml") {
        let again = Machine::from_toml(&machine.to_toml(), "again.toml").expect("what we wrote");
        assert_eq!(again.spec(), machine.spec());
        if let Ok(assumed) = machine.with_assumed_memory() {
            let _ = assumed.tree_text(true);
            let _ = assumed.document();
        }
    }
});
