//! Connects to a NATS server, with the login that the config names, or says why it cannot.
//!
//! Owns all secrets from the moment when they are read until the client has them.
//!
//! # Invariants
//! - No secret appears in an error, in a log, or in the URL that the client gets.
//! - A new connection does not send what a lost connection had not sent: the records would arrive
//!   out of order.

use std::{
    error::Error,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::{
    Client, ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerAddr,
    rustls::{self, AlertDescription, CertificateError},
};
use tokio::sync::mpsc;

use crate::config::nats::{MissingVariableError, NatsConfig, NatsLogin, Secret};

/// How long an attempt to connect may take.
const REACHING: Duration = Duration::from_secs(5);
/// How often the client pings the server. The client treats three unanswered pings in a row as a
/// lost connection, so it notices within 8 seconds that a server has vanished.
const PING: Duration = Duration::from_millis(2_500);
/// How long a client waits that must not reconnect.
const NEVER: Duration = Duration::from_hours(24 * 365);

/// Why a connection failed, as text for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NatsError(pub String);

impl From<MissingVariableError> for NatsError {
    fn from(missing: MissingVariableError) -> Self {
        Self(missing.to_string())
    }
}

impl From<io::Error> for NatsError {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// Whether a client connects again by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconnectPolicy {
    /// The client reconnects until it succeeds.
    ByItself,
    /// The owner makes a new client, and first checks which of the sent messages the stream has.
    Never,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NatsConnectionEvent {
    /// Connected for the first time or again.
    Connected,
    Lost,
    /// The server refuses an operation. Carries the server's message.
    Refused(String),
}

/// Connects. The receiver gets the events of the connection.
pub async fn connect(
    nats: &NatsConfig,
    again: ReconnectPolicy,
) -> Result<(Client, mpsc::UnboundedReceiver<NatsConnectionEvent>), ConnectProblem> {
    let (servers, options) = prepared(nats)?;
    let (tell, events) = mpsc::unbounded_channel();
    let connected = Arc::new(AtomicBool::new(false));
    let was_connected = Arc::clone(&connected);
    let options = options
        .name("creel")
        .no_echo()
        .connection_timeout(REACHING)
        .ping_interval(PING)
        .reconnect_delay_callback(move |attempts| match again {
            ReconnectPolicy::Never if was_connected.load(Ordering::Relaxed) => NEVER,
            ReconnectPolicy::Never | ReconnectPolicy::ByItself => pause(attempts.saturating_sub(1)),
        })
        .event_callback(move |event| {
            if let Some(events) = as_event(&event) {
                let _ = tell.send(events);
            }
            std::future::ready(())
        });
    let client = options
        .connect(servers)
        .await
        .map_err(|error| ConnectProblem::from(&error))?;
    connected.store(true, Ordering::Relaxed);
    Ok((client, events))
}

/// How long to wait before the next attempt: up to 5 seconds.
pub fn pause(attempts: usize) -> Duration {
    const FIRST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(5);
    let doublings = u32::try_from(attempts.saturating_sub(1))
        .unwrap_or(u32::MAX)
        .min(10);
    if attempts == 0 {
        Duration::ZERO
    } else {
        (FIRST * 2_u32.pow(doublings)).min(LONGEST)
    }
}

fn as_event(event: &Event) -> Option<NatsConnectionEvent> {
    match event {
        Event::Connected => Some(NatsConnectionEvent::Connected),
        Event::Disconnected | Event::Closed => Some(NatsConnectionEvent::Lost),
        Event::ServerError(error) => Some(NatsConnectionEvent::Refused(error.to_string())),
        Event::LameDuckMode | Event::Draining | Event::SlowConsumer(_) | Event::ClientError(_) => {
            None
        }
    }
}

/// Reads the addresses and the login from the config, from variables and from files.
fn prepared(nats: &NatsConfig) -> Result<(Vec<ServerAddr>, ConnectOptions), NatsError> {
    let variable = |name: &str| std::env::var(name).ok();
    let mut servers = Vec::new();
    let mut in_url = None;
    for ServerUrl { url, login } in addresses(&nats.url, variable)? {
        in_url = in_url.or(login);
        // The parser's error would quote the URL, which may contain a secret.
        servers.push(
            url.parse::<ServerAddr>()
                .map_err(|_| NatsError("`nats.url` names no server".to_owned()))?,
        );
    }
    let options = ConnectOptions::new();
    let of_user = |user: String, password: String| {
        // The rights of a server can keep users apart only if each has its own place for replies.
        let options = match inbox_of(&user) {
            Some(inbox) => ConnectOptions::new().custom_inbox_prefix(inbox),
            None => ConnectOptions::new(),
        };
        options.user_and_password(user, password)
    };
    let options = match (&nats.login, in_url) {
        (NatsLogin::User { user, password }, _) => {
            of_user(user.reveal(variable)?, password.reveal(variable)?)
        }
        (NatsLogin::Token(token), _) => options.token(token.reveal(variable)?),
        (NatsLogin::Nkey(file), _) => options.nkey(read(file)?.trim().to_owned()),
        (NatsLogin::Credentials(file), _) => options
            .credentials(&read(file)?)
            .map_err(|_| NatsError(format!("{} contains no credentials", file.display())))?,
        (NatsLogin::AsTheUrlSays, Some(UrlLogin::User { user, password })) => {
            of_user(user, password)
        }
        (NatsLogin::AsTheUrlSays, Some(UrlLogin::Token(token))) => options.token(token),
        (NatsLogin::AsTheUrlSays, None) => options,
    };
    let mut options = options.require_tls(nats.tls.required);
    if let Some(ca) = &nats.tls.ca {
        options = options.add_root_certificates(ca.clone());
    }
    if let Some((cert, key)) = &nats.tls.own {
        options = options.add_client_certificate(cert.clone(), key.clone());
    }
    Ok((servers, options))
}

/// Where a user receives replies. None for a name that is no part of a subject.
fn inbox_of(user: &str) -> Option<String> {
    // With a dot, it would be below the place of another user.
    let is_token =
        !user.is_empty() && !user.contains(|c: char| c.is_whitespace() || ".*>".contains(c));
    is_token.then(|| format!("_INBOX.{user}"))
}

/// Where the records of a session go: the stream, the prefix of its subjects and the server.
/// Contains no secret.
pub fn destination(nats: &NatsConfig) -> String {
    let servers = addresses(&nats.url, |name| std::env::var(name).ok());
    // If a variable is missing, creel cannot connect, and sends nothing to this destination.
    let servers = servers.map_or_else(
        |_| nats.shown(),
        |servers| {
            servers
                .into_iter()
                .map(|server| server.url)
                .collect::<Vec<_>>()
                .join(",")
        },
    );
    format!("{} {} {servers}", nats.stream.name, nats.prefix)
}

#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
struct ServerUrl {
    /// Without the login.
    url: String,
    login: Option<UrlLogin>,
}

/// The login in a URL.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
enum UrlLogin {
    User { user: String, password: String },
    Token(String),
}

/// The servers that a URL names. A variable can stand for a user, a password or a token, whose
/// value is then used as it is. It can also stand for one or several URLs.
fn addresses(
    url: &Secret,
    variable: impl Fn(&str) -> Option<String> + Copy,
) -> Result<Vec<ServerUrl>, MissingVariableError> {
    let mut all = Vec::new();
    for piece in url.split(',') {
        if piece.rsplit_once('@').is_some() {
            all.push(address(&piece, variable)?);
            continue;
        }
        let revealed = Secret::new(piece.reveal(variable)?);
        for piece in revealed.split(',') {
            // The value of a variable is not expanded again.
            all.push(address(&piece, |name| Some(format!("${{{name}}}")))?);
        }
    }
    all.retain(|address| !address.url.ends_with("://"));
    Ok(all)
}

fn address(
    url: &Secret,
    variable: impl Fn(&str) -> Option<String> + Copy,
) -> Result<ServerUrl, MissingVariableError> {
    let (scheme, rest) = url
        .split_once("://")
        .unwrap_or_else(|| (Secret::new("nats"), url.clone()));
    let (login, place) = rest
        .rsplit_once('@')
        .map_or((None, rest), |(login, place)| (Some(login), place));
    let reveal = |secret: &Secret| secret.reveal_as(decoded, variable);
    let login = match login.map(|login| login.split_once(":").ok_or(login)) {
        None => None,
        Some(Ok((user, password))) => Some(UrlLogin::User {
            user: reveal(&user)?,
            password: reveal(&password)?,
        }),
        Some(Err(token)) => Some(UrlLogin::Token(reveal(&token)?)),
    };
    Ok(ServerUrl {
        url: format!("{}://{}", scheme.reveal(variable)?, place.reveal(variable)?),
        login,
    })
}

fn read(file: &std::path::Path) -> Result<String, NatsError> {
    std::fs::read_to_string(file)
        .map_err(|error| NatsError(format!("cannot read {}: {error}", file.display())))
}

/// `%40` in a user's name or password is `@`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after
            .get(..2)
            .and_then(|hex| str::from_utf8(hex).ok())
            .filter(|_| *first == b'%');
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A failed attempt to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectProblem {
    pub reason: String,
    /// What to do, if creel knows.
    pub advice: Option<&'static str>,
}

const LOGIN: &str = "set `user` and `password`, `token`, `nkey` or `credentials` under `nats:`, or put the user into the URL";
const PLACE: &str = "check that the server is running, and the host and port of its URL";

impl From<NatsError> for ConnectProblem {
    fn from(NatsError(reason): NatsError) -> Self {
        Self {
            reason,
            advice: None,
        }
    }
}

impl From<ConnectProblem> for NatsError {
    fn from(problem: ConnectProblem) -> Self {
        Self(problem.reason)
    }
}

impl From<&ConnectError> for ConnectProblem {
    fn from(error: &ConnectError) -> Self {
        use ConnectErrorKind as Kind;
        let cause = error
            .source()
            .map(|cause| format!(": {}", without_number(&cause.to_string())))
            .unwrap_or_default();
        let (reason, advice) = match (error.kind(), tls_error(error)) {
            (_, Some(tls)) => return Self::of_tls(tls),
            (Kind::AuthorizationViolation | Kind::Authentication, None) => {
                ("the server refused the login".to_owned(), LOGIN)
            }
            (Kind::TimedOut, None) => ("the server does not answer".to_owned(), PLACE),
            (Kind::Tls, None) => (
                format!("the encrypted connection failed{cause}"),
                "check the files under `nats: { tls: … }`: `ca`, `cert` and `key`",
            ),
            (Kind::Dns, None) => (
                format!("creel cannot find the server{cause}"),
                "check the host in its URL",
            ),
            (Kind::Io | Kind::ServerParse | Kind::MaxReconnects, None) => {
                (format!("creel cannot reach the server{cause}"), PLACE)
            }
        };
        Self {
            reason,
            advice: Some(advice),
        }
    }
}

impl ConnectProblem {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the library's enums grow, and its own words are good enough"
    )]
    fn of_tls(error: &rustls::Error) -> Self {
        let (reason, advice) = match error {
            rustls::Error::InvalidMessage(_) => (
                "the server does not speak TLS on this port".to_owned(),
                "begin the URL with `nats://` if the server has no TLS, or name the port that has it",
            ),
            rustls::Error::InvalidCertificate(certificate) => of_certificate(certificate),
            rustls::Error::AlertReceived(
                AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
                | AlertDescription::UnknownCA
                | AlertDescription::CertificateUnknown,
            ) => (
                "the server requires a client certificate, or does not accept the one that creel sent".to_owned(),
                "set `nats: { tls: { cert: FILE, key: FILE } }` to a certificate that the server knows",
            ),
            other => (
                format!("the encrypted connection failed: {other}"),
                "check the server's TLS settings and those under `nats: { tls: … }`",
            ),
        };
        Self {
            reason,
            advice: Some(advice),
        }
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the library's enum grows, and its own words are good enough"
)]
fn of_certificate(error: &CertificateError) -> (String, &'static str) {
    match error {
        CertificateError::UnknownIssuer => (
            "creel does not know the authority that issued the server's certificate".to_owned(),
            "name the authority's file: `nats: { tls: { ca: FILE } }`",
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => (
            "the server's certificate has expired".to_owned(),
            "renew it on the server, and check the clock of this machine",
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => (
            "the server's certificate is not valid yet".to_owned(),
            "check the clock of this machine",
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
            "the server's certificate is for another host name".to_owned(),
            "use the host name of the certificate in the URL",
        ),
        other => (
            format!("creel does not accept the server's certificate: {other:?}"),
            "renew it on the server, or name its authority: `nats: { tls: { ca: FILE } }`",
        ),
    }
}

/// The error of the TLS library, wherever it is in the chain of causes.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        let inside = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        let found = error.downcast_ref().or_else(|| inside?.downcast_ref());
        if found.is_some() {
            return found;
        }
        next = error.source();
    }
    None
}

/// `Connection refused (os error 111)` without the number, which differs between systems.
fn without_number(text: &str) -> String {
    text.split(" (os error").next().unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use rustls::InvalidMessage;

    use super::*;

    #[test]
    fn what_a_url_cannot_hold_is_written_by_its_number() {
        assert_eq!(decoded("p%40ss%3a%25"), "p@ss:%");
        assert_eq!(decoded("100%"), "100%");
    }

    #[test]
    fn a_variable_in_a_url_is_taken_as_it_is() {
        let variable = |name: &str| match name {
            "ODD" => Some("a,b:c@d%41".to_owned()),
            "URLS" => Some("nats://me:p%40ss@one, nats://two:4222".to_owned()),
            _ => None,
        };
        let read = |url: &str| addresses(&Secret::new(url), variable);
        let with = |url: &str, login| ServerUrl {
            url: url.to_owned(),
            login,
        };
        let odd = || "a,b:c@d%41".to_owned();
        let token = Some(UrlLogin::Token(odd()));
        assert_eq!(
            read("nats://${ODD}@host"),
            Ok(vec![with("nats://host", token)])
        );
        let user = Some(UrlLogin::User {
            user: "m e".to_owned(),
            password: odd(),
        });
        assert_eq!(
            read("tls://m%20e:${ODD}@a, b:1"),
            Ok(vec![with("tls://a", user), with("nats://b:1", None)])
        );
        let user = Some(UrlLogin::User {
            user: "me".to_owned(),
            password: "p@ss".to_owned(),
        });
        assert_eq!(
            read("${URLS}"),
            Ok(vec![
                with("nats://one", user),
                with("nats://two:4222", None)
            ])
        );
        assert_eq!(
            read("nats://${GONE}@host"),
            Err(MissingVariableError("GONE".to_owned()))
        );
    }

    #[test]
    fn a_user_receives_replies_in_a_place_of_its_own() {
        assert_eq!(inbox_of("me").as_deref(), Some("_INBOX.me"));
        for odd in ["", ">", "a.*", "a b", "a.b", "a."] {
            assert_eq!(inbox_of(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_server_that_is_away_is_asked_less_often() {
        assert_eq!(
            [0, 1, 2, 3, 99].map(|n| pause(n).as_millis()),
            [0, 100, 200, 400, 5_000]
        );
    }

    fn explained(error: rustls::Error) -> String {
        // As the client returns it: inside of an I/O error.
        let error = ConnectError::with_source(
            ConnectErrorKind::Io,
            io::Error::new(io::ErrorKind::InvalidData, error),
        );
        ConnectProblem::from(&error).reason
    }

    #[test]
    fn errors_of_tls_are_explained_in_words() {
        use rustls::Error as Tls;
        assert_eq!(
            explained(Tls::InvalidMessage(InvalidMessage::InvalidContentType)),
            "the server does not speak TLS on this port"
        );
        assert_eq!(
            explained(Tls::InvalidCertificate(CertificateError::UnknownIssuer)),
            "creel does not know the authority that issued the server's certificate"
        );
        assert_eq!(
            explained(Tls::InvalidCertificate(CertificateError::NotValidForName)),
            "the server's certificate is for another host name"
        );
        assert_eq!(
            explained(Tls::InvalidCertificate(CertificateError::Expired)),
            "the server's certificate has expired"
        );
        assert_eq!(
            explained(Tls::AlertReceived(AlertDescription::BadCertificate)),
            "the server requires a client certificate, or does not accept the one that creel sent"
        );
    }

    #[test]
    fn every_problem_has_advice_and_no_error_number() {
        for kind in [
            ConnectErrorKind::Authentication,
            ConnectErrorKind::AuthorizationViolation,
            ConnectErrorKind::TimedOut,
            ConnectErrorKind::Tls,
            ConnectErrorKind::Dns,
            ConnectErrorKind::Io,
        ] {
            let cause = io::Error::from_raw_os_error(111);
            let problem = ConnectProblem::from(&ConnectError::with_source(kind, cause));
            assert!(
                problem.advice.is_some() && !problem.reason.contains("os error"),
                "{problem:?}"
            );
        }
    }
}
