//! Packed micro-traces: any input is unpacked within the stated limits or refused, never a panic, and what was
//! unpacked is packed and unpacked to the same traces. Each input is tried three times: as base64 text, as the bytes
//! behind the text, and as the fields behind the compression.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use corun_profile::{MOST_MICRO_TRACES, MOST_TRACED_INSTRUCTIONS, MicroTraces};
use libfuzzer_sys::fuzz_target;

fn unpack(text: &str) {
    match MicroTraces::from_base64(text).and_then(|packed| packed.unpack()) {
        Ok(traces) => {
            assert!(traces.len() <= MOST_MICRO_TRACES);
            assert!(traces.iter().all(|trace| trace.len() <= MOST_TRACED_INSTRUCTIONS));
            let again = MicroTraces::pack_quickly(&traces).to_base64();
            let again = MicroTraces::from_base64(&again).expect("what is written is read");
            assert_eq!(again.unpack(), Ok(traces));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        unpack(text);
    }
    unpack(&STANDARD.encode(bytes));
    let fields = zstd::bulk::compress(bytes, 1).expect("memory takes all");
    unpack(&STANDARD.encode(fields));
});
