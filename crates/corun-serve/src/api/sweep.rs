//! The results of a sweep, as the page filters them.

use axum::Json;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use corun_sweep::{SweepRow, rows_of_bytes};
use serde::{Deserialize, Serialize};

use super::answer::{Asked, Failure, Part};
use super::off_thread;

/// Most bytes of a request: a file of 48 MiB in base64.
pub(super) const MOST_BODY_BYTES: usize = 64 << 20;
/// Rows that a page can filter while somebody types.
const MOST_ROWS: usize = 200_000;

/// The Parquet file that `corun sweep` wrote.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SweepAsked {
    /// Its bytes, in base64.
    parquet: String,
}

/// What the file says.
#[derive(Debug, Serialize)]
pub(crate) struct SweepAnswer {
    rows: Vec<SweepEntry>,
}

/// A row without its list of programs and its hashes.
#[derive(Debug, Serialize)]
struct SweepEntry {
    machine: String,
    mix: String,
    policy: String,
    kind: String,
    seed: Option<u64>,
    mean_slowdown: Option<f64>,
    stp: Option<f64>,
    unfairness: Option<f64>,
    worst_slowdown: Option<f64>,
    migrations: Option<f64>,
    error: Option<String>,
}

impl From<SweepRow> for SweepEntry {
    fn from(row: SweepRow) -> Self {
        let SweepRow { machine, mix, policy, kind, seed, mean_slowdown, stp, .. } = row;
        let SweepRow { unfairness, worst_slowdown, migrations, error, .. } = row;
        Self {
            machine,
            mix,
            policy,
            kind,
            seed,
            mean_slowdown,
            stp,
            unfairness,
            worst_slowdown,
            migrations,
            error,
        }
    }
}

pub(crate) async fn sweep(Asked(asked): Asked<SweepAsked>) -> Result<Json<SweepAnswer>, Failure> {
    off_thread(move |_| {
        let wrong = |why: String| Failure::new(Part::Sweep, why);
        let bytes = BASE64_STANDARD
            .decode(asked.parquet)
            .map_err(|error| wrong(format!("the file's bytes are no base64: {error}")))?;
        let rows = rows_of_bytes(bytes).map_err(Failure::of(Part::Sweep))?;
        if rows.len() > MOST_ROWS {
            let found = rows.len();
            return Err(wrong(format!("{found} rows: at most {MOST_ROWS} can be filtered here"))
                .hint("the file opens in pandas, polars and DuckDB (docs/scaling.md)"));
        }
        Ok(SweepAnswer { rows: rows.into_iter().map(SweepEntry::from).collect() })
    })
    .await
}
