//! Why creel cannot connect to a NATS server, and what to do about it, in words.

use std::{error::Error, io};

use async_nats::{
    ConnectError, ConnectErrorKind,
    rustls::{self, AlertDescription, CertificateError},
};

use super::connection::NatsError;

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

    fn said(error: rustls::Error) -> String {
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
            said(Tls::InvalidMessage(InvalidMessage::InvalidContentType)),
            "the server does not speak TLS on this port"
        );
        assert_eq!(
            said(Tls::InvalidCertificate(CertificateError::UnknownIssuer)),
            "creel does not know the authority that issued the server's certificate"
        );
        assert_eq!(
            said(Tls::InvalidCertificate(CertificateError::NotValidForName)),
            "the server's certificate is for another host name"
        );
        assert_eq!(
            said(Tls::InvalidCertificate(CertificateError::Expired)),
            "the server's certificate has expired"
        );
        assert_eq!(
            said(Tls::AlertReceived(AlertDescription::BadCertificate)),
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
