//! Connections to corun's servers: the daemon's metrics, the scheduler extender, the page.
//!
//! Whoever can reach an address can open connections there and say nothing. Each holds a descriptor and memory of the process
//! that serves it. So there are only so many at a time, one more ends the oldest, and each has to say what it wants in time.
//! A server that asks who its clients are keeps those who showed it ([`Standing::admit`]) apart from all others, so that
//! strangers cannot end the connections of clients who may ask.

#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod connections;

use std::error::Error;
use std::io;
use std::pin::pin;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::service::HttpService;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

pub use self::connections::{Allowance, Connections, Standing};

/// Connections of strangers at a time.
pub const STRANGERS: usize = 16;
/// For the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Bytes of the head of a request at most.
const MOST_HEAD_BYTES: usize = 64 << 10;
/// Until the next try where no connection can be accepted: all descriptors are in use, or the client is gone already.
const PAUSE: Duration = Duration::from_millis(200);

/// How long a stranger's connection may be open.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// For so long it takes requests.
    pub open: Duration,
    /// Then for the answer that is under way, so that who does not read it holds up others no longer.
    pub last_answer: Duration,
}

/// Serves connections until the future is dropped. `failed` is told of each connection that could not be accepted.
pub async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: &TcpListener,
    connections: &Connections,
    mut failed: impl FnMut(Option<io::Error>),
    serve: impl Fn(TcpStream, Standing) -> F,
) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                failed(None);
                connections.spawn(|standing| serve(stream, standing)).await;
            }
            Err(error) => {
                failed(Some(error));
                sleep(PAUSE).await;
            }
        }
    }
}

/// Answers the requests of a connection. That of a stranger ends by `times`; one that was admitted is open for as long as
/// the client asks. What goes wrong with a client is the client's.
pub async fn serve<S, B>(stream: TcpStream, standing: Standing, times: Times, service: S)
where
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(MOST_HEAD_BYTES);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    if timeout(times.open, connection.as_mut()).await.is_ok() {
        return;
    }
    if standing.is_admitted() {
        let _ = connection.await;
        return;
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(times.last_answer, connection).await;
}

#[cfg(test)]
mod tests;
