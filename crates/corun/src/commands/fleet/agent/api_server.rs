//! What an agent asks of the API server.

use std::io::Write as _;

use anyhow::Context as _;
use corun_app::Cancel;
use tempfile::NamedTempFile;

use super::super::kubectl::kubectl;
use crate::failure::Outcome;

/// The API server, as an agent of one node sees it.
pub(super) trait ApiServer {
    /// The list of the node's pods, as JSON.
    fn pods(&mut self) -> Outcome<Vec<u8>>;

    /// The node's object, as JSON.
    fn node(&mut self) -> Outcome<Vec<u8>>;

    /// Changes the node's object by a merge patch.
    fn patch_node(&mut self, patch: &str) -> Outcome;
}

/// The API server that `kubectl` knows.
pub(super) struct Kubectl {
    pub(super) node: String,
    pub(super) cancel: Cancel,
}

impl ApiServer for Kubectl {
    fn pods(&mut self) -> Outcome<Vec<u8>> {
        // The API server answers this from its own memory (resourceVersion=0), as it does for kubelets.
        let query =
            format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{}&resourceVersion=0", self.node);
        kubectl(&["get", "--raw", &query], &self.cancel)
    }

    fn node(&mut self) -> Outcome<Vec<u8>> {
        kubectl(&["get", "--raw", &format!("/api/v1/nodes/{}", self.node)], &self.cancel)
    }

    fn patch_node(&mut self, patch: &str) -> Outcome {
        let mut file = NamedTempFile::new()?;
        file.write_all(patch.as_bytes())?;
        let path = file.path().to_str().context("the folder for temporary files is no text")?;
        let words = ["patch", "node", &self.node, "--patch-file", path];
        kubectl(&words, &self.cancel).map(drop)
    }
}
