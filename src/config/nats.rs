//! Reads `nats:`: the server, the login and the stream.
//!
//! Owns its validation and the texts that can contain a secret. Does not resolve a secret: creel
//! does that when it connects, so that no plan and no record contains one.
//!
//! # Invariants
//! - A [`Secret`] is never shown, neither by `Debug` nor in a message.
//! - A prefix and a stream name are plain, so no wildcard can get into a subject.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::{
    diagnostic::{DiagnosticReport, quoted},
    fields::ConfigFields,
    keys::{NATS, NATS_TLS},
    node::{ConfigNode, NodeKind},
    paths,
};
use crate::engine::time::TimeSpan;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsConfig {
    /// As written. It can contain a user and a password.
    pub url: Secret,
    pub login: NatsLogin,
    pub tls: NatsTls,
    /// What every subject begins with.
    pub prefix: String,
    /// Whose queue to use. Else the project's root commit names it.
    pub queue: Option<String>,
    /// The stream for the records.
    pub stream: NatsStreamPlan,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NatsLogin {
    /// As the URL says, or without a login.
    AsTheUrlSays,
    User {
        user: Secret,
        password: Secret,
    },
    Token(Secret),
    /// A file with the seed of an nkey.
    Nkey(PathBuf),
    /// A credentials file.
    Credentials(PathBuf),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NatsTls {
    pub required: bool,
    /// Certificates to trust besides those of the system.
    pub ca: Option<PathBuf>,
    /// The client certificate and its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// The settings for a stream that creel has to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsStreamPlan {
    pub name: String,
    pub replicas: usize,
    /// Zero means forever.
    pub max_age: TimeSpan,
    /// Zero means no limit.
    pub max_bytes: i64,
}

/// A text that is never shown. `${NAME}` in it is an environment variable.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable `{0}`, which `nats:` needs for the login, is not set")]
pub struct MissingVariableError(pub String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text with its variables replaced.
    pub fn reveal(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<String, MissingVariableError> {
        self.reveal_as(str::to_owned, variable)
    }

    /// Like [`Self::reveal`], but converts the text outside of variables with `read`.
    pub fn reveal_as(
        &self,
        read: impl Fn(&str) -> String,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<String, MissingVariableError> {
        let mut all = String::new();
        let mut rest = self.0.as_str();
        while let Some((before, name, after)) = placeholder(rest) {
            all += &read(before);
            all += &variable(name).ok_or_else(|| MissingVariableError(name.to_owned()))?;
            rest = after;
        }
        Ok(all + &read(rest))
    }

    pub(super) fn variables(&self) -> Vec<&str> {
        let mut names = Vec::new();
        let mut rest = self.0.as_str();
        while let Some((_, name, after)) = placeholder(rest) {
            names.push(name);
            rest = after;
        }
        names
    }

    /// Splits the text as written. A separator in a variable's value does not count.
    pub fn split(&self, sign: char) -> impl Iterator<Item = Self> {
        self.0.split(sign).map(|piece| Self::new(piece.trim()))
    }

    /// Splits the text as written.
    pub fn split_once(&self, text: &str) -> Option<(Self, Self)> {
        self.0
            .split_once(text)
            .map(|(before, after)| (Self::new(before), Self::new(after)))
    }

    /// Splits the text as written.
    pub fn rsplit_once(&self, sign: char) -> Option<(Self, Self)> {
        self.0
            .rsplit_once(sign)
            .map(|(before, after)| (Self::new(before), Self::new(after)))
    }
}

/// The text before the first `${NAME}`, the name, and the text after it.
fn placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("${")?;
    let (name, after) = rest.split_once('}')?;
    Some((before, name, after))
}

impl NatsConfig {
    /// A server from the command line. Other settings come from the config, if there is one.
    pub fn named(url: &str, config: Option<Self>) -> Result<Self, NatsUrlError> {
        check_url(url)?;
        let rest = config.unwrap_or_else(|| Self {
            url: Secret::new(""),
            login: NatsLogin::AsTheUrlSays,
            tls: NatsTls::default(),
            prefix: "creel".to_owned(),
            queue: None,
            stream: NatsStreamPlan {
                name: "CREEL".to_owned(),
                replicas: 1,
                max_age: TimeSpan(0),
                max_bytes: 0,
            },
        });
        let login = if has_login(url) {
            NatsLogin::AsTheUrlSays
        } else {
            rest.login.clone()
        };
        Ok(Self {
            url: Secret::new(url),
            login,
            ..rest
        })
    }

    /// The variables for which `is_set` is false, without duplicates.
    pub fn missing_variables(&self, is_set: impl Fn(&str) -> bool) -> Vec<&str> {
        let login: &[&Secret] = match &self.login {
            NatsLogin::User { user, password } => &[user, password],
            NatsLogin::Token(token) => &[token],
            NatsLogin::AsTheUrlSays | NatsLogin::Nkey(_) | NatsLogin::Credentials(_) => &[],
        };
        let mut missing: Vec<&str> = Vec::new();
        for name in std::iter::once(&self.url)
            .chain(login.iter().copied())
            .flat_map(Secret::variables)
        {
            if !is_set(name) && !missing.contains(&name) {
                missing.push(name);
            }
        }
        missing
    }

    /// The files for the login and for TLS.
    pub fn files(&self) -> Vec<&Path> {
        let login = match &self.login {
            NatsLogin::Nkey(file) | NatsLogin::Credentials(file) => Some(file),
            NatsLogin::AsTheUrlSays | NatsLogin::User { .. } | NatsLogin::Token(_) => None,
        };
        let own = self
            .tls
            .own
            .iter()
            .flat_map(|(certificate, key)| [certificate, key]);
        login
            .into_iter()
            .chain(&self.tls.ca)
            .chain(own)
            .map(PathBuf::as_path)
            .collect()
    }

    /// The URL without the login.
    pub fn shown(&self) -> String {
        let places = self.url.0.split(',').map(|url| {
            let (scheme, rest) = url.trim().split_once("://").unwrap_or(("nats", url.trim()));
            format!(
                "{scheme}://{}",
                rest.rsplit_once('@').map_or(rest, |(_, place)| place)
            )
        });
        places.collect::<Vec<_>>().join(",")
    }
}

pub fn has_login(url: &str) -> bool {
    url.contains('@')
}

/// Why a URL names no NATS server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NatsUrlError {
    /// Carries the scheme in quotes.
    #[error("creel does not support {0}; begin the URL with `nats://` or `tls://`")]
    OtherScheme(String),
    #[error("the URL has no server; write it like `nats://HOST:4222`")]
    NoServer,
}

/// Checks a list of URLs. The message does not show them, because they can contain a secret.
fn check_url(text: &str) -> Result<(), NatsUrlError> {
    for url in text.split(',').map(str::trim) {
        let (scheme, rest) = url.split_once("://").unwrap_or(("nats", url));
        if !["nats", "tls"].contains(&scheme) && !scheme.contains("${") {
            return Err(NatsUrlError::OtherScheme(quoted(scheme)));
        }
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        if place.contains("${") {
            continue;
        }
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            Some(_) | None => (place, None),
        };
        let plain =
            !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || "/?#".contains(c));
        let numbered = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
        if !plain || !numbered {
            return Err(NatsUrlError::NoServer);
        }
    }
    Ok(())
}

pub(super) fn lower(
    report: &mut DiagnosticReport,
    given: &ConfigNode,
    config: &std::path::Path,
) -> Option<NatsConfig> {
    let nats = ConfigFields::of(&NATS, Some(given));
    let beside = |key: &str| {
        nats.some_text(key)
            .map(|file| paths::folder(config).join(file))
    };
    for key in ["url", "user", "password", "token"] {
        if let Some(node) = nats.given(key)
            && let Err(why) = check_variables(node.text().unwrap_or_default())
        {
            report.error_hint(
                node.at,
                format!("`{key}`: {why}"),
                "such as `${NATS_TOKEN}`".to_owned(),
            );
        }
    }
    if let Some(node) = nats.given("url")
        && let Err(why) = check_url(node.text().unwrap_or_default())
    {
        report.error(node.at, why.to_string());
    }
    check_names(report, &nats);
    check_login(report, &nats);
    let login = match (
        nats.some_text("user"),
        nats.some_text("password"),
        nats.some_text("token"),
    ) {
        (Some(user), Some(password), _) => NatsLogin::User {
            user: Secret::new(user),
            password: Secret::new(password),
        },
        (_, _, Some(token)) => NatsLogin::Token(Secret::new(token)),
        (_, _, None) => match (beside("nkey"), beside("credentials")) {
            (Some(file), _) => NatsLogin::Nkey(file),
            (None, Some(file)) => NatsLogin::Credentials(file),
            (None, None) => NatsLogin::AsTheUrlSays,
        },
    };
    Some(NatsConfig {
        url: Secret::new(nats.some_text("url")?),
        login,
        tls: tls(report, &nats, config),
        prefix: nats.some_text("prefix")?,
        queue: nats.some_text("queue"),
        stream: NatsStreamPlan {
            name: nats.some_text("stream")?,
            replicas: nats.int("replicas"),
            max_age: nats.duration("max_age"),
            max_bytes: nats.int("max_bytes"),
        },
    })
}

pub(super) fn check_variables(text: &str) -> Result<(), &'static str> {
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let Some((_, name, after)) = placeholder(&rest[at..]) else {
            return Err("`${` is not closed");
        };
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err("the name of a variable has letters, digits and `_`");
        }
        rest = after;
    }
    Ok(())
}

/// A prefix or a name must not contain characters with a meaning in subjects.
fn check_names(report: &mut DiagnosticReport, nats: &ConfigFields<'_>) {
    let plain = |text: &str| {
        !text.is_empty()
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    if let Some(node) = nats.given("prefix")
        && !node.text().is_some_and(|text| text.split('.').all(plain))
    {
        let hint = "use letters, digits, `-` and `_`, with dots between words".to_owned();
        report.error_hint(
            node.at,
            format!("{} is not a valid prefix for subjects", shown(node)),
            hint,
        );
    }
    for (key, what) in [("stream", "stream name"), ("queue", "name for a queue")] {
        if let Some(node) = nats.given(key)
            && !node.text().is_some_and(plain)
        {
            let hint = "use letters, digits, `-` and `_`".to_owned();
            report.error_hint(
                node.at,
                format!("{} is not a valid {what}", shown(node)),
                hint,
            );
        }
    }
}

fn shown(node: &ConfigNode) -> String {
    quoted(node.text().unwrap_or_default())
}

/// Allows only one kind of login.
fn check_login(report: &mut DiagnosticReport, nats: &ConfigFields<'_>) {
    let in_url = nats
        .given("url")
        .filter(|url| url.text().is_some_and(has_login));
    let ways = ["user", "token", "nkey", "credentials"]
        .into_iter()
        .filter_map(|key| Some((key, nats.given(key)?)));
    let ways: Vec<(&str, &ConfigNode)> = in_url
        .map(|url| ("url", url))
        .into_iter()
        .chain(ways)
        .collect();
    if let [(first, _), (second, node), ..] = ways.as_slice() {
        let message = format!("`{first}` and `{second}` both set a login");
        report.error_hint(node.at, message, "keep one of them".to_owned());
    }
    match (nats.given("user"), nats.given("password")) {
        (Some(node), None) => {
            report.error_hint(
                node.at,
                "`password` is missing",
                "add the password of `user`".to_owned(),
            );
        }
        (None, Some(node)) => {
            report.error_hint(
                node.at,
                "`user` is missing",
                "add the user of this password".to_owned(),
            );
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
}

fn tls(
    report: &mut DiagnosticReport,
    nats: &ConfigFields<'_>,
    config: &std::path::Path,
) -> NatsTls {
    let Some(given) = nats.given("tls") else {
        return NatsTls::default();
    };
    if let NodeKind::Bool(required) = given.kind {
        return NatsTls {
            required,
            ..NatsTls::default()
        };
    }
    let tls = ConfigFields::of(&NATS_TLS, Some(given));
    let beside = |key: &str| {
        tls.some_text(key)
            .map(|file| paths::folder(config).join(file))
    };
    let own = match (tls.given("cert"), tls.given("key")) {
        (Some(node), None) => {
            report.error_hint(
                node.at,
                "`key` is missing",
                "add the file with the certificate's key".to_owned(),
            );
            None
        }
        (None, Some(node)) => {
            report.error_hint(
                node.at,
                "`cert` is missing",
                "add the file with the key's certificate".to_owned(),
            );
            None
        }
        (Some(_), Some(_)) | (None, None) => beside("cert").zip(beside("key")),
    };
    NatsTls {
        required: true,
        ca: beside("ca"),
        own,
    }
}
