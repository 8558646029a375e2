//! `corun fleet serve-extender`: the scheduler extender over HTTP.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use corun_app::{Cancel, find_machine, open_library};
use corun_fleet::{Extender, ExtenderAnswer, Seats};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::now_s;
use crate::cli::{ServeExtenderArgs, model_options};
use crate::failure::Outcome;

/// The largest request: 5000 nodes of 16 KiB.
const MOST_BYTES: usize = 80 << 20;
/// For the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// For a request's body.
const BODY_TIME: Duration = Duration::from_secs(30);
/// How often it is looked whether to stop.
const PAUSE: Duration = Duration::from_millis(100);
/// Connections at a time; others wait. Each holds a request of up to [`MOST_BYTES`] in memory.
const MOST_CONNECTIONS: usize = 16;
/// Lines of the log that are remembered, so that none is said twice; the oldest are forgotten first.
const MOST_SAID: usize = 20_000;
/// New lines that one answer adds to the log at most.
const MOST_LINES: usize = 20;

struct Server {
    extender: Extender,
    said: Mutex<Said>,
}

/// Lines of the log.
#[derive(Default)]
struct Said {
    lines: BTreeSet<Arc<str>>,
    /// The same, the oldest first.
    order: VecDeque<Arc<str>>,
}

impl Said {
    /// Is a line said for the first time? It is remembered.
    fn is_new(&mut self, line: &str) -> bool {
        if self.lines.contains(line) {
            return false;
        }
        if self.order.len() >= MOST_SAID
            && let Some(oldest) = self.order.pop_front()
        {
            self.lines.remove(&oldest);
        }
        let line: Arc<str> = line.into();
        self.order.push_back(line.clone());
        self.lines.insert(line)
    }
}

pub(super) fn run(arguments: &ServeExtenderArgs) -> Outcome<String> {
    let library = open_library(arguments.library.profiles.as_deref())?;
    let seats = if arguments.threads { Seats::Threads } else { Seats::Cores };
    let mut machines = Vec::new();
    for name in &arguments.machine {
        let machine = find_machine(name)?;
        machines.push((machine.name().to_owned(), machine, seats));
    }
    let options = model_options(&arguments.model);
    let extender = Extender::new(machines, &library, options, arguments.oldest)?;
    let server = Arc::new(Server { extender, said: Mutex::default() });
    let cancel = Cancel::on_signal()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = TcpListener::bind(arguments.listen)
            .await
            .with_context(|| format!("cannot listen at {}", arguments.listen))?;
        eprintln!("corun: /filter and /prioritize at http://{}", listener.local_addr()?);
        let connections = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        while !cancel.is_set() {
            let Ok(free) = timeout(PAUSE, connections.clone().acquire_owned()).await else {
                continue;
            };
            match timeout(PAUSE, listener.accept()).await {
                Ok(Ok((stream, _))) => {
                    let serving = serve(stream, server.clone());
                    drop(tokio::spawn(async move {
                        serving.await;
                        drop(free);
                    }));
                }
                // All descriptors are in use, or the client is gone already.
                Ok(Err(_)) => sleep(PAUSE).await,
                Err(_) => {}
            }
        }
        Ok(String::new())
    })
}

/// What goes wrong with a client is the client's.
async fn serve(stream: TcpStream, server: Arc<Server>) {
    let page = service_fn(move |request| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(answer(request, &server).await) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    let _ = http.serve_connection(TokioIo::new(stream), page).await;
}

async fn answer(request: Request<Incoming>, server: &Server) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let reply = |status, text: String| {
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    };
    let question: fn(&Extender, &[u8], u64) -> corun_app::Result<ExtenderAnswer> =
        match (request.method(), path.as_str()) {
            (&Method::GET, "/healthz") => return reply(StatusCode::OK, "\"ok\"".to_owned()),
            (&Method::POST, "/filter") => Extender::filter,
            (&Method::POST, "/prioritize") => Extender::prioritize,
            _ => return reply(StatusCode::NOT_FOUND, "\"no such path\"".to_owned()),
        };
    let body =
        match timeout(BODY_TIME, Limited::new(request.into_body(), MOST_BYTES).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            _ => return reply(StatusCode::BAD_REQUEST, "\"no whole body\"".to_owned()),
        };
    match question(&server.extender, &body, now_s()) {
        Ok(answer) => {
            let lines = answer.assumed.iter().map(|one| format!("assumed: {one}"));
            server.say(&lines.collect::<Vec<_>>());
            reply(StatusCode::OK, answer.body)
        }
        Err(error) => {
            let text = error.report();
            server.say(&[text.trim().to_owned()]);
            reply(StatusCode::BAD_REQUEST, serde_json::json!({ "Error": text.trim() }).to_string())
        }
    }
}

impl Server {
    /// Says what has not been said before.
    fn say(&self, lines: &[String]) {
        let Ok(mut said) = self.said.lock() else { return };
        let new: Vec<&String> = lines.iter().filter(|line| said.is_new(line)).collect();
        for line in new.iter().take(MOST_LINES) {
            eprintln!("corun: {}", corun_linux::escape_controls_in_lines(line));
        }
        if new.len() > MOST_LINES {
            eprintln!("corun: and {} assumptions more", new.len() - MOST_LINES);
        }
    }
}
