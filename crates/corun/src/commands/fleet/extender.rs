//! `corun fleet serve-extender`: the scheduler extender over HTTP.

use std::collections::BTreeSet;
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
/// Assumptions that are remembered, so that each is said once.
const MOST_SAID: usize = 1_000;

struct Server {
    extender: Extender,
    said: Mutex<BTreeSet<String>>,
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
        while !cancel.is_set() {
            match timeout(PAUSE, listener.accept()).await {
                Ok(Ok((stream, _))) => drop(tokio::spawn(serve(stream, server.clone()))),
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
            server.say(&answer.assumed);
            reply(StatusCode::OK, answer.body)
        }
        Err(error) => {
            let text = error.report();
            eprint!("corun: {text}");
            reply(StatusCode::BAD_REQUEST, serde_json::json!({ "Error": text.trim() }).to_string())
        }
    }
}

impl Server {
    /// Each assumption once.
    fn say(&self, assumed: &[String]) {
        let Ok(mut said) = self.said.lock() else { return };
        for one in assumed {
            if said.len() >= MOST_SAID {
                said.clear();
            }
            if said.insert(one.clone()) {
                eprintln!("corun: assumed: {}", corun_linux::escape_controls_in_lines(one));
            }
        }
    }
}
