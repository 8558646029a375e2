//! The API under `/api/v1/`, which `openapi.json` beside the crate describes: each route, and each field but those of
//! the documents that the commands print too, which docs/json.md describes. A test holds description and answers
//! against each other.

mod act;
mod answer;
mod compare;
mod lists;
mod question;
mod recordings;
mod sweep;
mod what_if;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::Json;
use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::sync::{Semaphore, watch};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::WatchStream;

pub(crate) use self::answer::{Failure, Part, other_method, unknown};
use self::question::Scenarios;
use crate::ServeOptions;

/// The description of this API.
pub(crate) const OPENAPI: &str = include_str!("../../openapi.json");

/// Long answers that are worked on at a time; who asks for more waits.
const LONG_ANSWERS: usize = 1;

/// All that answers are made of.
pub(crate) struct Desk {
    pub(crate) options: ServeOptions,
    scenarios: Scenarios,
    long_answers: Semaphore,
}

impl Desk {
    pub(crate) fn new(options: ServeOptions) -> Self {
        Self {
            options,
            scenarios: Scenarios::default(),
            long_answers: Semaphore::new(LONG_ANSWERS),
        }
    }
}

/// All routes, in the order of the description.
pub(crate) fn routes() -> Router<Arc<Desk>> {
    Router::new()
        .route("/api/v1/session", get(lists::session))
        .route("/api/v1/machines", get(lists::machines))
        .route("/api/v1/programs", get(lists::programs))
        .route("/api/v1/policies", get(lists::policies))
        .route("/api/v1/machine", post(lists::machine))
        .route("/api/v1/mix", post(lists::mix))
        .route("/api/v1/profile", post(lists::profile))
        .route("/api/v1/predict", post(what_if::predict))
        .route("/api/v1/place", post(what_if::place))
        .route("/api/v1/program", post(what_if::program))
        .route("/api/v1/compare", post(compare::compare))
        .route(
            "/api/v1/recordings",
            post(recordings::recordings).layer(DefaultBodyLimit::max(recordings::MOST_BODY_BYTES)),
        )
        .route(
            "/api/v1/sweep",
            post(sweep::sweep).layer(DefaultBodyLimit::max(sweep::MOST_BODY_BYTES)),
        )
        .route("/api/v1/live", get(live))
        .route("/api/v1/experiment", get(experiment))
        .route("/api/v1/act", post(act::act))
        .route("/api/v1/openapi.json", get(description))
}

async fn description() -> Response {
    ([(CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

/// Looks at this machine as they come, one event each.
async fn live(State(desk): State<Arc<Desk>>) -> Result<Response, Failure> {
    let Some(live) = &desk.options.live else {
        let hint = "corun serve says at its start why this machine cannot be looked at";
        return Err(Failure::new(Part::Live, "nothing is observed").hint(hint));
    };
    let (looks, viewing) = live.viewer();
    Ok(events(looks, viewing))
}

/// An experiment's progress as it comes in, all of it in each event.
async fn experiment(State(desk): State<Arc<Desk>>) -> Result<Response, Failure> {
    let Some(experiment) = &desk.options.experiment else {
        return Err(
            Failure::new(Part::Live, "no experiment is shown").hint("corun serve --ab FILE")
        );
    };
    Ok(events(experiment.progress(), ()))
}

/// Documents as they come, one event each. `viewing` is dropped after them.
fn events<T: Send + 'static>(documents: watch::Receiver<Arc<str>>, viewing: T) -> Response {
    let documents = WatchStream::new(documents).filter(|document| !document.is_empty());
    let events = documents.map(move |document| {
        let _ = &viewing;
        Ok::<_, Infallible>(Event::default().data(&*document))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

/// Work that takes a moment, off the thread that answers. When nobody waits for the answer any more, the flag
/// is set.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> Result<T, Failure> + Send + 'static,
) -> Result<Json<T>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let _asked = SetWhenDropped(stop.clone());
    let done = tokio::task::spawn_blocking(move || work(&stop)).await;
    let failed = |_| Failure::new(Part::Server, "the answer failed: this is a fault of corun");
    done.map_err(failed)?.map(Json)
}

struct SetWhenDropped(Arc<AtomicBool>);

impl Drop for SetWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}
