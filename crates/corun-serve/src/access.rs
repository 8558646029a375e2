//! Who may ask: whoever has the link with the token, from a page of this very server.

use std::net::SocketAddr;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use corun_http::Standing;
use subtle::ConstantTimeEq;

use crate::api::{Failure, Part};

/// The page loads nothing but its own two files, and talks to its own server alone.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                              img-src 'self' data:; base-uri 'none'; form-action 'none'; \
                              frame-ancestors 'none'";

/// Bytes of a path and its query at most. The page's own are short.
const MOST_PATH_BYTES: usize = 8 << 10;
/// Random bytes of a token.
const TOKEN_BYTES: usize = 16;

/// What a request has to show.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    token: String,
    /// Where the server listens.
    address: SocketAddr,
}

impl Access {
    /// With a new random token.
    ///
    /// # Errors
    /// When the kernel has no random numbers.
    pub(crate) fn new(address: SocketAddr) -> std::io::Result<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        let token = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { token, address })
    }

    /// The link that opens the page.
    pub(crate) fn link(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token)
    }

    /// The cookie's name; servers on other ports have others.
    fn cookie_name(&self) -> String {
        format!("corun-{}", self.address.port())
    }

    fn is_token(&self, given: &str) -> bool {
        given.as_bytes().ct_eq(self.token.as_bytes()).into()
    }

    /// Does the request have the token, as a cookie or as `Authorization: Bearer TOKEN`?
    fn is_allowed(&self, headers: &HeaderMap) -> bool {
        let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        if bearer
            .and_then(|value| value.strip_prefix("Bearer "))
            .is_some_and(|one| self.is_token(one))
        {
            return true;
        }
        let name = self.cookie_name();
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        cookies
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .any(|(key, value)| key == name && self.is_token(value))
    }

    /// Is the server called by a name of this machine? A page elsewhere whose name was made to point here is
    /// not (DNS rebinding).
    fn is_own_host(&self, host: &str) -> bool {
        let port = format!(":{}", self.address.port());
        [self.address.to_string(), format!("localhost{port}")].iter().any(|name| {
            // Browsers leave the port of HTTP out.
            name == host || port == ":80" && name.strip_suffix(&port) == Some(host)
        })
    }

    fn is_own_origin(&self, origin: &str) -> bool {
        origin.strip_prefix("http://").is_some_and(|host| self.is_own_host(host))
    }
}

/// Lets a request through that may ask; every answer gets the headers that keep the page by itself.
pub(crate) async fn guard(State(access): State<Access>, request: Request, next: Next) -> Response {
    let mut response = match refusal(&access, &request) {
        Some(refused) => refused,
        None => {
            if let Some(standing) = request.extensions().get::<Standing>() {
                standing.admit();
            }
            next.run(request).await
        }
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in [
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refusal(access: &Access, request: &Request) -> Option<Response> {
    if request.uri().path_and_query().is_some_and(|path| path.as_str().len() > MOST_PATH_BYTES) {
        let why = format!("found a path of more than {MOST_PATH_BYTES} bytes");
        return Some(refused(StatusCode::URI_TOO_LONG, &why));
    }
    let headers = request.headers();
    let host = headers.get(HOST).and_then(|value| value.to_str().ok());
    if !host.is_some_and(|host| access.is_own_host(host)) {
        return Some(refused(StatusCode::MISDIRECTED_REQUEST, "another host was asked for"));
    }
    if let Some(origin) = headers.get(ORIGIN)
        && !origin.to_str().is_ok_and(|origin| access.is_own_origin(origin))
    {
        return Some(refused(StatusCode::FORBIDDEN, "another origin asks"));
    }
    if let Some(opened) = opened_by_link(access, request) {
        return Some(opened);
    }
    if !access.is_allowed(headers) {
        let why = "no token, or not that of this corun serve: open the link that it printed";
        return Some(refused(StatusCode::UNAUTHORIZED, why));
    }
    None
}

/// The printed link: the token moves from the address into a cookie.
fn opened_by_link(access: &Access, request: &Request) -> Option<Response> {
    if request.method() != Method::GET || request.uri().path() != "/" {
        return None;
    }
    let given = request.uri().query()?.strip_prefix("token=")?;
    if !access.is_token(given) {
        return None;
    }
    let cookie =
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", access.cookie_name(), access.token);
    Some(
        (StatusCode::SEE_OTHER, [(SET_COOKIE, cookie), (LOCATION, "/".to_owned())]).into_response(),
    )
}

fn refused(status: StatusCode, why: &str) -> Response {
    Failure::new(Part::Request, why).with_status(status).into_response()
}

#[cfg(test)]
mod tests {
    use super::Access;

    fn at(address: &str) -> Access {
        Access { token: String::new(), address: address.parse().unwrap() }
    }

    #[test]
    fn the_port_is_left_out_of_a_name_where_it_is_that_of_http() {
        for (address, names) in [
            ("127.0.0.1:80", ["127.0.0.1", "127.0.0.1:80", "localhost", "localhost:80"]),
            ("[::1]:80", ["[::1]", "[::1]:80", "localhost", "localhost:80"]),
        ] {
            for name in names {
                assert!(at(address).is_own_host(name), "{name}");
                assert!(at(address).is_own_origin(&format!("http://{name}")), "{name}");
            }
        }
        let (first, elsewhere) = (at("127.0.0.1:80"), at("127.0.0.1:8080"));
        for name in
            ["", "corun.example", "corun.example:80", "127.0.0.1:", "127.0.0.1:8080", "127.0.0.2"]
        {
            assert!(!first.is_own_host(name), "{name}");
        }
        assert!(elsewhere.is_own_host("localhost:8080"));
        for name in ["127.0.0.1", "localhost", "127.0.0.1:80"] {
            assert!(!elsewhere.is_own_host(name), "{name}");
        }
    }
}
