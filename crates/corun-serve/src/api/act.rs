//! Acting on this machine, where the server was started with `--act`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use tokio::time::timeout;

use super::Desk;
use super::answer::{Asked, Failure, Part};
use crate::live::Live;
use crate::orders::{ActAsked, Done, Undone};

/// For an order to be carried out. An order that waits longer is not begun.
const ANSWER_TIME: Duration = Duration::from_secs(20);

pub(crate) async fn act(
    State(desk): State<Arc<Desk>>,
    Asked(asked): Asked<ActAsked>,
) -> Result<Json<Done>, Failure> {
    let refused = |why: String| Failure::new(Part::Act, why);
    let live = desk.options.live.as_ref();
    let Some(asker) = live.and_then(Live::asker) else {
        let why = "this page only looks: corun serve was started without --act";
        return Err(refused(why.to_owned()).with_status(StatusCode::FORBIDDEN));
    };
    let deed = asked.deed.read().map_err(refused)?;
    let silent = || {
        let why = "corun no longer acts: nothing was done by this request";
        refused(why.to_owned()).with_status(StatusCode::SERVICE_UNAVAILABLE)
    };
    let answered = asker.ask(asked.seen, deed).ok_or_else(silent)?;
    match timeout(ANSWER_TIME, answered).await {
        Ok(Ok(Ok(done))) => Ok(Json(done)),
        Ok(Ok(Err(why @ Undone::Outdated))) => {
            Err(refused(why.to_string()).with_status(StatusCode::CONFLICT))
        }
        Ok(Ok(Err(why))) => Err(refused(why.to_string())),
        Ok(Err(_)) => Err(silent()),
        Err(_) => {
            let why = "corun does not answer: what is shown next tells whether it was done";
            Err(refused(why.to_owned()).with_status(StatusCode::GATEWAY_TIMEOUT))
        }
    }
}
