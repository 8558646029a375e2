//! Errors as Python exceptions, with the texts of the command.

use corun_compare::Error;
use corun_runtime::RuntimeError;
use corun_sim::SimError;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::{PyErr, import_exception};

import_exception!(corun.errors, InputError);
import_exception!(corun.errors, FailedError);
import_exception!(corun.errors, PolicyError);

/// The exception for what went wrong. What a Python policy raised comes out as it is.
pub(crate) fn raised(error: Error) -> PyErr {
    match error {
        Error::Input { message, hints } => InputError::new_err((message, hints)),
        Error::Stopped => PyKeyboardInterrupt::new_err(()),
        Error::Failed(why) => match why.downcast::<PyErr>() {
            Ok(own) => *own,
            Err(why) => {
                let by_action = matches!(why.downcast_ref(), Some(SimError::Action { .. }));
                let by_policy = matches!(why.downcast_ref(), Some(RuntimeError::Policy { .. }));
                if by_action || by_policy {
                    PolicyError::new_err(why.to_string())
                } else {
                    FailedError::new_err(in_full(why.as_ref()))
                }
            }
        },
    }
}

/// An error and what caused it, as the command prints them.
fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        text.push_str(&format!(": {one}"));
        cause = one.source();
    }
    text
}

/// Bad input, from any error that corun-compare knows.
pub(crate) fn bad<E: Into<Error>>(error: E) -> PyErr {
    raised(error.into())
}

/// A document as JSON text.
pub(crate) fn json<T: serde::Serialize>(document: &T) -> Result<String, PyErr> {
    serde_json::to_string(document).map_err(|error| FailedError::new_err(error.to_string()))
}
