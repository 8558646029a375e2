//! The scheduler extender over HTTP.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use corun_app::{Cancel, Result, tell};
use corun_http::{Allowance, Connections, STRANGERS, Standing, Times};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::{Extender, ExtenderAnswer};
use crate::now_s;

/// The largest request: 5000 nodes of 16 KiB.
const MOST_BYTES: usize = 80 << 20;
/// For a request's body.
const BODY_TIME: Duration = Duration::from_secs(30);
/// How long a connection takes requests, and then waits for the answer that is under way.
const TIMES: Times = Times { open: Duration::from_secs(120), last_answer: Duration::from_secs(60) };
/// How often it is looked whether to stop.
const PAUSE: Duration = Duration::from_millis(100);
/// Lines of the log that are remembered, so that none is said twice; the oldest are forgotten first.
const MOST_SAID: usize = 20_000;
/// Refused requests of which the log tells, in a minute.
const MOST_REFUSED: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// New lines that one answer adds to the log at most.
const MOST_LINES: usize = 20;

struct Server {
    extender: Extender,
    said: Mutex<Said>,
    refused: Mutex<Refused>,
}

/// Requests that were refused in the minute that began then.
#[derive(Default)]
struct Refused {
    since: Option<Instant>,
    count: usize,
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

/// Answers a cluster's scheduler at an address until the user wants to stop. What is assumed or wrong is said on stderr, each
/// line once.
///
/// # Errors
/// Where nothing can listen there.
pub fn serve_extender(extender: Extender, at: SocketAddr, cancel: &Cancel) -> Result {
    let server = Arc::new(Server { extender, said: Mutex::default(), refused: Mutex::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener =
            TcpListener::bind(at).await.with_context(|| format!("cannot listen at {at}"))?;
        tell(format_args!("/filter and /prioritize at http://{}", listener.local_addr()?));
        accept(&listener, &server, cancel).await;
        Ok(())
    })
}

async fn accept(listener: &TcpListener, server: &Arc<Server>, cancel: &Cancel) {
    // Each holds a request of up to `MOST_BYTES` in memory.
    let connections = Connections::new(Allowance { strangers: STRANGERS, admitted: 0 });
    let serving = |stream, standing| serve(stream, standing, server.clone(), TIMES);
    let mut serving = pin!(corun_http::accept(listener, &connections, |_| {}, serving));
    while !cancel.is_set() {
        let _ = timeout(PAUSE, serving.as_mut()).await;
    }
}

async fn serve(stream: TcpStream, standing: Standing, server: Arc<Server>, times: Times) {
    let page = service_fn(move |request| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(answer(request, &server).await) }
    });
    corun_http::serve(stream, standing, times, page).await;
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
    let question: fn(&Extender, &[u8], u64) -> Result<ExtenderAnswer> =
        match (request.method(), path.as_str()) {
            (&Method::GET, "/healthz") => return reply(StatusCode::OK, "\"ok\"".to_owned()),
            (&Method::POST, "/filter") => Extender::filter,
            (&Method::POST, "/prioritize") => Extender::prioritize,
            _ => return reply(StatusCode::NOT_FOUND, "\"no such path\"".to_owned()),
        };
    let body = match timeout(BODY_TIME, document(request.into_body())).await {
        Ok(Ok(body)) => body,
        Ok(Err(Refusal::TooLong)) => {
            let said = json!({ "Error": format!("expected a body of at most {MOST_BYTES} bytes") });
            return reply(StatusCode::PAYLOAD_TOO_LARGE, said.to_string());
        }
        Ok(Err(Refusal::NoDocument)) => {
            let said = json!({ "Error": "no ExtenderArgs: expected a JSON object" });
            return reply(StatusCode::BAD_REQUEST, said.to_string());
        }
        Ok(Err(Refusal::Cut)) | Err(_) => {
            return reply(StatusCode::BAD_REQUEST, "\"no whole body\"".to_owned());
        }
    };
    match question(&server.extender, &body, now_s()) {
        Ok(answer) => {
            let lines = answer.assumed.iter().map(|one| format!("assumed: {one}"));
            server.say(&lines.collect::<Vec<_>>());
            reply(StatusCode::OK, answer.body)
        }
        Err(error) => {
            let text = error.report();
            server.say_refused(text.trim());
            reply(StatusCode::BAD_REQUEST, json!({ "Error": text.trim() }).to_string())
        }
    }
}

/// Why a body is not taken.
enum Refusal {
    /// It has more than [`MOST_BYTES`].
    TooLong,
    /// It does not begin as a JSON object does.
    NoDocument,
    /// The connection ended before.
    Cut,
}

/// The bytes of a body. What cannot be one is given up as soon as it shows, before the rest of it is in memory.
async fn document(mut body: Incoming) -> Result<Vec<u8>, Refusal> {
    if body.size_hint().lower() > MOST_BYTES as u64 {
        return Err(Refusal::TooLong);
    }
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Refusal::Cut)?.into_data() else { continue };
        if bytes.len() + data.len() > MOST_BYTES {
            return Err(Refusal::TooLong);
        }
        bytes.extend_from_slice(&data);
        let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        if first.is_some_and(|&first| first != b'{') {
            return Err(Refusal::NoDocument);
        }
    }
    Ok(bytes)
}

impl Server {
    /// Says why a request was refused, so many a minute at most: who asks chooses what the reason quotes.
    fn say_refused(&self, why: &str) {
        let Ok(mut refused) = self.refused.lock() else { return };
        if refused.since.is_none_or(|since| since.elapsed() >= MINUTE) {
            *refused = Refused { since: Some(Instant::now()), count: 0 };
        }
        refused.count += 1;
        match refused.count {
            ..=MOST_REFUSED => self.say(&[why.to_owned()]),
            count if count == MOST_REFUSED + 1 => {
                tell("more requests are refused: for a minute no more of them are told");
            }
            _ => {}
        }
    }

    /// Says what has not been said before.
    fn say(&self, lines: &[String]) {
        let Ok(mut said) = self.said.lock() else { return };
        let new: Vec<&String> = lines.iter().filter(|line| said.is_new(line)).collect();
        for line in new.iter().take(MOST_LINES) {
            tell(line);
        }
        if new.len() > MOST_LINES {
            tell(format_args!("and {} assumptions more", new.len() - MOST_LINES));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream as Client;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::Seats;
    use corun_app::{find_machine, open_library};

    fn server() -> Arc<Server> {
        let library = open_library(None).unwrap();
        let machine = find_machine("xeon-x5365").unwrap();
        let machines = vec![(machine.name().to_owned(), machine, Seats::Cores)];
        let extender = Extender::new(machines, &library, Default::default(), 300).unwrap();
        Arc::new(Server { extender, said: Mutex::default(), refused: Mutex::default() })
    }

    /// Serves one connection to a client for so long, who is told when the connection is no longer served. What the client
    /// says of it.
    fn served<T: Send + 'static>(
        open: Duration,
        client: impl FnOnce(Client, Receiver<()>) -> T + Send + 'static,
    ) -> T {
        let server = server();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (over, is_over) = channel();
            let client =
                std::thread::spawn(move || client(Client::connect(address).unwrap(), is_over));
            let connections = Connections::new(Allowance { strangers: 1, admitted: 0 });
            let times = Times { open, last_answer: Duration::from_millis(300) };
            let mut serving = pin!(corun_http::accept(
                &listener,
                &connections,
                |_| {},
                |stream, standing| {
                    let (server, over) = (server.clone(), over.clone());
                    async move {
                        serve(stream, standing, server, times).await;
                        let _ = over.send(());
                    }
                }
            ));
            while !client.is_finished() {
                let _ = timeout(Duration::from_millis(10), serving.as_mut()).await;
            }
            client.join().unwrap()
        })
    }

    /// An answer of 32 MB, more than the buffers of both ends hold, and a client that reads none of it.
    #[test]
    fn who_does_not_read_the_answer_is_let_go() {
        served(Duration::from_millis(200), |mut client, is_over| {
            let filler = "x".repeat(16 << 10);
            let node = json!({ "metadata": { "name": "n", "annotations": { "filler": filler } } });
            let pod = json!({ "metadata": { "name": "p" }, "spec": { "containers": [] } });
            let body = json!({ "Pod": pod, "Nodes": { "items": vec![node; 2000] } }).to_string();
            let length = body.len();
            let head =
                format!("POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
            // The connection may be over before all is sent.
            let _ = client.write_all((head + &body).as_bytes());
            is_over.recv_timeout(Duration::from_secs(60)).unwrap();
        });
    }

    #[test]
    fn who_sends_no_whole_body_keeps_nobody_out() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let cancel = Cancel::default();
            let stop = cancel.clone();
            let client = std::thread::spawn(move || {
                let begun = |_| {
                    let mut one = Client::connect(address).unwrap();
                    let head = b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{";
                    one.write_all(head).unwrap();
                    one
                };
                let mut slow: Vec<Client> = (0..STRANGERS).map(begun).collect();
                let mut other = Client::connect(address).unwrap();
                other
                    .write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                    .unwrap();
                let mut answer = String::new();
                other.read_to_string(&mut answer).unwrap();
                // The oldest was ended without an answer: its time for a body was not waited for.
                let mut of_oldest = Vec::new();
                let _ = slow[0].read_to_end(&mut of_oldest);
                stop.flag().store(true, std::sync::atomic::Ordering::SeqCst);
                (answer, of_oldest)
            });
            accept(&listener, &server(), &cancel).await;
            let (answer, of_oldest) = client.join().unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
            assert_eq!(of_oldest, b"");
        });
    }

    /// Of 90 MB that are announced, and of 70 that are no document, the answer comes before they do.
    #[test]
    fn a_body_that_cannot_be_one_is_refused_before_it_is_read() {
        for (length, begun, status) in [
            (90 << 20, "", "HTTP/1.1 413"),
            (70 << 20, "  x", "HTTP/1.1 400"),
            (90 << 20, "{", "HTTP/1.1 413"),
        ] {
            let answer = served(Duration::from_secs(20), move |mut client, _| {
                let head =
                    format!("POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
                client.write_all((head + begun).as_bytes()).unwrap();
                let mut answer = [0; 12];
                client.read_exact(&mut answer).unwrap();
                String::from_utf8(answer.to_vec()).unwrap()
            });
            assert_eq!(answer, status, "{length} {begun}");
        }
    }

    #[test]
    fn of_requests_that_are_refused_some_a_minute_are_told() {
        let server = server();
        for number in 0..1000 {
            server.say_refused(&format!("wrong {number}"));
        }
        assert_eq!(server.said.lock().unwrap().lines.len(), MOST_REFUSED);
    }

    #[test]
    fn who_keeps_asking_is_answered_to_the_last_request() {
        // On a busy machine the first answer takes a while.
        let is_answered = [1, 10, 60].into_iter().any(|seconds| {
            served(Duration::from_secs(seconds), |mut client, is_over| {
                let mut answers = 0;
                loop {
                    let mut answer = [0; 4096];
                    let asked = client.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
                    let read = asked.and_then(|()| client.read(&mut answer)).unwrap_or(0);
                    if read == 0 {
                        break;
                    }
                    assert!(answer.starts_with(b"HTTP/1.1 200 OK"));
                    answers += 1;
                    std::thread::sleep(Duration::from_millis(10));
                }
                is_over.recv_timeout(Duration::from_secs(60)).unwrap();
                answers > 0
            })
        });
        assert!(is_answered);
    }
}
