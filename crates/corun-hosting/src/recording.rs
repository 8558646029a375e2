//! A recording of `corun record`, to be looked at in the place of the machine.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use corun_app::{Error, Result, tell};
use corun_live::LiveRecording;

/// A recording, read and checked whole; a note on stderr where it breaks off.
///
/// # Errors
/// Bad input where the file cannot be read, or is no recording.
pub fn load_recording(path: &Path) -> Result<LiveRecording> {
    let shown = path.display();
    let wrong = |what: &dyn std::fmt::Display| Error::input(format!("{shown}: {what}"));
    let file = File::open(path).map_err(|error| wrong(&error))?;
    let recording = LiveRecording::read(BufReader::new(file)).map_err(|error| wrong(&error))?;
    if recording.is_broken_off() {
        tell(format_args!("note: {shown} ends within a line, which is left out"));
    }
    Ok(recording)
}
