//! Any bytes are a recording that a policy can be asked about, that is kept whole when it is recorded again, and that
//! did not change against itself, or an error; never a panic.
#![no_main]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use corun_app::compare_recordings;
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

/// Sets a recording beside itself.
fn compare(bytes: &[u8]) {
    let read = || LiveRecording::read(bytes).expect("it was read before");
    let never = AtomicBool::new(false);
    let Ok(compared) = compare_recordings(read(), read(), &never) else { return };
    assert_eq!(compared.before, compared.after);
    for figure in compared.programs.iter().flat_map(|program| &program.figures) {
        assert!(figure.before.is_none_or(f64::is_finite), "{figure:?}");
        assert!(figure.change_percent.is_none_or(|change| change == 0.0), "{figure:?}");
        assert!(figure.low_percent.is_none_or(|low| low <= 0.0), "{figure:?}");
        assert!(figure.high_percent.is_none_or(|high| high >= 0.0), "{figure:?}");
        assert_eq!(figure.before_parts, figure.after_parts);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let recording = match LiveRecording::read(bytes) {
        Ok(recording) => recording,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    compare(bytes);
    if let Some(once) = again(Arc::new(recording)) {
        let read = LiveRecording::read(&once[..]).expect("what was written is read");
        let twice = again(Arc::new(read)).expect("it has the same counters");
        assert_eq!(String::from_utf8_lossy(&twice), String::from_utf8_lossy(&once));
    }
});
