//! An experiment's progress as a file that others read while the experiment goes on: a line of JSON about it, one after each
//! pair of blocks, and the result.

use std::fs::File;
use std::io::Write as _;

use corun_app::tell;
use corun_linux::Noise;
use corun_live::ab::{Conclusion, PairProgress};
use serde::Serialize;

use super::document::{About, PairLine, document};
use crate::cli::AbArgs;
use crate::failure::{Failure, Outcome};

/// The file; none where nobody asked for one.
pub(super) struct Progress(Option<File>);

impl Progress {
    /// Begins the file anew, before anything is changed.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub(super) fn begin(arguments: &AbArgs) -> Outcome<Self> {
        let Some(path) = &arguments.progress else { return Ok(Self(None)) };
        let shown = path.display();
        let cannot = |error| Failure::input(format!("--progress {shown}: {error}"));
        let mut file = File::create(path).map_err(cannot)?;
        file.write_all(&line(&About::new(arguments))).map_err(cannot)?;
        Ok(Self(Some(file)))
    }

    /// After a pair of blocks.
    pub(super) fn pair(&mut self, progress: &PairProgress) {
        self.write(&PairLine::from(progress));
    }

    pub(super) fn end(&mut self, conclusion: &Conclusion, load: Option<Noise>, arguments: &AbArgs) {
        self.write(&document(conclusion, load, arguments));
    }

    /// A line in one write, so that a reader finds whole lines. A full disk ends no experiment.
    fn write(&mut self, value: &impl Serialize) {
        if let Some(file) = &mut self.0
            && let Err(error) = file.write_all(&line(value))
        {
            tell(format_args!("--progress: {error}; nothing more is written there"));
            self.0 = None;
        }
    }
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}
