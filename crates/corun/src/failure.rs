//! How a command ends: the names that its modules use for the errors of `corun-app`.

pub(crate) use corun_app::Error as Failure;

/// What every command returns.
pub(crate) type Outcome<T = ()> = corun_app::Result<T>;
