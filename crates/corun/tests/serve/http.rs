//! Requests as bare as they can be, so that a test can send what no client would.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// A GET request with headers; `Host` is the address unless given.
pub(crate) fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Answer {
    send(address, "GET", path, headers, "")
}

/// A POST request of JSON.
pub(crate) fn post(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let json = [headers, &[("Content-Type", "application/json")]].concat();
    send(address, "POST", path, &json, body)
}

/// A stream of server-sent events, as long as it is held.
pub(crate) struct Events(BufReader<TcpStream>);

impl Events {
    pub(crate) fn open(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut stream = connect(address);
        stream.write_all(head(address, "GET", path, headers, 0).as_bytes()).unwrap();
        Self(BufReader::new(stream))
    }

    /// The document of the next event.
    pub(crate) fn next(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream ended");
            if let Some(document) = line.strip_prefix("data: ") {
                return serde_json::from_str(document).unwrap();
            }
        }
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn head(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    length: usize,
) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        head.push_str(&format!("Host: {address}\r\n"));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {length}\r\n\r\n"));
    head
}

fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut stream = connect(address);
    let head = head(address, method, path, headers, body.len());
    stream.write_all(head.as_bytes()).unwrap();
    // A server that refuses the head may not read the body.
    let _ = stream.write_all(body.as_bytes());
    let text = String::from_utf8_lossy(&read(&mut stream)).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

/// All of an answer: not every server closes the connection. What came before a reset counts.
fn read(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut part = [0; 1 << 16];
    while !is_whole(&bytes) {
        match stream.read(&mut part) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&part[..count]),
            // A read with a time limit is not begun anew by itself, as others are.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    bytes
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .to_ascii_lowercase()
        .split("content-length:")
        .nth(1)
        .and_then(|rest| rest.lines().next()?.trim().parse::<usize>().ok());
    length.is_some_and(|length| bytes.len() >= head.len() + 4 + length)
}
