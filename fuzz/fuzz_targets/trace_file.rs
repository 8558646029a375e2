//! Reading a trace never panics and keeps to its memory, and what was read is written and read again.

#![no_main]

use corun_trace::trace_file::{Access, MAGIC, TraceReader, TraceWriter, VERSION};
use libfuzzer_sys::fuzz_target;

fn accesses(bytes: &[u8]) -> Vec<Access> {
    TraceReader::new(bytes).map_or(Vec::new(), |reader| reader.map_while(Result::ok).collect())
}

fuzz_target!(|bytes: &[u8]| {
    let mut framed = MAGIC.to_vec();
    framed.extend(VERSION.to_le_bytes());
    framed.extend(bytes);
    for bytes in [bytes, &framed] {
        let read = accesses(bytes);
        let Ok(reader) = TraceReader::new(bytes) else { continue };
        let mut writer = TraceWriter::new(Vec::new(), reader.header()).expect("memory takes all");
        read.iter().for_each(|&access| writer.push(access).expect("memory takes all"));
        assert_eq!(accesses(&writer.finish(0).expect("memory takes all")), read);
    }
});
