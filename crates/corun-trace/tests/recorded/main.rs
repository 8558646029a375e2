//! Programs under the real plug-in, where QEMU's user mode is installed.

mod outputs;
mod processes;
mod rights;
mod static_programs;
mod trace;
