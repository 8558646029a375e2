//! Why a question has no answer, as a document.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use corun_app::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

/// For the body of a request: what a browser sends comes over this machine, or through a tunnel of SSH.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(60);

/// What of a question is wrong, so that the page can say so where it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Part {
    Machine,
    Mix,
    Profiles,
    Programs,
    Placement,
    Policy,
    Recordings,
    Sweep,
    Live,
    Act,
    Request,
    Server,
}

/// The document of a failure.
#[derive(Debug, Serialize)]
pub(crate) struct Failure {
    error: Fault,
    #[serde(skip)]
    status: Option<StatusCode>,
}

#[derive(Debug, Serialize)]
struct Fault {
    part: Part,
    message: String,
    hints: Vec<String>,
}

impl Failure {
    pub(crate) fn new(part: Part, message: impl Into<String>) -> Self {
        let error = Fault { part, message: message.into(), hints: Vec::new() };
        Self { error, status: None }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.error.hints.push(hint.into());
        self
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }

    /// Of a question's part.
    pub(crate) fn of(part: Part) -> impl Fn(Error) -> Self {
        move |error| match error {
            Error::Input { message, hints } => {
                let mut failure = Self::new(part, message);
                failure.error.hints = hints;
                failure
            }
            Error::Interrupted => Self::new(part, "stopped: nobody waits for the answer"),
            other => Self::new(Part::Server, other.report().trim_end()),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = self.status.unwrap_or(match self.error.part {
            Part::Server => StatusCode::INTERNAL_SERVER_ERROR,
            Part::Live => StatusCode::NOT_FOUND,
            Part::Request => StatusCode::BAD_REQUEST,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        });
        (status, Json(self)).into_response()
    }
}

/// The body of a request as JSON; a failure is a [`Failure`] too.
pub(crate) struct Asked<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Asked<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let reading = Json::from_request(request, state);
        let Ok(read): Result<Result<Json<T>, JsonRejection>, _> = timeout(BODY_TIME, reading).await
        else {
            let late = format!("the body did not come within {} s", BODY_TIME.as_secs());
            return Err(Failure::new(Part::Request, late).with_status(StatusCode::REQUEST_TIMEOUT));
        };
        read.map(|Json(asked)| Self(asked)).map_err(|rejected| {
            Failure::new(Part::Request, rejected.body_text()).with_status(rejected.status())
        })
    }
}

/// A path that there is not.
pub(crate) async fn unknown() -> Failure {
    Failure::new(Part::Request, "no such page")
        .hint("/, /api/v1/openapi.json")
        .with_status(StatusCode::NOT_FOUND)
}

/// A path that there is, asked by another method than it takes.
pub(crate) async fn other_method() -> Failure {
    Failure::new(Part::Request, "this path takes another method")
        .hint("/api/v1/openapi.json")
        .with_status(StatusCode::METHOD_NOT_ALLOWED)
}
