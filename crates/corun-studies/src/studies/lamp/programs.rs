//! Threads of a web server and of a database as the paper describes them. Their figures are made by
//! hand: the paper gives 74 misses per 1000 instructions of a web thread, that the database's are light and
//! wait for the disk. Requests are a fraction of the paper's three and five minutes long, and many of
//! DIO's intervals still.

use std::sync::Arc;

use corun_app::Result;
use corun_model::Model;
use corun_profile::{Io, Profile};
use corun_sim::AppSpec;

/// Time on a CPU between waits for the disk, and a wait.
const DISK: Io = Io { cpu_ms: 50.0, wait_ms: 5.0 };

/// So many web threads, then so many of the database, named `web 0`, `web 1` .. `database 0` ..
pub(crate) fn threads(model: &Arc<Model>, web: usize, database: usize) -> Result<Vec<AppSpec>> {
    let load = |text: &str, file: &str| -> Result<_> {
        Ok(Arc::new(model.load(&Profile::from_toml(text, file)?)?))
    };
    let of_web = load(include_str!("web.toml"), "web.toml")?;
    let of_database = load(include_str!("database.toml"), "database.toml")?;
    let web = (0..web)
        .map(|number| AppSpec { name: format!("web {number}"), ..AppSpec::new(of_web.clone()) });
    let database = (0..database).map(|number| AppSpec {
        name: format!("database {number}"),
        io: Some(DISK),
        ..AppSpec::new(of_database.clone())
    });
    Ok(web.chain(database).collect())
}
