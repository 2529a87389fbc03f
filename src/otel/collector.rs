//! Sends requests to a collector: OTLP over HTTP/1.1, each on a connection of its own.
//!
//! # Invariants
//! - Every request ends: it has a timeout, and an answer of any length costs a bounded amount of
//!   memory.
//! - No error shows a header.

use std::{io, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName},
};

use crate::config::{
    OtelConfig,
    nats::MissingVariableError,
    otel::{OtelEncryption, OtelEndpoint},
};

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read.
const ANSWER_MAX: usize = 16 << 10;

/// Why the collector does not have a request.
#[derive(Debug, thiserror::Error)]
pub enum CollectorError {
    /// Later may be better.
    #[error("{0}")]
    Away(String),
    /// The same request would fail again.
    #[error("{0}")]
    Refused(String),
}

impl From<io::Error> for CollectorError {
    fn from(error: io::Error) -> Self {
        Self::Away(error.to_string())
    }
}

trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

pub struct Collector {
    endpoint: OtelEndpoint,
    /// The lines of the headers from the config.
    headers: String,
    tls: Option<TlsConnector>,
}

impl Collector {
    /// Reads the variables of the headers, and the certificates of the system.
    pub fn new(otel: OtelConfig) -> Result<Self, CollectorError> {
        let mut headers = String::new();
        for (name, value) in &otel.headers {
            let value = value.reveal(|name| std::env::var(name).ok());
            let value = value.map_err(|MissingVariableError(name)| {
                CollectorError::Refused(format!(
                    "`otel:` needs the environment variable `{name}`, which is not set"
                ))
            })?;
            if value.chars().any(|c| c.is_control() && c != '\t') {
                return Err(CollectorError::Refused(format!(
                    "the value of the header `{name}` has a line break or another control character"
                )));
            }
            headers += &format!("{name}: {value}\r\n");
        }
        let tls = match otel.endpoint.encryption {
            OtelEncryption::None => None,
            OtelEncryption::Tls => Some(connector()?),
        };
        Ok(Self {
            endpoint: otel.endpoint,
            headers,
            tls,
        })
    }

    /// Sends a body to a path below the endpoint.
    pub async fn post(&self, path: &str, body: &Value) -> Result<(), CollectorError> {
        let exchange = tokio::time::timeout(PATIENCE, self.exchange(path, body.to_string()));
        let answer = exchange
            .await
            .map_err(|_| CollectorError::Away("it does not answer".to_owned()))??;
        answer.judge()
    }

    async fn exchange(&self, path: &str, body: String) -> Result<HttpAnswer, CollectorError> {
        let (prefix, slash) = match self.endpoint.path.as_str() {
            "" => ("", ""),
            prefix => (prefix, "/"),
        };
        let head = format!(
            "POST {slash}{prefix}{path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: creel/{}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n{}\r\n",
            self.endpoint.authority(),
            env!("CARGO_PKG_VERSION"),
            body.len(),
            self.headers
        );
        let mut stream = self.connect().await?;
        let request = head + &body;
        let written = async {
            stream.write_all(request.as_bytes()).await?;
            stream.flush().await
        };
        let written = written.await;
        // A server can answer before it has read everything, and close.
        let answer = HttpAnswer::read(&mut *stream).await;
        match (answer, written) {
            (Ok(answer), _) => Ok(answer),
            (Err(_), Err(error)) | (Err(error), Ok(())) => Err(error.into()),
        }
    }

    async fn connect(&self) -> io::Result<Box<dyn ByteStream>> {
        let OtelEndpoint { host, port, .. } = &self.endpoint;
        let stream = TcpStream::connect((host.as_str(), *port)).await?;
        let Some(tls) = &self.tls else {
            return Ok(Box::new(stream));
        };
        let name = ServerName::try_from(host.clone())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Box::new(tls.connect(name, stream).await?))
    }
}

/// Trusts the certificates of the system.
fn connector() -> Result<TlsConnector, CollectorError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(CollectorError::Refused(
            "the system has no certificates to trust".to_owned(),
        ));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| CollectorError::Refused(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[derive(Debug, PartialEq, Eq)]
struct HttpAnswer {
    status: u16,
    body: Vec<u8>,
}

impl HttpAnswer {
    /// Reads the status, and the body if it is short. Its length only has to be right for a warning.
    async fn read(stream: &mut dyn ByteStream) -> io::Result<Self> {
        let mut bytes = Vec::new();
        let mut chunk = [0; 1024];
        loop {
            if let Some(answer) = Self::parse(&bytes) {
                return answer;
            }
            let room = ANSWER_MAX.saturating_sub(bytes.len()).min(chunk.len());
            match stream.read(&mut chunk[..room]).await? {
                0 => return Self::parse_rest(&bytes),
                read => bytes.extend_from_slice(&chunk[..read]),
            }
        }
    }

    /// None if there is more to read.
    fn parse(bytes: &[u8]) -> Option<io::Result<Self>> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let (head, body) = (String::from_utf8_lossy(&bytes[..end]), &bytes[end + 4..]);
        let mut lines = head.lines();
        let Some(status) = lines.next().and_then(status) else {
            return Some(Err(not_http()));
        };
        let length = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.trim().parse::<usize>().ok())?
        });
        let length = length.unwrap_or(0);
        let is_whole = body.len() >= length;
        is_whole.then(|| {
            Ok(Self {
                status,
                body: body[..length].to_vec(),
            })
        })
    }

    /// The connection is closed, or the answer is too long.
    fn parse_rest(bytes: &[u8]) -> io::Result<Self> {
        let head = String::from_utf8_lossy(bytes);
        let is_started = head.contains("\r\n\r\n");
        let status = head.lines().next().filter(|_| is_started).and_then(status);
        let status = status.ok_or_else(not_http)?;
        Ok(Self {
            status,
            body: Vec::new(),
        })
    }

    fn judge(&self) -> Result<(), CollectorError> {
        let status = self.status;
        match status {
            200..300 => self.rejected(),
            429 | 502 | 503 | 504 => Err(CollectorError::Away(format!("it answers with {status}"))),
            401 | 403 => Err(CollectorError::Refused(format!(
                "it refuses the login ({status}); set `headers` under `otel:`"
            ))),
            404 => Err(CollectorError::Refused(
                "it has no OTLP over HTTP there (404); check `endpoint` under `otel:`".to_owned(),
            )),
            _ => Err(CollectorError::Refused(format!("it answers with {status}"))),
        }
    }

    /// A collector can accept a request and drop a part of it.
    fn rejected(&self) -> Result<(), CollectorError> {
        let answer: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let partial = &answer["partialSuccess"];
        let dropped = ["rejectedSpans", "rejectedDataPoints"].map(|name| &partial[name]);
        let is_none =
            |count: &Value| matches!(count.as_str(), Some("0")) || count.as_u64() == Some(0);
        if dropped
            .iter()
            .all(|count| count.is_null() || is_none(count))
        {
            return Ok(());
        }
        let why = partial["errorMessage"].as_str().unwrap_or("no reason");
        let why: String = why.chars().filter(|c| !c.is_control()).take(200).collect();
        Err(CollectorError::Refused(format!("it dropped a part: {why}")))
    }
}

fn status(line: &str) -> Option<u16> {
    let mut words = line.split(' ');
    let is_http = words.next()?.starts_with("HTTP/1.");
    words.next()?.parse().ok().filter(|_| is_http)
}

fn not_http() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it does not speak HTTP")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str) -> String {
        let answer = HttpAnswer::parse(text.as_bytes())
            .unwrap_or_else(|| HttpAnswer::parse_rest(text.as_bytes()));
        let judged = answer
            .map_err(CollectorError::from)
            .and_then(|answer| answer.judge());
        judged.map_or_else(|error| format!("{error:?}"), |()| "fine".to_owned())
    }

    #[test]
    fn an_answer_says_whether_to_send_again() {
        let partial = r#"{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too \u001b old"}}"#;
        let answers = [
            "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
            "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}".to_owned(),
            "HTTP/1.1 200 OK\r\ncontent-length: 900000\r\n\r\n{}".to_owned(),
            format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{partial}",
                partial.len()
            ),
            "HTTP/1.1 200 OK\r\nContent-Length: 37\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\":0}}".to_owned(),
            "HTTP/1.1 503 Busy\r\n\r\n".to_owned(),
            "HTTP/1.1 500 Oh\r\n\r\n".to_owned(),
            "HTTP/1.1 401 No\r\n\r\n".to_owned(),
            "HTTP/1.1 404 No\r\n\r\n".to_owned(),
            "SSH-2.0-OpenSSH\r\n\r\n".to_owned(),
            "HTTP/1.1 200 O".to_owned(),
        ];
        expect_test::expect![[r#"
            fine
            fine
            fine
            Refused("it dropped a part: too  old")
            fine
            Away("it answers with 503")
            Refused("it answers with 500")
            Refused("it refuses the login (401); set `headers` under `otel:`")
            Refused("it has no OTLP over HTTP there (404); check `endpoint` under `otel:`")
            Away("it does not speak HTTP")
            Away("it does not speak HTTP")"#]]
        .assert_eq(&answers.map(|text| judged(&text)).join("\n"));
    }
}
