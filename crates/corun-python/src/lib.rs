//! The native part of the Python package `corun`: what Python calls `corun._corun`.
//!
//! It translates and nothing more: what is computed stands in the other crates, what a Python user
//! sees in `python/corun`. Documents cross as JSON text.

mod comparison;
mod dry_run;
mod errors;
mod input;
mod interruptible;
mod machine;
mod mix;
mod model;
mod options;
mod partition;
mod placement;
mod plan;
mod policy;
mod profile;
mod run;
mod search;
mod sweep;
mod view;

use pyo3::prelude::*;

/// The native part of corun.
#[pymodule]
mod _corun {
    #[pymodule_export]
    use super::comparison::{Comparison, compare};
    #[pymodule_export]
    use super::dry_run::dry_run;
    #[pymodule_export]
    use super::machine::{Llc, Machine, Node, presets};
    #[pymodule_export]
    use super::mix::Mix;
    #[pymodule_export]
    use super::model::Model;
    #[pymodule_export]
    use super::options::ModelOptions;
    #[pymodule_export]
    use super::partition::partition;
    #[pymodule_export]
    use super::placement::{place, predict};
    #[pymodule_export]
    use super::policy::check_policy;
    #[pymodule_export]
    use super::profile::{Library, Profile};
    #[pymodule_export]
    use super::run::{Run, simulate};
    #[pymodule_export]
    use super::search::{Searcher, SharedSearch};
    #[pymodule_export]
    use super::sweep::{Sweep, SweepRunner};
    #[pymodule_export]
    use super::view::{Counted, Counters, Event, SoloFigures, Thread, View, WaysPoint};

    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        corun_app::keep_replays();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
