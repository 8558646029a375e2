//! Reading a table of solo figures never panics, and what is read is written and read again.

#![no_main]

use corun_profile::{MeasuredOn, export_csv, import_csv};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let measured_on = MeasuredOn::xeon_gold_6138();
    if let Ok(profiles) = import_csv(text, "fuzz.csv", &measured_on) {
        let written = export_csv(&profiles);
        let again = import_csv(&written, "written.csv", &measured_on);
        assert_eq!(again, Ok(profiles));
    }
});
