//! The page in the browser: a local server of corun's answers, and the page that asks for them.
//!
//! [`Server::bind`] listens on a loopback address and [`Server::run`] answers until the user stops it. The page
//! (`page/`, built and embedded) talks to the API under `/api/v1/`, which `openapi.json` describes; both
//! ask corun-app, as the command and the Python package do. Nothing here changes the machine: what viewers ask to be done
//! goes as an [`Order`] to whoever may act, where somebody may.

#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod access;
mod api;
mod assets;
mod attached;
mod experiment;
mod live;
mod orders;
pub mod protocol;

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::response::Redirect;
use axum::routing::get;
use corun_app::Cancel;
use corun_http::{Allowance, Connections, STRANGERS, Standing, Times};
use corun_machine::Machine;
use corun_profile::Library;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tower::ServiceExt as _;

use self::access::Access;
use self::api::Desk;
pub use self::attached::Attached;
pub use self::experiment::follow_experiment;
pub use self::live::{Experiment, Live};
pub use self::orders::{ActAsked, Asker, Deed, DeedAsked, Done, Order, Orders, Undone};

/// Most bytes of a request's body where the route does not say: a machine, a mix and some profiles.
const MOST_BODY_BYTES: usize = 4 << 20;

/// Connections at a time. A browser opens six, and streams of looks among them stay open; strangers are all those whose
/// requests had no token.
const CONNECTIONS: Allowance = Allowance { strangers: STRANGERS, admitted: 64 };
/// A stranger's connection is open for so long.
const STRANGERS_TIMES: Times = Times { open: Duration::from_secs(15), last_answer: Duration::ZERO };

/// What the page starts with.
pub struct ServeOptions {
    /// Where profiles are looked up.
    pub library: Library,
    /// The machine of `--machine`, if it was given: the page offers it beside the presets.
    pub machine: Option<Machine>,
    /// The programs that the page starts with; empty: the page's own choice.
    pub apps: Vec<String>,
    /// What is observed of this machine, where something is.
    pub live: Option<Live>,
    /// The experiment that is shown as it comes in, where there is one.
    pub experiment: Option<Experiment>,
}

/// A server that listens.
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    access: Access,
    router: Router,
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address that others can reach.
    #[error(
        "--listen {0}: expected a loopback address, such as 127.0.0.1:8080; the server is for this machine alone"
    )]
    NotLoopback(SocketAddr),
    /// Nothing can listen there.
    #[error("cannot listen at {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// The kernel gave no thread, timer or random number.
    #[error("cannot start the server: {0}")]
    Start(#[from] io::Error),
}

impl Server {
    /// Listens at a loopback address; port 0 is any free one.
    ///
    /// # Errors
    /// An address that is not this machine's own, or where nothing can listen.
    pub fn bind(address: SocketAddr, options: ServeOptions) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listening = |error| ServeError::Listen(address, error);
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(listening)?;
        let access = Access::new(listener.local_addr()?)?;
        let router = router(Arc::new(Desk::new(options)), access.clone());
        Ok(Self { runtime, listener, access, router })
    }

    /// The link that opens the page, with the token.
    pub fn link(&self) -> String {
        self.access.link()
    }

    /// Answers until the user wants to stop.
    pub fn run(self, cancel: &Cancel) {
        let Self { runtime, listener, router, .. } = self;
        let (stop, stopped) = oneshot::channel();
        cancel.when_set(move || {
            let _ = stop.send(());
        });
        runtime.block_on(async {
            // The server never ends by itself: where a connection cannot be accepted, it tries again.
            tokio::spawn(async move {
                let connections = Connections::new(CONNECTIONS);
                let serving = |stream, standing| connection(stream, standing, router.clone());
                corun_http::accept(&listener, &connections, |_| {}, serving).await;
            });
            let _ = stopped.await;
        });
        // Open streams and searches do not hold up the end.
        runtime.shutdown_background();
    }
}

/// Answers the requests of a connection. Each request carries the connection's standing, for [`access::guard`].
async fn connection(stream: TcpStream, standing: Standing, router: Router) {
    let shown = standing.clone();
    let answering = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(shown.clone());
        router.clone().oneshot(request)
    });
    corun_http::serve(stream, standing, STRANGERS_TIMES, answering).await;
}

fn router(desk: Arc<Desk>, access: Access) -> Router {
    Router::new()
        .route("/", get(assets::page))
        .route("/page.js", get(assets::script))
        .route("/page.css", get(assets::style))
        .route("/favicon.ico", get(|| async { Redirect::permanent("/icon.svg") }))
        .route("/icon.svg", get(assets::icon))
        .merge(api::routes())
        .fallback(api::unknown)
        .method_not_allowed_fallback(api::other_method)
        .layer(DefaultBodyLimit::max(MOST_BODY_BYTES))
        .layer(from_fn_with_state(access, access::guard))
        .with_state(desk)
}
