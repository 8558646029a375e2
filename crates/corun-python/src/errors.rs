//! Errors as Python exceptions, with the texts of the command.

use corun_app::Error;
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
        Error::Interrupted => PyKeyboardInterrupt::new_err(()),
        Error::Failed(why) => match why.downcast::<PyErr>() {
            Ok(own) => own,
            Err(why) => {
                let by_action = matches!(why.downcast_ref(), Some(SimError::Action { .. }));
                let by_policy = matches!(why.downcast_ref(), Some(RuntimeError::Policy { .. }));
                if by_action || by_policy {
                    PolicyError::new_err(why.to_string())
                } else {
                    FailedError::new_err(format!("{why:#}"))
                }
            }
        },
        other => FailedError::new_err(other.to_string()),
    }
}

/// Bad input, from any error that corun-app knows.
pub(crate) fn bad<E: Into<Error>>(error: E) -> PyErr {
    raised(error.into())
}

/// A document as JSON text.
pub(crate) fn json<T: serde::Serialize>(document: &T) -> Result<String, PyErr> {
    serde_json::to_string(document).map_err(|error| FailedError::new_err(error.to_string()))
}
