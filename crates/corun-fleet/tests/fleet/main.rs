//! Nodes for programs: placement against brute force, Kubernetes' requests, pods' monitoring groups.

mod extender;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../../../corun-live/tests/resctrl/kernel.rs"]
mod kernel;
mod learned;
mod monitoring;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../../../corun-live/tests/resctrl/mount.rs"]
mod mount;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../../../corun-live/tests/resctrl/mounted.rs"]
mod mounted;
mod placing;
#[path = "../../../corun-optimal/tests/optimal/programs.rs"]
mod programs;
