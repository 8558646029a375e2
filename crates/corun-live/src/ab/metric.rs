//! Numbers that the user's own command or a Prometheus query gives.

use std::time::Duration;

use super::conduct::SubjectError;
use super::shell;

/// A number that tells how a program is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// The program, as it is called in results.
    pub name: String,
    /// Where the number comes from.
    pub source: MetricSource,
    /// What it is.
    pub kind: MetricKind,
}

/// Where a number comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricSource {
    /// A command for the shell that prints it.
    Command(String),
    /// A query to Prometheus.
    Prometheus {
        /// The server: `http://localhost:9090`.
        url: String,
        /// The query; its answer has to be one number.
        query: String,
    },
}

/// What a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A value of the moment, such as requests a second.
    Value,
    /// A count that grows; its growth a second is what is compared.
    Count,
}

/// How long Prometheus may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most of an answer that is read.
const MOST_BYTES: u64 = 1 << 20;

impl Metric {
    /// The number now.
    ///
    /// # Errors
    /// When there is none, with what was found and what is expected.
    pub fn read(&self) -> Result<f64, SubjectError> {
        let (number, from) = match &self.source {
            MetricSource::Command(line) => {
                (shell::output(line, shell::PATIENCE).and_then(|text| number(&text)), line)
            }
            MetricSource::Prometheus { url, query } => (asked(url, query), query),
        };
        number.map_err(|why| SubjectError(format!("metric `{}` (`{from}`): {why}", self.name)))
    }
}

/// A number at or above zero.
fn number(text: &str) -> Result<f64, String> {
    let found = || {
        let short: String = text.chars().take(60).filter(|one| !one.is_control()).collect();
        if short.is_empty() { "nothing".to_owned() } else { format!("`{short}`") }
    };
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        Ok(_) => Err(format!("gave {}, expected a number that is not negative", found())),
        Err(_) => Err(format!("printed {}, expected one number and nothing else", found())),
    }
}

fn asked(url: &str, query: &str) -> Result<f64, String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        // Prometheus explains its refusals in the answer.
        .http_status_as_error(false)
        .build()
        .into();
    let address = format!("{}/api/v1/query", url.trim_end_matches('/'));
    let failed = |error: ureq::Error| format!("no answer from {address}: {error}");
    let mut answer = agent.get(&address).query("query", query).call().map_err(failed)?;
    let text = answer.body_mut().with_config().limit(MOST_BYTES).read_to_string();
    answered(&text.map_err(failed)?)
}

/// The one number in Prometheus's answer.
fn answered(text: &str) -> Result<f64, String> {
    let Ok(answer) = serde_json::from_str::<serde_json::Value>(text) else {
        return Err("the server's answer is no JSON: is it Prometheus?".to_owned());
    };
    if answer["status"] != "success" {
        let why = answer["error"].as_str().unwrap_or("without a reason");
        return Err(format!("Prometheus refuses the query: {why}"));
    }
    let data = &answer["data"];
    let pair = match (data["resultType"].as_str(), data["result"].as_array()) {
        (Some("scalar"), _) => &data["result"],
        (Some("vector"), Some(series)) => match &series[..] {
            [one] => &one["value"],
            [] => return Err("the query finds nothing".to_owned()),
            more => {
                let count = more.len();
                return Err(format!("the query finds {count} series, expected one: sum(..)?"));
            }
        },
        _ => return Err("expected a query whose answer is one number".to_owned()),
    };
    number(pair[1].as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    fn metric(source: MetricSource) -> Metric {
        Metric { name: "web".to_owned(), source, kind: MetricKind::Value }
    }

    #[test]
    fn a_command_prints_one_number() {
        let read = |line: &str| metric(MetricSource::Command(line.to_owned())).read();
        assert_eq!(read("echo 12.5"), Ok(12.5));
        for (line, words) in [
            ("echo 12 requests", "printed `12 requests`, expected one number"),
            ("true", "printed nothing"),
            ("echo nan", "gave `nan`"),
            ("echo -3", "not negative"),
            ("no-such-program-here", "ended with exit status: 127"),
        ] {
            let error = read(line).unwrap_err().0;
            assert!(error.starts_with("metric `web`") && error.contains(words), "{error}");
        }
    }

    #[test]
    fn answers_of_prometheus_are_read() {
        let vector = |series: &str| {
            format!(
                r#"{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}"#
            )
        };
        let one = r#"{"metric":{},"value":[1700000000.1,"42.5"]}"#;
        assert_eq!(answered(&vector(one)), Ok(42.5));
        let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"7"]}}"#;
        assert_eq!(answered(scalar), Ok(7.0));
        for (answer, words) in [
            (vector(""), "finds nothing"),
            (vector(&format!("{one},{one}")), "2 series"),
            (r#"{"status":"error","error":"parse error"}"#.to_owned(), "refuses the query: parse"),
            ("<html>".to_owned(), "is it Prometheus?"),
            (vector(r#"{"value":[1,"NaN"]}"#), "`NaN`"),
            (
                r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#.to_owned(),
                "one",
            ),
        ] {
            let error = answered(&answer).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn prometheus_is_asked_over_http() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
                request.push(byte[0]);
            }
            let body = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"3"]}}"#;
            let length = body.len();
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
            String::from_utf8(request).unwrap()
        });
        let query = "sum(rate(x[1m]))".to_owned();
        let asked = metric(MetricSource::Prometheus { url, query }).read();
        assert_eq!(asked, Ok(3.0));
        let request = server.join().unwrap();
        assert!(request.starts_with("GET /api/v1/query?query=sum"), "{request}");
        let closed = MetricSource::Prometheus {
            url: "http://127.0.0.1:1".to_owned(),
            query: "up".to_owned(),
        };
        assert!(metric(closed).read().unwrap_err().0.contains("no answer from http://127.0.0.1:1"));
    }
}
