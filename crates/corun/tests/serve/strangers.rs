//! Clients without the token, who say nothing and stay.

use std::io::Write as _;
use std::net::TcpStream;
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::act::{act, allowed, hold, two_cpus};
use crate::http;
use crate::live::{Busy, watching};

/// Half a request from as many clients, of whom each stays.
fn silent(server: std::net::SocketAddr, clients: usize) -> Vec<TcpStream> {
    let begun = |_| {
        let mut client = TcpStream::connect(server).unwrap();
        // The server may have ended the connection by now.
        let _ = client.write_all(b"GET / HTTP/1.1\r\nHost: ");
        client
    };
    (0..clients).map(begun).collect()
}

#[test]
fn strangers_keep_nobody_out_and_do_not_prevent_that_all_is_undone() {
    let Some([one, _]) = two_cpus() else { return };
    let folder = tempfile::tempdir().unwrap();
    let busy = Busy::new("busy");
    let (pid, before) = (busy.pid(), allowed(&busy.pid()));
    let journals = folder.path().to_str().unwrap();
    std::fs::set_permissions(journals, std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .unwrap();
    let mut server = watching(&[&busy], &["--act", "--journals", journals]);
    assert_eq!(act(&server, 0, &hold(&pid, &one)).0, 200);
    let mut live = server.live();
    live.next();
    let few = Rlimit { current: Some(80), maximum: Some(80) };
    prlimit(Pid::from_raw(server.id().cast_signed()), Resource::Nofile, few).unwrap();
    let _silent = silent(server.address, 200);
    // Who has the token is answered, and goes on seeing looks.
    let bearer = server.bearer();
    let headers = [("Authorization", bearer.as_str())];
    assert_eq!(http::get(server.address, "/api/v1/session", &headers).status, 200);
    (0..3).for_each(|_| drop(live.next()));
    assert_eq!(allowed(&pid), one);
    let _more = silent(server.address, 100);
    Command::new("kill").args(["-INT", &server.id().to_string()]).status().unwrap();
    server.wait();
    assert_eq!(allowed(&pid), before);
}
