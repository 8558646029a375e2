//! Any bytes are a recording that a policy can be asked about and that is kept whole when it is
//! recorded again, or an error; never a panic.
#![no_main]

use std::sync::Arc;

use corun_linux::Roots;
use corun_live::{
    DryRunActuator, Host, HostOptions, LiveRecording, PlacementActuator, RecordedThreads,
    RecordingSource, RecordingWriter,
};
use corun_policy::{BuildOptions, build};
use libfuzzer_sys::fuzz_target;

/// What a host that plays it sees, as a recording.
fn again(recording: Arc<LiveRecording>) -> Option<Vec<u8>> {
    let nowhere = Roots { sys: "/nonexistent".into(), ..Roots::default() };
    let threads = RecordedThreads::new(recording.clone());
    let source = RecordingSource::new(threads.playback());
    let host = Host::new(
        recording.machine().clone(),
        vec![build("dio", &BuildOptions::default()).expect("it is in the registry")],
        Box::new(threads),
        vec![Box::new(source)],
        vec![Box::new(PlacementActuator::new(&nowhere)), Box::new(DryRunActuator::default())],
        nowhere,
        HostOptions::default(),
    );
    // One without the counters that the policy needs.
    let mut host = host.ok()?;
    let mut text = Vec::new();
    let mut recorder =
        RecordingWriter::new(&mut text, &host, recording.interval_s()).expect("memory takes all");
    for at in recording.times() {
        let tick = host.tick_at(at).expect("what was read can be played");
        recorder.sample(&host, &tick).expect("memory takes all");
    }
    drop(recorder);
    Some(text)
}

fuzz_target!(|bytes: &[u8]| {
    let recording = match LiveRecording::read(bytes) {
        Ok(recording) => recording,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    if let Some(once) = again(Arc::new(recording)) {
        let read = LiveRecording::read(&once[..]).expect("what was written is read");
        let twice = again(Arc::new(read)).expect("it has the same counters");
        assert_eq!(String::from_utf8_lossy(&twice), String::from_utf8_lossy(&once));
    }
});
