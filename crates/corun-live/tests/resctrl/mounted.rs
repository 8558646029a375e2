//! resctrl on a folder of its own, as long as a test takes.

use std::path::Path;
use std::sync::{Arc, Mutex};

use fuser::BackgroundSession;

use crate::kernel::Kernel;
use crate::mount::mount;

/// A mounted resctrl.
pub(crate) struct Mounted {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) kernel: Arc<Mutex<Kernel>>,
    session: Option<BackgroundSession>,
}

impl Mounted {
    /// None, and a word about it, where FUSE is missing.
    pub(crate) fn new(kernel: Kernel) -> Option<Self> {
        if !Path::new("/dev/fuse").exists() {
            eprintln!("skipped: no /dev/fuse here");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let kernel = Arc::new(Mutex::new(kernel));
        match mount(Arc::clone(&kernel), folder.path()) {
            Ok(session) => Some(Self { folder, kernel, session: Some(session) }),
            Err(error) => {
                eprintln!(
                    "skipped: FUSE cannot mount here ({error}); fusermount3 is in package fuse3"
                );
                None
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(self.session.take());
    }
}
