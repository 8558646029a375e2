//! Serves the metrics to clients that may be slow, many, or no clients at all.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use corun_http::{Allowance, Connections, STRANGERS, Times};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::TcpListener;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::metrics::Metrics;
use corun_app::Result;

/// For a whole connection.
const TIMES: Times = Times { open: Duration::from_secs(15), last_answer: Duration::ZERO };
/// Until the next try where nothing can be listened to.
const PAUSE: Duration = Duration::from_secs(1);

const CONTENT: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Where readers of the metrics come from.
pub(crate) enum Readers {
    /// A socket that systemd listens to for the daemon, which has no network of its own.
    Passed(std::net::TcpListener),
    /// An address of this machine.
    At(SocketAddr),
}

/// Serves the metrics from a thread of its own until the process ends. An address that is taken is tried
/// again until it is free.
///
/// # Errors
/// When the kernel gives no thread.
pub(crate) fn serve(metrics: Arc<Metrics>, readers: Readers) -> Result {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let serving = move || {
        runtime.block_on(async move {
            let listener = match readers {
                Readers::Passed(listener) => adopted(listener),
                Readers::At(at) => Ok(listen(at).await),
            };
            match listener {
                Ok(listener) => accept(&listener, &metrics).await,
                Err(error) => warn!(%error, "metrics are not served"),
            }
        });
    };
    std::thread::Builder::new().name("metrics".to_owned()).spawn(serving)?;
    Ok(())
}

/// Why nothing can listen at an address now; none where something can.
pub(crate) fn obstacle(at: SocketAddr) -> Option<io::Error> {
    std::net::TcpListener::bind(at).err()
}

fn adopted(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    let own = TcpListener::from_std(listener)?;
    info!(address = %own.local_addr()?, "metrics at /metrics, from systemd's socket");
    Ok(own)
}

async fn listen(at: SocketAddr) -> TcpListener {
    let mut told = false;
    loop {
        match TcpListener::bind(at).await {
            Ok(listener) => {
                // Port 0 leaves the choice to the kernel.
                let own = listener.local_addr().unwrap_or(at);
                info!(address = %own, "metrics at /metrics");
                return listener;
            }
            Err(error) if !told => {
                warn!(address = %at, %error, "metrics are not served until the address is free");
                told = true;
            }
            Err(_) => {}
        }
        sleep(PAUSE).await;
    }
}

async fn accept(listener: &TcpListener, metrics: &Arc<Metrics>) {
    let connections = Connections::new(Allowance { strangers: STRANGERS, admitted: 0 });
    let mut told = false;
    let failed = |error: Option<io::Error>| {
        let was_told = std::mem::replace(&mut told, error.is_some());
        if let Some(error) = error.filter(|_| !was_told) {
            warn!(%error, "a reader of the metrics was not served");
        }
    };
    corun_http::accept(listener, &connections, failed, |stream, standing| {
        let metrics = metrics.clone();
        let page = service_fn(move |request| {
            let response = response(&request, &metrics);
            async move { Ok::<_, Infallible>(response) }
        });
        corun_http::serve(stream, standing, TIMES, page)
    })
    .await;
}

fn response(request: &Request<Incoming>, metrics: &Metrics) -> Response<Full<Bytes>> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, metrics.text()),
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, String::new()),
        _ => (StatusCode::NOT_FOUND, String::new()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, CONTENT);
    response
}
