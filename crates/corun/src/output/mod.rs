//! What leaves the process: the names of `corun-report` that the live commands use.

pub(crate) use corun_report::{
    Align, check_target, counted, csv_rows, json, print, round, table, write_file,
};
