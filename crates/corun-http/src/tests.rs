//! Over a network of this machine alone.

use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream as Client};
use std::thread;

use hyper::service::service_fn;
use hyper::{Request, Response};

use super::*;

const TIMES: Times = Times { open: Duration::from_millis(400), last_answer: Duration::ZERO };

/// Serves until the client, on a thread of its own, is done. The path /me admits; /never is never answered.
fn served<T: Send + 'static>(client: impl FnOnce(SocketAddr) -> T + Send + 'static) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Connections::new(Allowance { strangers: 2, admitted: 2 });
        let answering = |stream, standing: Standing| {
            let known = standing.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let path = request.uri().path().to_owned();
                if path != "/" {
                    known.admit();
                }
                async move {
                    if path == "/never" {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, Infallible>(Response::new("hello".to_owned()))
                }
            });
            serve(stream, standing, TIMES, service)
        };
        let client = thread::spawn(move || client(address));
        let mut serving = pin!(accept(&listener, &connections, |_| {}, answering));
        while !client.is_finished() {
            let _ = timeout(Duration::from_millis(10), serving.as_mut()).await;
        }
        client.join().unwrap()
    })
}

fn begin(address: SocketAddr, said: &str) -> Client {
    let mut client = Client::connect(address).unwrap();
    client.write_all(said.as_bytes()).unwrap();
    client
}

fn head(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn answer(client: &mut Client) -> String {
    let mut bytes = [0; 1024];
    let read = client.read(&mut bytes).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

fn is_open(client: &Client) -> bool {
    client.set_nonblocking(true).unwrap();
    let blocks = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
    client.peek(&mut [0]).is_err_and(blocks)
}

#[test]
fn who_says_nothing_keeps_nobody_out() {
    served(|address| {
        let silent: Vec<Client> = (0..40).map(|_| begin(address, "GET / HTTP")).collect();
        let mut other = begin(address, &head("/"));
        assert!(answer(&mut other).starts_with("HTTP/1.1 200 OK"));
        let open = silent.iter().filter(|client| is_open(client)).count();
        assert!(open < 2, "{open} are open still");
    });
}

#[test]
fn strangers_do_not_end_the_connections_of_those_who_were_admitted() {
    served(|address| {
        let mut known = begin(address, &head("/me"));
        assert!(answer(&mut known).ends_with("hello"));
        let _silent: Vec<Client> = (0..10).map(|_| begin(address, "GET / HTTP")).collect();
        // Beyond a stranger's time.
        for _ in 0..8 {
            thread::sleep(TIMES.open / 4);
            known.write_all(head("/").as_bytes()).unwrap();
            assert!(answer(&mut known).ends_with("hello"));
        }
    });
}

#[test]
fn of_those_who_were_admitted_one_too_many_ends_the_oldest() {
    served(|address| {
        let mut waits: Vec<Client> = (0..2).map(|_| begin(address, &head("/never"))).collect();
        let mut third = begin(address, &head("/me"));
        assert!(answer(&mut third).ends_with("hello"));
        // It ends once its task has had its turn.
        waits[0].set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        assert_eq!(waits[0].read(&mut [0]).unwrap(), 0, "the oldest is open still");
        assert!(is_open(&waits[1]));
    });
}

#[test]
fn a_stranger_who_keeps_asking_is_let_go_after_a_while() {
    served(|address| {
        let mut stranger = begin(address, "");
        let asked = |_: &usize| {
            thread::sleep(TIMES.open / 10);
            stranger.write_all(head("/").as_bytes()).is_ok()
                && answer(&mut stranger).starts_with("HTTP/1.1 200 OK")
        };
        assert!((0..1000).take_while(asked).count() < 1000);
    });
}
